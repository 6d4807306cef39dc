"""The command that measures."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from gnnqlab.lab.console import bench_table

__all__ = ["Bench"]


@dataclass(kw_only=True)
class Bench:
    """Measure, each figure beside its limit or rival in the same run."""

    name: Annotated[str, tyro.conf.Positional]
    """Which measurement; without one of the known names they are listed."""
    repeats: int | None = None
    """Interleaved repeats; default: the measurement's own."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.registry import measure

        result = measure(self.name, repeats=self.repeats)
        if not self.json:
            print(bench_table(result["rows"]))
        return result
