"""``gnnqlab recommend``: rank all systems for a graph, a model, workers and a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from gnnqlab.cli.console import plain_table, say_on_standard_error
from gnnqlab.cli.options import Options

__all__ = ["Recommend"]


@dataclass(kw_only=True)
class Recommend(Options):
    """Rank all systems, partitioners and common optimizations from one probe; show the best ones and the reason."""

    rank_by: str = "time"
    """By time (until Vanilla's accuracy), bytes (sent until then) or memory (of the worker that needs the most)."""
    only: str | None = None
    """Systems to rank, separated by commas; default: all. Vanilla is always included."""
    estimate: bool = False
    """Estimate from the cut alone, without a probe."""
    confirm: bool = False
    """Train the best three and Vanilla, whose measured epochs decide."""
    trial_epochs: int = 30
    """Epochs of each of these trainings."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.tune.recommendation.recommend import recommend

        if self.partition is not None or self.replace is not None:
            raise ValueError("recommend chooses the parts itself, got --partition or --replace; leave them out")
        if settings := self.system_only_options():
            raise ValueError(f"recommend ranks systems with their own settings, got {sorted(settings)}; leave them out")
        found = recommend(
            self.configure("vanilla"),
            objective=self.rank_by,
            systems=None if self.only is None else self.only.split(","),
            estimate=self.estimate,
            confirm=self.confirm,
            epochs=self.trial_epochs,
            out=self.out,
            say=say_on_standard_error,
        )
        if not self.json:
            print(f"Recommended: {found.reason}.\n\nSystems on {found.probe.config.workers} workers:")
            print(plain_table(found.table().reset_index().to_dict("records")))
            print("\n".join(["", *found.notes]))
            if found.confirmed is not None:
                print(found.confirmed.to_string(float_format="{:.4g}".format))
            if found.command is not None:
                print(found.command)
        return found.to_json()
