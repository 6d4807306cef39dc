"""Critical paths of one epoch, and of two beside each other: in numbers, in words and drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from gnnqlab.lab.figures.theme import BETWEEN
from gnnqlab.lab.training.critical_view import WORDS, draw_beside, draw_path

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.lab.figures.bundle import Bundle

__all__ = ["exposed_table", "CriticalPath", "PathsBeside", "Side", "phases_of"]

_Spans = list[tuple[float, float]]


def exposed_table(timeline: DataFrame) -> DataFrame:
    """Return, for each worker, how long messages to it were under way, and how much of that it waited.

    Transfers that overlap count once. Under way while the worker waits is *exposed*, under way while it does something
    else is *hidden*; the two add up.

    Args:
        timeline: ``run.timeline``, of one epoch.

    Returns:
        Milliseconds by worker: ``under way, exposed, hidden``.

    Example:
        >>> import pandas as pd
        >>> parts = [(0, "transfer", 0.000, 0.010), (0, "central", 0.000, 0.004), (0, "wait", 0.004, 0.010)]
        >>> timeline = pd.DataFrame(parts, columns=["rank", "what", "start_s", "end_s"])
        >>> exposed_table(timeline).round(6).loc["worker 0"].tolist()
        [10.0, 6.0, 4.0]
    """
    import pandas as pd

    rows = {}
    for rank in sorted(set(timeline["rank"])):
        mine = timeline[timeline["rank"] == rank]
        way = _union(_spans(mine, "transfer"))
        total, exposed = _length(way), _length(_common(way, _union(_spans(mine, "wait"))))
        rows[f"worker {rank}"] = [1e3 * total, 1e3 * exposed, 1e3 * (total - exposed)]
    return pd.DataFrame.from_dict(rows, orient="index", columns=["under way", "exposed", "hidden"]).rename_axis("ms")


def _spans(timeline: DataFrame, what: str) -> _Spans:
    some = timeline[timeline["what"] == what]
    return list(zip(some["start_s"].tolist(), some["end_s"].tolist()))


def _union(spans: Iterable[tuple[float, float]]) -> _Spans:
    found: _Spans = []
    for start, end in sorted(spans):
        if found and start <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((start, end))
    return found


def _common(one: _Spans, other: _Spans) -> _Spans:
    """Return what two unions share."""
    shared = ((max(a, c), min(b, d)) for a, b in one for c, d in other)
    return [(start, end) for start, end in shared if start < end]


def _length(spans: _Spans) -> float:
    return sum(end - start for start, end in spans)


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """The longest chain through one epoch, in the order of time; at the end of a cell it shows its figure."""

    epoch: int
    segments: DataFrame
    """A row a link: ``worker, what, layer, direction, sender, start (ms), end (ms), ms``; without a sender it is -1."""
    workers: DataFrame
    """What each worker's messages cost it, see `exposed_table`."""
    timeline: DataFrame
    """The epoch's rows of ``run.timeline``."""

    @property
    def milliseconds(self) -> float:
        """Length of the chain, from its first begin to the end of the last recorded part."""
        return float(self.segments["ms"].sum())

    def by_phase(self) -> DataFrame:
        """Return milliseconds of the chain by worker (rows; a message counts where it arrives) and phase (columns)."""
        table = self.segments.pivot_table(index="worker", columns="what", values="ms", aggfunc="sum", fill_value=0.0)
        table.columns.name = None
        return table

    @property
    def words(self) -> str:
        """What the chain is made of, and what communication was exposed and hidden, in sentences."""
        of = self.segments.groupby("what")["ms"].sum().sort_values(ascending=False)
        parts = ", ".join(f"{WORDS.get(str(what), what)} {ms:.3g} ms" for what, ms in of.items())
        hops = int((self.segments["sender"] >= 0).sum())
        exposed = " ".join(
            f"{name}: messages under way {row['under way']:.3g} ms, {row['exposed']:.3g} ms of them exposed "
            f"(it waited), {row['hidden']:.3g} ms hidden behind its own work."
            for name, row in self.workers.iterrows()
        )
        return (
            f"The critical path of epoch {self.epoch} takes {self.milliseconds:.3g} ms and passes from worker to "
            f"worker {hops} time{'' if hops == 1 else 's'}: {parts}. {exposed}"
        )

    def draw(self, *, dark: bool = False) -> Bundle:
        """Draw the chain over what all workers did."""
        return draw_path(self.segments, self.timeline, epoch=self.epoch, words=self.words, dark=dark)

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.draw()._repr_mimebundle_()


_TOLD = 3
"""How many differences are told in words."""
_SAME_MS = 1e-3
"""Times closer than this are told as one: clocks are read one after the other."""


class Side(NamedTuple):
    """One epoch of one run."""

    label: str
    path: CriticalPath


