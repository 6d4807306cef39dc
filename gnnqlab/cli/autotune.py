"""``gnnqlab autotune``: choose λ, group size and period."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from gnnqlab.cli.console import plain_table, say_on_standard_error
from gnnqlab.cli.options import Options

__all__ = ["Autotune"]


@dataclass(kw_only=True)
class Autotune(Options):
    """Choose λ, group size and period of AdaQP; show predicted and measured figures."""

    target: str = "balanced"
    """time: the fastest within --most-variance; accuracy: least variance within --most-slower; balanced: between."""
    most_variance: float = 300.0
    """time: limit of the gradient variance bound, relative to that of lambda = 1; uniform 4 bits have 289."""
    most_slower: float = 0.1
    """accuracy: limit of the epoch time, as the share by which it exceeds the fastest."""
    most_stale: float = 0.1
    """Share of the objective that stale bit-widths may lose; determines the period."""
    confirm: int = 2
    """Number of settings to confirm by short trainings, compared with Vanilla."""
    trial_epochs: int = 20
    """Epochs of each of these trainings."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.systems.registry import make_system
        from gnnqlab.train.config.command import command_of
        from gnnqlab.tune.autotune import autotune

        settings = self.recipe_settings("adaqp")
        bit_widths = settings.pop("bit_widths", (2, 4, 8))  # a given set, not one of the searched settings
        if settings:
            raise ValueError(f"autotune chooses the system's settings itself, got {sorted(settings)}; leave them out")
        tuning = autotune(
            self.configure("vanilla"),
            target=self.target,
            most_variance=self.most_variance,
            most_slower=self.most_slower,
            most_stale=self.most_stale,
            bit_widths=bit_widths,
            confirm=self.confirm,
            epochs=self.trial_epochs,
            out=self.out,
            say=say_on_standard_error,
        )
        result = tuning.to_json()
        values = {"lam": tuning.lam, "group_size": tuning.group_size, "period": tuning.period, "bit_widths": bit_widths}
        # Command of a training with the chosen settings, to copy.
        result["command"] = command_of(dataclasses.replace(tuning.config, system=make_system("adaqp", **values)))
        if not self.json:
            print(plain_table([_trial_row(trial) for trial in (result["vanilla"], *result["trials"])]))
            print(f"{tuning!r}\n{result['command']}")
        return result


def _trial_row(trial: dict[str, Any]) -> dict[str, Any]:
    """Return one row of the table, with predicted and measured figures."""

    def figure(name: str, form: str, scale: float = 1.0) -> str:
        return "" if trial[name] is None else form.format(trial[name] * scale if scale != 1 else trial[name])

    return {
        "system": trial["system"],
        "λ": figure("lam", "{:g}"),
        "group": figure("group_size", "{:d}"),
        "period": figure("period", "{:d}"),
        "predicted ms": figure("predicted_s", "{:.2f}", 1e3),  # seconds -> ms
        "measured ms": figure("measured_s", "{:.2f}", 1e3),
        "bound": figure("predicted_bound", "{:.2e}"),
        "variance": figure("measured_variance", "{:.2e}"),
        "predicted kB": figure("predicted_bytes", "{:.0f}", 1e-3),  # bytes per epoch -> kB
        "measured kB": figure("measured_bytes", "{:.0f}", 1e-3),
    }
