"""The whole line: its command, what a mistake in it leaves, and the exit code."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from gnnqlab import __version__
from gnnqlab.by_name import near
from gnnqlab.cli.autotune import Autotune
from gnnqlab.cli.bench import Bench
from gnnqlab.cli.compare import Compare
from gnnqlab.cli.completion import completion_script
from gnnqlab.cli.lists import Doctor, Graphs, Models, Runs, Systems
from gnnqlab.cli.notebooks import Notebooks
from gnnqlab.cli.parser import BadWords, parse
from gnnqlab.cli.trace import ExportTrace
from gnnqlab.cli.train import Train

__all__ = ["ENVIRONMENT", "main"]


@dataclass(kw_only=True)
class Completion:
    """Print what a shell needs to complete words: eval "$(gnnqlab completion bash)"."""

    shell: str
    """bash, zsh or tcsh."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        script = completion_script(self.shell, _COMMANDS)
        if not self.json:
            print(script)
        return {"script": script}


_COMMANDS: dict[str, type[Any]] = {
    re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower(): kind
    for kind in (
        Train, Compare, Autotune, Bench, Systems, Graphs, Models, Runs, ExportTrace, Doctor, Notebooks, Completion,
    )
}  # fmt: skip

ENVIRONMENT = {
    "GNNQLAB_RUNS": "folder of runs; default: runs",
    "GNNQLAB_CACHE": "folder of what can be made again: shards, timings, graphs; default: ~/.cache/gnnqlab",
    "GNNQLAB_DATA": "folder of graphs that were downloaded; default: datasets/downloads or ~/.cache/gnnqlab/data",
    "GNNQLAB_KERNELS": "native or reference: which kernels run; default: native where they are built",
    "GNNQLAB_ISA": "avx512, avx2 or scalar: instruction set of the kernels; default: the best of the processor",
    "GNNQLAB_STATIC": "1: figures without controls in notebooks",
    "GNNQLAB_PICTURES": "off: figures without pictures",
    "GNNQLAB_STARTER": "program that starts each run, as nice",
}
"""Variables that a user may set, and what each does."""

_PIPE_CLOSED = 128 + signal.SIGPIPE
"""The code that a shell gives to a program whose reader went away."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    try:
        _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever read, ``| head`` for instance, has enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # nor does Python's end complain
        raise SystemExit(_PIPE_CLOSED) from None


def _run(arguments: Sequence[str] | None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # a terminal without λ is still one
    if not words or words[0] in ("-h", "--help", "--version"):
        print(f"gnnqlab {__version__}" if words[:1] == ["--version"] else _overview())
        raise SystemExit(0 if words else 2)
    as_json = "--json" in words
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            command = _parse(words)
            result = command.run()
    except BadWords as error:
        see = f"gnnqlab {words[0]} --help" if words[0] in _COMMANDS else "gnnqlab --help"
        raise SystemExit(_complain(f"{error}; see {see}", 2, as_json)) from None
    except (ValueError, TypeError) as error:
        raise SystemExit(_complain(error, 2, as_json)) from None
    except KeyboardInterrupt:
        raise SystemExit(_complain("interrupted; the run was stopped", 130, as_json)) from None
    except BrokenPipeError:
        raise
    except (RuntimeError, OSError) as error:
        raise SystemExit(_complain(error, 1, as_json)) from None
    if command.json:
        print(json.dumps(result))
    if isinstance(command, Compare) and result["failed"]:
        raise SystemExit(1)


def _parse(words: list[str]) -> Any:
    name, *others = words
    if name not in _COMMANDS:
        raise BadWords(f"command must be one of {', '.join(_COMMANDS)}, got {name!r}{near(name, _COMMANDS)}")
    return parse(name, _COMMANDS[name], others)


def _overview() -> str:
    """Return what there is to type."""
    lines = [f"  {name:13}{(kind.__doc__ or '').partition(chr(10))[0]}" for name, kind in _COMMANDS.items()]
    about = "gnnqlab: train, understand and compare quantized distributed full-graph GNN training."
    usage = "usage: gnnqlab COMMAND [OPTIONS]\n       gnnqlab COMMAND --help\n       gnnqlab --version"
    told = [f"  {name:17}{text}" for name, text in ENVIRONMENT.items()]
    return "\n".join([usage, "", about, "", "commands:", *lines, "", "environment:", *told])


def _warn(message: Warning | str, *_where: Any, **_what: Any) -> None:
    """Show a warning as one line; where in the code it came from helps nobody at a command line."""
    print(f"gnnqlab: {message}", file=sys.stderr)


def _complain(error: Exception | str, code: int, as_json: bool) -> int:
    """Say on standard error what went wrong, for programs on standard output too; return the exit code."""
    print(f"gnnqlab: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": str(error), "exit_code": code}), flush=True)
    return code
