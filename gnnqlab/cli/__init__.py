"""The command line: ``gnnqlab train | compare | recommend | bench | predict | systems | graphs | models | runs``.

Progress goes to standard error. With ``--json`` the last line of standard output is one JSON object, ``{"error",
"exit_code"}`` after an error. The exit code is 0 on success, 2 for wrong usage (one line: rule, value, way out), 1 if a
run failed and 130 after an interrupt.
"""

from gnnqlab.cli.line import main

__all__ = ["main"]
