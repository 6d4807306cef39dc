"""Entry of the command line: select and run a command, report errors, set the exit code."""

from __future__ import annotations

import contextlib
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
from gnnqlab.by_name import did_you_mean
from gnnqlab.cli.autotune import Autotune
from gnnqlab.cli.bench import Bench
from gnnqlab.cli.compare import Compare
from gnnqlab.cli.completion import completion_script
from gnnqlab.cli.console import standard_output_for_json
from gnnqlab.cli.course import Course
from gnnqlab.cli.lists import Doctor, Graphs, Models, Runs, Systems
from gnnqlab.cli.notebooks import Notebooks
from gnnqlab.cli.parser import UsageError, parse
from gnnqlab.cli.predict import Predict
from gnnqlab.cli.recommend import Recommend
from gnnqlab.cli.reproduce import Reproduce
from gnnqlab.cli.trace import ExportTrace
from gnnqlab.cli.train import Train
from gnnqlab.cli.worker import Worker
from gnnqlab.errors import LaunchRefused, RunInterrupted

__all__ = ["ENVIRONMENT", "main"]


@dataclass(kw_only=True)
class Completion:
    """Print the completion script of a shell: eval "$(gnnqlab completion bash)"."""

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
    re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower(): kind  # ExportTrace -> export-trace
    for kind in (
        Train, Compare, Recommend, Autotune, Bench, Reproduce, Systems, Graphs, Models, Runs, Predict, ExportTrace,
        Doctor, Notebooks, Course, Worker, Completion,
    )
}  # fmt: skip

ENVIRONMENT = {
    "GNNQLAB_RUNS": "folder of runs; default: runs",
    "GNNQLAB_CACHE": "cache of shards, timings and saved graphs; default: ~/.cache/gnnqlab",
    "GNNQLAB_DATA": "folder of downloaded graphs; default: datasets/downloads or ~/.cache/gnnqlab/data",
    "GNNQLAB_KERNELS": "native or reference: kernels to use; default: native if they are built",
    "GNNQLAB_ISA": "avx512, avx2 or scalar: instruction set of the kernels; default: the best of the processor",
    "GNNQLAB_STATIC": "1: figures without controls in notebooks",
    "GNNQLAB_PICTURES": "off: figures without pictures",
    "GNNQLAB_STARTER": "command prefix for each run, for instance nice",
}
"""Environment variables for users, with their descriptions."""

_PIPE_CLOSED = 128 + signal.SIGPIPE
"""Exit code that a shell gives to a program whose reader has closed the pipe."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    try:
        _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader, for instance ``| head``, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # or the final flush would raise again
        raise SystemExit(_PIPE_CLOSED) from None


def _run(arguments: Sequence[str] | None) -> None:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # for terminals that cannot show characters such as λ
    if not words or words[0] in ("-h", "--help", "--version"):
        print(f"gnnqlab {__version__}" if words[:1] == ["--version"] else _overview())
        raise SystemExit(0 if words else 2)
    as_json = "--json" in words  # known before parsing, so that parse errors are JSON too
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            command = _parse(words)
            # A further machine of a run prints its object itself, before its process becomes the guard of its workers.
            prints_json = isinstance(command, Train) and bool(command.node_rank)
            with standard_output_for_json() if command.json and not prints_json else contextlib.nullcontext():
                result = command.run()
    except UsageError as error:
        command_help = f"gnnqlab {words[0]} --help" if words[0] in _COMMANDS else "gnnqlab --help"
        raise SystemExit(_complain(f"{error}; see {command_help}", 2, as_json)) from None
    # Wrong usage, or a run refused before its start, exits with 2, a failed run with 1, a signal with 128 + its number
    # (130 for an interrupt).
    except (ValueError, TypeError, LaunchRefused) as error:
        raise SystemExit(_complain(error, 2, as_json)) from None
    except KeyboardInterrupt as interrupt:
        raise SystemExit(_complain(str(interrupt) or "interrupted; the run was stopped", 130, as_json)) from None
    except RunInterrupted as end:
        if as_json:  # its cause was printed by the command
            print(json.dumps({"error": end.cause, "exit_code": end.code}), flush=True)
        raise SystemExit(end.code) from None
    except BrokenPipeError:
        raise
    except OSError as error:
        text = f"{error.filename!r} cannot be used: {error.strerror}" if error.filename else str(error)
        raise SystemExit(_complain(text, 1, as_json)) from None
    except RuntimeError as error:
        raise SystemExit(_complain(error, 1, as_json)) from None
    if command.json:
        print(json.dumps(result))
    # Gradescope takes the error of its one file from results.json.
    is_unread = isinstance(command, Course) and command.gradescope is None and result.get("unreadable")
    if is_unread or (isinstance(command, Compare) and result["failed"]):
        raise SystemExit(1)


def _parse(words: list[str]) -> Any:
    name, *arguments = words
    if name not in _COMMANDS:
        raise UsageError(f"command must be one of {', '.join(_COMMANDS)}, got {name!r}{did_you_mean(name, _COMMANDS)}")
    return parse(name, _COMMANDS[name], arguments)


def _overview() -> str:
    """Return the overview of commands and environment variables."""
    lines = [f"  {name:13}{(kind.__doc__ or '').partition(chr(10))[0]}" for name, kind in _COMMANDS.items()]
    summary = "gnnqlab: train, understand and compare quantized distributed full-graph GNN training."
    usage = "usage: gnnqlab COMMAND [OPTIONS]\n       gnnqlab COMMAND --help\n       gnnqlab --version"
    variables = [f"  {name:17}{text}" for name, text in ENVIRONMENT.items()]
    return "\n".join([usage, "", summary, "", "commands:", *lines, "", "environment:", *variables])


def _warn(message: Warning | str, *_where: Any, **_what: Any) -> None:
    """Show a warning as one line, without its source location, which does not help at a command line."""
    print(f"gnnqlab: {message}", file=sys.stderr)


def _complain(error: Exception | str, code: int, as_json: bool) -> int:
    """Print an error to standard error, and as JSON to standard output for programs; return the exit code."""
    print(f"gnnqlab: {error}", file=sys.stderr)
    if as_json:
        print(json.dumps({"error": str(error), "exit_code": code}), flush=True)
    return code
