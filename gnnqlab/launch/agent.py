"""The torchrun agent of one machine: import the workers' modules once, then fork the workers.

``python -m gnnqlab.launch.agent ARGUMENTS`` acts as ``torchrun ARGUMENTS``, except that it imports first, that
``--standalone`` uses the loopback only, and that it skips the slow teardown of the interpreter (0.7 s after
``import torch``).
"""

import importlib
import os
import sys
import warnings

from gnnqlab.launch.exit_codes import report_exit_codes
from gnnqlab.launch.open_files import raise_open_files
from gnnqlab.launch.signals import forward_to_guard
from gnnqlab.launch.worker_target import apply_search_path, target_of

__all__ = ["main"]


def main(arguments: list[str]) -> int:
    """Run torchrun; return its exit code."""
    # First: threads inherit the blocked signals. torchrun would end its workers at once.
    forward_to_guard()
    report_exit_codes()  # before any module imports subprocess
    raise_open_files()  # inherited by the workers
    apply_search_path()
    if "--start-method=fork" in arguments:
        # Imported once here, and shared by the forked workers, instead of once in each of them.
        for module in ("gnnqlab.train.config.run_config", target_of(arguments)):
            try:
                importlib.import_module(module.partition(":")[0])
            except Exception as error:  # the workers will raise it again and report it properly
                print(f"cannot import {module} before the workers start: {error}", file=sys.stderr)
    from torch.distributed.run import main as torchrun

    from gnnqlab.launch.loopback import register_loopback

    # Python 3.12 and later warn of a fork in a process with threads. Here these are torchrun's and its store's; a
    # worker uses none of their locks or sockets: its own store, sockets and log are opened after the fork.
    warnings.filterwarnings("ignore", r"This process .* is multi-threaded, use of fork\(\)", DeprecationWarning)
    try:
        torchrun(register_loopback(arguments))
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # without the teardown of the interpreter
