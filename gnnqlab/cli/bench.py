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
    link: str | None = None
    """epoch, throughput: measure systems side by side over emulated hosts with links of this rate, as 1gbit."""
    comm_share: float | None = None
    """epoch, throughput: instead of --link, the share of its epoch that Vanilla communicates; throughput's default is
    0.89 and 0.94."""
    hosts: int | None = None
    """epoch with a link, throughput: emulated hosts; default 2."""
    workers: str | None = None
    """epoch with a link, throughput, accuracy: numbers of workers, separated by commas; default 2,4 and 2 and 2."""
    graph: str | None = None
    """epoch with a link, throughput: name or path; default: a planted partition. accuracy: default two real graphs."""
    models: str | None = None
    """throughput, accuracy: names of models, separated by commas; default: all seven."""
    systems: str | None = None
    """throughput, accuracy: names of contestants, separated by commas, as 2-bit,sylvie; default: all."""
    epochs: int | None = None
    """epoch with a link, throughput: epochs of each run; default 15 and 12. accuracy: default what each model needs."""
    seeds: int | None = None
    """epoch, with a link: seeds over which the accuracies of Vanilla and AdaQP are compared; default: none. accuracy:
    trainings of each contestant; default 5."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.bench.registry import measure

        names = ("link", "comm_share", "hosts", "graph", "epochs", "seeds")
        options = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.workers is not None:
            options["workers"] = _numbers(self.workers)
        if self.models is not None:
            options["models"] = tuple(self.models.split(","))
        if self.systems is not None:
            options["systems"] = tuple(self.systems.split(","))
        result = measure(self.name, repeats=self.repeats, **options)
        if not self.json:
            print(bench_table(result["rows"]))
        return result


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(word) for word in text.split(","))
    except ValueError:
        raise ValueError(f"workers must be whole numbers separated by commas, got {text!r}; for instance 2,4") from None
