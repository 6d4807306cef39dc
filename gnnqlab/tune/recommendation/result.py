"""Result of a recommendation: the ranked options, the choice, its reason, and the facts that would change it."""

from __future__ import annotations

import html
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from gnnqlab.cards import table_html
from gnnqlab.partition.parts import QUICK_CUT_EDGES
from gnnqlab.systems.parts import PARTS
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.services import GRADIENTS
from gnnqlab.systems.system import System
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.tune.probe import Probe
from gnnqlab.tune.recommendation.alternatives import Alternative
from gnnqlab.tune.recommendation.ranking import MARGIN, Option, RateChange, first_of_each_system
from gnnqlab.units import human_bytes, human_seconds

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.study import Study

__all__ = ["Alternative", "Recommendation"]

_SHOWN = 8
"""Rows of the card."""
_COMPUTING = ("central", "marginal", "dense", "optimizer", "other")
_CODING = ("encode", "decode")


@dataclass(frozen=True, kw_only=True, eq=False)
class Recommendation:
    """Systems ranked by an objective for a graph, a model, workers and a link.

    At the end of a notebook cell it shows a card; :meth:`to_frame` has all options and numbers.
    """

    objective: str
    probe: Probe
    """Probe that all predictions come from; ``probe.timing.launched`` is false for an estimate."""
    options: tuple[Option, ...]
    """All options, the best first."""
    best: Option
    """Recommended system for these workers."""
    vanilla: Option
    """Vanilla as published."""
    alternatives: tuple[Alternative, ...] = ()
    """One process, and Vanilla on fewer workers."""
    changes: tuple[RateChange, ...] = ()
    """Rates of the link at which another system is chosen; empty for one host."""
    refused: Mapping[str, str]
    """Candidate -> reason why it is not an option."""
    study: Study | None = None
    """Trainings of the best options and Vanilla, if they were confirmed."""
    confirmed: DataFrame | None = None
    """Predicted and measured epochs of these trainings."""

    @property
    def system(self) -> str:
        """Name of the recommended system; ``+`` marks common optimizations."""
        return self.best.label

    @property
    def undistributed(self) -> Alternative | None:
        """Fewer workers that need less time than the recommended system; ``None`` if distribution pays.

        Only for the objective ``time to accuracy``: one process sends nothing, and needs the most memory.
        """
        if self.objective != "time to accuracy" or not self.alternatives:
            return None
        fastest = min(self.alternatives, key=lambda each: each.epoch_s)
        return fastest if fastest.epoch_s < (1 - MARGIN) * self.best.cost(self.objective) else None

    @property
    def pays(self) -> bool:
        """True if these workers are predicted to be faster than fewer workers or one process."""
        return self.undistributed is None

    @property
    def workers(self) -> int:
        """Recommended number of workers."""
        fewer = self.undistributed
        return self.probe.config.workers if fewer is None else fewer.workers

    @property
    def reason(self) -> str:
        """Reason of the recommendation in one sentence."""
        fewer, best = self.undistributed, self.best
        if fewer is None:
            return f"{best.label}: {self._reason_of_best()}"
        place = "one process" if fewer.workers == 1 else f"Vanilla on {fewer.workers} workers"
        return (
            f"{place}: {human_seconds(fewer.epoch_s)} an epoch, less than {human_seconds(best.forecast.epoch_s)} of "
            f"{best.label} on {self.probe.config.workers} workers, whose messages cost more time than they save"
        )

    def _reason_of_best(self) -> str:
        best, vanilla = self.best.forecast, self.vanilla.forecast
        if self.objective == "memory":
            own, others = self.best.cost("memory"), self.vanilla.cost("memory")
            return f"{human_bytes(own)} on the worker that needs the most, Vanilla {human_bytes(others)}"
        link_share = _link_s(self.vanilla) / vanilla.epoch_s
        if self.best.candidate.name == "vanilla":
            return (
                f"no other system is predicted to be better by more than {MARGIN:.0%}; the link takes {link_share:.0%} "
                f"of Vanilla's epoch of {human_seconds(vanilla.epoch_s)}"
            )
        fewer_bytes = vanilla.bytes_sent / max(best.bytes_sent, 1)
        sent = f"sends {fewer_bytes:.1f} times fewer bytes" if fewer_bytes > 1.05 else "sends as many bytes"
        if best.bytes_sent == 0 < vanilla.bytes_sent:
            sent = "sends no rows in training"
        times = f"{human_seconds(best.epoch_s)} an epoch, Vanilla {human_seconds(vanilla.epoch_s)}"
        risk = self.best.risk
        return (
            f"{times}, of which the link takes {link_share:.0%}; it {sent}, and needs {risk.factor:.2f} times "
            f"Vanilla's epochs ({risk.source})"
        )

    @property
    def config(self) -> RunConfig:
        """Configuration of a run as recommended, for ``gnnqlab.launch.local.launch(recommendation.config)``."""
        config, fewer = self.probe.config, self.undistributed
        if fewer is not None:
            launch = replace(config.launch, hosts=fewer.hosts, link=config.launch.link if fewer.hosts > 1 else None)
            return replace(config, system=make_system("vanilla"), workers=fewer.workers, launch=launch)
        train = replace(config.train, gradients=GRADIENTS) if self.best.candidate.services else config.train
        return replace(config, system=_with_recipe(self.best.candidate.system, self.best.candidate.name), train=train)

    @property
    def command(self) -> str | None:
        """Command line of :attr:`config`; ``None`` if there is none, as for a graph of this process."""
        return command_of(self.config)

    def to_frame(self) -> DataFrame:
        """Return all options, the best first.

        Returns:
            One row per option: ``option, system, partition, services``; ``cost`` and ``times_better`` (Vanilla's cost
            over it) by the objective; ``epoch_s`` and its parts ``computing_s, coding_s, wire_s, reduce_s``; ``bytes``
            of all workers in an epoch; ``memory_bytes`` if it was measured, else NaN; ``approximates``; ``reached``
            (share of trainings that reach Vanilla's accuracy), ``epochs`` until then relative to Vanilla's, and
            ``source`` of both.
        """
        import pandas as pd

        return pd.DataFrame([self._row(option) for option in self.options]).set_index("option")

    def _row(self, option: Option) -> dict[str, Any]:
        forecast, candidate = option.forecast, option.candidate
        cost, vanilla_cost = option.cost(self.objective), self.vanilla.cost(self.objective)
        return {
            "option": option.label,
            "system": candidate.name,
            "partition": candidate.partition or type(candidate.published.partition).__name__,
            "services": candidate.services,
            "cost": cost,
            "times_better": vanilla_cost / cost if cost else float("inf"),
            "epoch_s": forecast.epoch_s,
            "computing_s": sum(forecast.phases.get(name, 0.0) for name in _COMPUTING),
            "coding_s": sum(forecast.phases.get(name, 0.0) for name in _CODING),
            "wire_s": forecast.phases["wire"],
            "reduce_s": forecast.phases.get("reduce", 0.0),
            "bytes": forecast.bytes_sent,
            # The property stores its result, so a measured one is in the instance.
            "memory_bytes": float(sum(forecast.__dict__["memory"].values()))
            if "memory" in vars(forecast)
            else float("nan"),
            "approximates": "; ".join(candidate.approximations) or "nothing",
            "reached": option.risk.reached,
            "epochs": option.risk.epochs,
            "source": option.risk.source,
        }

    def table(self, rows: int = _SHOWN) -> DataFrame:
        """Return the best option of each system as text, the recommended one and Vanilla included.

        Args:
            rows: number of rows.
        """
        import pandas as pd

        firsts = first_of_each_system(self.options)
        chosen = [self.best, *(each for each in firsts if each.candidate.name != self.best.candidate.name)][:rows]
        if self.vanilla not in chosen:
            chosen = [*chosen[: max(1, rows - 1)], self.vanilla]
        lines = []
        for row in (self._row(option) for option in chosen):
            memory = row["memory_bytes"]
            lines.append(
                {
                    "option": row["option"],
                    "× Vanilla": f"{row['times_better']:.2f}",
                    "epoch": human_seconds(row["epoch_s"]),
                    "computing": human_seconds(row["computing_s"]),
                    "coding": human_seconds(row["coding_s"]),
                    "wire": human_seconds(row["wire_s"]),
                    "sum gradients": human_seconds(row["reduce_s"]),
                    "sent": human_bytes(row["bytes"]),
                    **({} if memory != memory else {"memory": human_bytes(memory)}),
                    "approximates": row["approximates"],
                    "accuracy reached": f"{row['reached']:.0%}, {row['epochs']:.2f} × epochs",
                }
            )
        return pd.DataFrame(lines).fillna("").set_index("option")

    @property
    def notes(self) -> list[str]:
        """Assumptions, facts that would change the recommendation, and the origin of the numbers, a sentence each."""
        own = f"{self.probe.config.workers} workers over {self.probe.wire.name}"
        notes = [self._assumption, *self._over_other_links()]
        others = [each for each in self.alternatives if each != self.undistributed]  # the reason has that one
        notes += [f"{str(each)[0].upper()}{str(each)[1:]}." for each in others]
        if self.alternatives:
            notes.append("If the graph does not fit into one host's memory, mini-batches of sampled neighbours do.")
        if self.probe.timing.launched:
            error = "" if self.probe.error is None else f"; median error of such predictions {self.probe.error:.0%}"
            notes.append(f"Seconds: from a probe of {own}{error}.")
        else:
            notes.append(f"Seconds are an estimate for {own}, without a launched run.")
            if sum(shard.num_edges for shard in self.probe.trace.shards) > QUICK_CUT_EDGES:
                notes.append(
                    "Rows sent are those of a quick cut unless one is stored; a training's differ by about 1 %."
                )
        if any(option.candidate.services for option in self.options):
            notes.append(
                "+: with the common optimizations: overlap with central nodes, codec parameters and weight gradients "
                "in bfloat16."
            )
        notes.append("Accuracy: from the tables of studies in gnnqlab/results; gq.results.bench_results() has them.")
        return notes

    @property
    def _assumption(self) -> str:
        wire = self.probe.wire
        place = "on one host, without a link between hosts"
        if wire.hosts > 1:
            place = f"on {wire.hosts} hosts over {wire.name.removesuffix(f', {wire.hosts} hosts')}"
        options = "--workers, --hosts and --link change it (in Python workers=, hosts= and link=)"
        return f"Assumed: {wire.workers} workers {place}; {options}."

    def _over_other_links(self) -> list[str]:
        """Return the effect of other rates of the link, if they were scanned."""
        if self.probe.wire.hosts == 1 or self.objective != "time to accuracy":
            return []
        workers, fewer = f"on {self.probe.wire.workers} workers", self.undistributed
        notes = [f"Over a link of another rate, {workers}: {change}." for change in self.changes]
        if not notes:
            notes = [f"No rate of the link from 10 Mbit/s to 100 Gbit/s changes the best system {workers}."]
        if fewer is None or fewer.workers > 1:
            return notes
        # The reason names one process, which has no link; the scan is about distributed systems only.
        least_s = min(each.forecast.epoch_s - _link_s(each) for each in self.options)
        if fewer.epoch_s <= least_s:
            words = f"at every rate: computing alone takes {human_seconds(least_s)} {workers}"
            return [*notes, f"One process is faster {words}."]
        return [*notes, "One process is faster at the assumed rate; at a higher one distribution may pay."]

    def to_json(self) -> dict[str, Any]:
        """Return the JSON that ``gnnqlab recommend --json`` prints."""
        config = self.probe.config
        rows = self.to_frame().reset_index().to_dict("records")
        # JSON has no NaN, which stands for memory that was not measured.
        options = [{name: None if value != value else value for name, value in row.items()} for row in rows]
        return {
            "graph": config.graph,
            "model": config.model.name,
            "link": self.probe.wire.name,
            "hosts": self.probe.wire.hosts,
            "objective": self.objective,
            "system": self.system,
            "workers": self.workers,
            "pays": self.pays,
            "reason": self.reason,
            "command": self.command,
            "changes": [vars(change) for change in self.changes],
            "alternatives": [vars(each) for each in self.alternatives],
            "options": options,
            "refused": dict(self.refused),
            "estimate": not self.probe.timing.launched,
            **({} if self.confirmed is None else {"confirmed": self.confirmed.reset_index().to_dict("records")}),
        }

    def __repr__(self) -> str:
        return f"<Recommendation for {self.objective}: {self.reason}>"

    def _repr_html_(self) -> str:
        notes = "".join(f"<li>{html.escape(note)}</li>" for note in self.notes)
        measured = "" if self.confirmed is None else table_html(self.confirmed, caption="Measured in short trainings")
        table = table_html(self.table(), caption=f"For {self.objective}: {self.reason}.")
        return f"{table}{measured}<ul>{notes}</ul>"


def _link_s(option: Option) -> float:
    """Return the seconds of an epoch in which messages and sums of gradients are sent."""
    return option.forecast.phases["wire"] + option.forecast.phases.get("reduce", 0.0)


def _with_recipe(system: System, name: str) -> System:
    """Return the system as its recipe with other parts, from which a command line is made."""
    recipe_system = make_system(name)
    parts = {axis: getattr(system, axis) for axis in PARTS}
    changes = {axis: part for axis, part in parts.items() if part != getattr(recipe_system, axis)}
    return recipe_system.replace(**changes)
