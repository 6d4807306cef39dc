"""The whole line: its command, what a mistake in it leaves, and the exit code."""

from __future__ import annotations

import contextlib
import io
import itertools
import json
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import tyro

from gnnqlab.cli.autotune import Autotune
from gnnqlab.cli.bench import Bench
from gnnqlab.cli.compare import Compare
from gnnqlab.cli.lists import Doctor, Graphs, Models, Runs, Systems
from gnnqlab.cli.train import Train

__all__ = ["main"]

Command = Train | Compare | Autotune | Bench | Systems | Graphs | Models | Runs | Doctor


@dataclass
class _CommandLine:
    """gnnqlab: train, understand and compare quantized distributed full-graph GNN training."""

    command: tyro.conf.OmitSubcommandPrefixes[tyro.conf.OmitArgPrefixes[Command]] = field()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and leave with its exit code."""
    command = _parse(sys.argv[1:] if arguments is None else list(arguments))
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            result = command.run()
    except (ValueError, TypeError) as error:
        raise SystemExit(_complain(error, 2)) from None
    except KeyboardInterrupt:
        print("gnnqlab: interrupted; the run was stopped", file=sys.stderr)
        raise SystemExit(130) from None
    except (RuntimeError, OSError) as error:
        raise SystemExit(_complain(error, 1)) from None
    if command.json:
        print(json.dumps(result))
    if isinstance(command, Compare) and result["failed"]:
        raise SystemExit(1)


def _parse(arguments: list[str]) -> Any:
    """Return the command; a mistake in the words leaves one line and exit code 2."""
    said = io.StringIO()
    try:
        with contextlib.redirect_stderr(said):
            line = tyro.cli(_CommandLine, prog="gnnqlab", args=arguments, config=(tyro.conf.FlagCreatePairsOff,))
    except SystemExit as end:
        if end.code:
            text = re.sub(r"\x1b\[[0-9;]*m", "", said.getvalue())
            lines = [line.strip("│╭╮╰╯─ ") for line in text.splitlines()[1:]]
            reason = " ".join(itertools.takewhile(bool, lines)) or "the words of this command are not understood"
            known = arguments[0] if arguments and not arguments[0].startswith("-") else ""
            print(f"gnnqlab: {reason.rstrip('.')}; see gnnqlab {known} --help".replace("  ", " "), file=sys.stderr)
        raise
    return line.command


def _warn(message: Warning | str, *_where: Any, **_what: Any) -> None:
    """Show a warning as one line; where in the code it came from helps nobody at a command line."""
    print(f"gnnqlab: {message}", file=sys.stderr)


def _complain(error: Exception, code: int) -> int:
    print(f"gnnqlab: {error}", file=sys.stderr)
    return code
