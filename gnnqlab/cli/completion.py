"""Shell completion of the command line."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from gnnqlab.cli.parser import parser_of

__all__ = ["SHELLS", "completion_script"]

SHELLS = ("bash", "zsh", "tcsh")


def completion_script(shell: str, commands: Mapping[str, type[Any]]) -> str:
    """Return the completion script of a shell: commands, options, and the values of options with few choices.

    Args:
        shell: one of :data:`SHELLS`.
        commands: name -> class.

    Raises:
        ValueError: for another shell.
        RuntimeError: without the library shtab.
    """
    if shell not in SHELLS:
        raise ValueError(f"shell must be one of {SHELLS}, got {shell!r}")
    try:
        import shtab
    except ImportError:
        raise RuntimeError("completion needs the library shtab, which is not installed; pip install shtab") from None
    top_parser = argparse.ArgumentParser(prog="gnnqlab")
    subparsers = top_parser.add_subparsers()
    values = _values_by_option()
    for name, command in commands.items():
        parser, _ = parser_of(name, command)
        summary = (command.__doc__ or "").partition("\n")[0]
        subparser = subparsers.add_parser(name, parents=[parser], add_help=False, help=summary, description=summary)
        # argparse has no public list of actions.
        for action in subparser._actions:
            if action.dest == "name":
                action.choices = values["bench"]  # the only positional argument called name is that of bench
            elif action.dest in values:
                action.choices = values[action.dest]
            elif action.metavar == "PATH":
                action.complete = shtab.FILE  # type: ignore[attr-defined]
    script: str = shtab.complete(top_parser, shell=shell)
    return script


def _values_by_option() -> dict[str, list[str]]:
    """Return the values of options with few choices."""
    from gnnqlab.cli.bench import benchmarks
    from gnnqlab.graph.sources import names
    from gnnqlab.nn.models import MODELS
    from gnnqlab.systems import SYSTEMS
    from gnnqlab.systems.parts import PARTS

    try:
        benches = sorted(benchmarks("registry").BENCHES)
    except ValueError:  # an installed package has only the stored results of benchmarks
        benches = ["results"]
    return {
        "system": sorted(SYSTEMS),
        "model": sorted(MODELS),
        "partition": sorted(PARTS["partition"]),
        "bench": benches,
        # Without patterns such as sbm:N,C,D, which are not complete names.
        "graph": [str(row["name"]) for row in names() if ":" not in str(row["name"])],
        "shell": list(SHELLS),
    }
