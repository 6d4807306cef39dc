"""The command that chooses λ, group size and period."""

from __future__ import annotations

import dataclasses
import sys
from dataclasses import dataclass
from typing import Any

from gnnqlab.cli.console import plain_table
from gnnqlab.cli.options import Options

__all__ = ["Autotune"]


@dataclass(kw_only=True)
class Autotune(Options):
    """Choose λ, group size and period of AdaQP; predicted and measured side by side."""

    target: str = "balanced"
    """time: the fastest within --most-variance; accuracy: least variance within --most-slower; balanced: between."""
    most_variance: float = 300.0
    """time: bound on the gradient variance at most so many times that of lambda = 1; 4 bits everywhere are 289."""
    most_slower: float = 0.1
    """accuracy: an epoch at most this share longer than the fastest."""
    most_stale: float = 0.1
    """Share of the objective that widths may lose by growing old; decides the period."""
    confirm: int = 2
    """Settings that are trained for some epochs beside Vanilla."""
    trial_epochs: int = 20
    """Epochs of each of these."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.systems.system import make_system
        from gnnqlab.train.config.command import command_of
        from gnnqlab.tune.autotune import autotune

        given = self.recipe_settings("adaqp")
        widths = given.pop("among", (2, 4, 8))
        if given:
            raise ValueError(f"autotune chooses the settings of the system itself, got {sorted(given)}; leave them out")
        tuned = autotune(
            self.configure("vanilla"),
            target=self.target,
            most_variance=self.most_variance,
            most_slower=self.most_slower,
            most_stale=self.most_stale,
            widths=widths,
            confirm=self.confirm,
            epochs=self.trial_epochs,
            out=self.out,
            say=lambda line: print(line, file=sys.stderr),
        )
        result = tuned.to_json()
        chosen = {"lam": tuned.lam, "group_size": tuned.group_size, "period": tuned.period, "among": widths}
        result["command"] = command_of(dataclasses.replace(tuned.config, system=make_system("adaqp", **chosen)))
        if not self.json:
            print(plain_table([_shown(trial) for trial in (result["vanilla"], *result["trials"])]))
            print(f"{tuned!r}\n{result['command']}")
        return result


def _shown(trial: dict[str, Any]) -> dict[str, Any]:
    """One line of the table: predicted beside measured."""

    def figure(name: str, form: str, scale: float = 1.0) -> str:
        return "" if trial[name] is None else form.format(trial[name] * scale if scale != 1 else trial[name])

    return {
        "system": trial["system"],
        "λ": figure("lam", "{:g}"),
        "group": figure("group_size", "{:d}"),
        "period": figure("period", "{:d}"),
        "predicted ms": figure("predicted_s", "{:.2f}", 1e3),
        "measured ms": figure("measured_s", "{:.2f}", 1e3),
        "bound": figure("predicted_bound", "{:.2e}"),
        "variance": figure("measured_variance", "{:.2e}"),
        "predicted kB": figure("predicted_bytes", "{:.0f}", 1e-3),
        "measured kB": figure("measured_bytes", "{:.0f}", 1e-3),
    }