@dataclass(frozen=True, eq=False)
class PathsBeside:
    """An epoch of a run beside one of another; at the end of a cell it shows both, worker by worker."""

    one: Side
    other: Side
    """What the first is held against."""

    def __post_init__(self) -> None:
        ranks = [sorted(set(side.path.timeline["rank"])) for side in (self.one, self.other)]
        if ranks[0] != ranks[1]:
            raise ValueError(
                f"runs beside each other must have the same workers, got {ranks[0]} and {ranks[1]}; compare runs of as "
                "many workers"
            )

    def by_phase(self) -> DataFrame:
        """Return milliseconds of each worker's phases in both epochs, and how much longer the first one's are.

        Returns:
            A row a worker and phase; columns the two labels, ``difference``, and of what lies on the critical path
            ``on the path`` and ``on the other's``.
        """
        import pandas as pd

        sides = (self.one, self.other)
        columns = [phases_of(side.path.timeline) for side in sides]
        path = [side.path.segments.groupby(["worker", "what"])["ms"].sum() for side in sides]
        table = pd.concat(columns, axis=1).fillna(0.0)
        labels = [side.label for side in sides]
        table.columns = pd.Index(labels if labels[0] != labels[1] else [f"{labels[0]} #{n}" for n in (1, 2)])
        order = list(WORDS)
        table = table.sort_index(key=lambda level: [order.index(each) if each in order else each for each in level])
        table["difference"] = table.iloc[:, 0] - table.iloc[:, 1]
        for name, some in zip(("on the path", "on the other's"), path, strict=True):
            table[name] = some.reindex(table.index, fill_value=0.0)
        return table.rename_axis(["worker", "phase"])

    @property
    def words(self) -> str:
        """Which epoch is longer, what communication is exposed and hidden in both, and which phases differ most."""
        one, other = self.one.path, self.other.path
        pace = other.milliseconds / one.milliseconds
        parts = [
            f"The critical path of {self.one.label}, epoch {one.epoch}, takes {one.milliseconds:.3g} ms, that of "
            f"{self.other.label}, epoch {other.epoch}, {other.milliseconds:.3g} ms: "
            f"{pace if pace >= 1 else 1 / pace:.2f} times as {'fast' if pace >= 1 else 'slow'}."
        ]
        for name, mine in one.workers.iterrows():
            its = other.workers.loc[name]
            parts.append(
                f"{str(name).capitalize()}: messages under way {mine['under way']:.3g} ms instead of "
                f"{its['under way']:.3g}, exposed (it waited) {mine['exposed']:.3g} instead of {its['exposed']:.3g}, "
                f"hidden behind its own work {mine['hidden']:.3g} instead of {its['hidden']:.3g}."
            )
        difference = self.by_phase()["difference"]
        most = difference.reindex(difference.abs().sort_values(ascending=False, kind="stable").index)[:_TOLD]
        told = ", ".join(
            f"{WORDS.get(what, what)} of worker {rank} {abs(ms):.3g} ms {'longer' if ms > 0 else 'shorter'}"
            for (rank, what), ms in most.items()
            if abs(ms) > _SAME_MS
        )
        return " ".join([*parts, f"These differ most: {told}." if told else "No phase differs."])

    def draw(self, *, dark: bool = False) -> Bundle:
        """Draw both epochs from their beginning, the same worker's one below the other."""
        sides = [(side.label, side.path.timeline, side.path.segments) for side in (self.one, self.other)]
        return draw_beside(sides, self.by_phase(), words=self.words, dark=dark)

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.draw()._repr_mimebundle_()


def phases_of(timeline: DataFrame) -> Any:
    """Return milliseconds by worker and phase of an epoch; what lies between the recorded parts is a phase too.

    Args:
        timeline: its rows of ``run.timeline``; bytes under way are no phase of a worker.

    Example:
        >>> import pandas as pd
        >>> parts = [(0, "encode", 0.000, 0.001), (0, "wait", 0.001, 0.003), (0, "decode", 0.005, 0.006)]
        >>> timeline = pd.DataFrame(parts, columns=["rank", "what", "start_s", "end_s"])
        >>> phases_of(timeline).round(6).to_dict()
        {(0, 'decode'): 1.0, (0, 'encode'): 1.0, (0, 'wait'): 2.0, (0, 'between'): 2.0}
    """
    import pandas as pd

    own = timeline[timeline["what"] != "transfer"]
    spent = (1e3 * (own["end_s"] - own["start_s"])).groupby([own["rank"], own["what"]]).sum()
    by_rank = own.groupby("rank")
    whole = 1e3 * (by_rank["end_s"].max() - by_rank["start_s"].min())
    rest = (whole - spent.groupby(level=0).sum()).clip(lower=0.0)
    rest.index = pd.MultiIndex.from_tuples([(rank, BETWEEN) for rank in rest.index], names=["rank", "what"])
    return pd.concat([spent, rest])
