"""The critical path of an epoch: the chain of work and messages that nothing but the chain itself could shorten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from gnnqlab.lab.figures.theme import BETWEEN
from gnnqlab.lab.training.critical_view import WORDS, draw_beside, draw_path
from gnnqlab.lab.training.snapshot import labels, take
from gnnqlab.lab.training.timeline_view import common_epoch, epoch_seconds, exposed_table, median_epoch

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.run.run import Run

__all__ = ["BETWEEN", "CriticalPath", "PathsBeside", "Side", "critical_path", "phases_of", "recorded_epoch"]


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

    def draw(self, *, dark: bool = False) -> FigureData:
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

    def draw(self, *, dark: bool = False) -> FigureData:
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


_SAME_S = 1e-6
"""Times closer than this are one: clocks are read one after the other."""


class _Part(NamedTuple):
    number: int
    layer: int
    direction: str
    round: int
    rank: int
    what: str
    peer: int
    start: float
    end: float

    @property
    def place(self) -> tuple[int, str, int]:
        return self.layer, self.direction, self.round


@overload
def critical_path(run: Run | DataFrame, other: None = None, *, epoch: int | None = None) -> CriticalPath: ...


@overload
def critical_path(run: Run | DataFrame, other: Run | DataFrame, *, epoch: int | None = None) -> PathsBeside: ...


def critical_path(
    run: Run | DataFrame, other: Run | DataFrame | None = None, *, epoch: int | None = None
) -> CriticalPath | PathsBeside:
    """Return the critical path of a recorded epoch: the chain of parts and messages that ends last.

    It is followed backwards from the part that ended last. A part began when the one before it on its worker had
    ended; a wait ended when the last message of its exchange had come, which left when its sender had posted it. So the
    chain passes to that sender, unless the message was there before the wait began. Anything beside the chain may take
    longer without making the epoch longer.

    Args:
        run: a run, or its ``timeline``. All workers have to be on one machine, whose clock they share.
        other: a run of as many workers that it is held against, or its ``timeline``.
        epoch: one that was recorded, in both runs of two; by default that whose length is the median. Of two it is one
            that both recorded, its length beside each run's median; where there is none, each run's own.

    Returns:
        The chain; of two runs both, worker by worker and phase by phase, with the differences in words.
        A chain begins with the recorded part it depends on first, or, under older rows, with a message of an epoch
        before; it ends with the last recorded part, ahead of the last sum of weight gradients.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded, or two runs have not the same workers.

    Example:
        ``gq.critical_path(run).by_phase()``, ``gq.critical_path(run, vanilla).words``
    """
    import pandas as pd

    given = [each for each in (run, other) if each is not None]
    timelines = [each if isinstance(each, pd.DataFrame) else each.timeline for each in given]
    if other is None:
        return _path_of(timelines[0], recorded_epoch(timelines[0], epoch))
    if any(isinstance(each, pd.DataFrame) for each in given):
        names = ["the first", "the other"]
    else:
        names = labels([take(each) for each in given])
    epoch = common_epoch([_took(timeline) for timeline in timelines]) if epoch is None else epoch
    paths = [_path_of(timeline, recorded_epoch(timeline, epoch)) for timeline in timelines]
    return PathsBeside(*(Side(name, path) for name, path in zip(names, paths, strict=True)))


def _path_of(timeline: DataFrame, epoch: int) -> CriticalPath:
    import pandas as pd

    some = timeline[timeline["epoch"] == epoch]
    parts = _parts_of(some)
    own = [part for part in parts if part.what != "transfer"]
    begin = min(part.start for part in own)
    links = list(_backwards(own, [part for part in parts if part.what == "transfer"], begin))[::-1]
    places = [(link.rank, link.what, link.layer, link.direction, link.peer) for link in links]
    times = [(1e3 * (link.start - begin), 1e3 * (link.end - begin)) for link in links]
    rows = [(*place, *time) for place, time in zip(places, times)]
    columns = ["worker", "what", "layer", "direction", "sender", "start (ms)", "end (ms)"]
    segments = pd.DataFrame(rows, columns=columns)
    segments["ms"] = segments["end (ms)"] - segments["start (ms)"]
    return CriticalPath(epoch, segments, exposed_table(some), some)


def recorded_epoch(timeline: DataFrame, epoch: int | None = None) -> int:
    """Return an epoch of a timeline; by default that whose length is the median, the earlier of two.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded.
    """
    took = _took(timeline)
    known = sorted(took.index)
    if not known:
        raise ValueError("an epoch must be recorded to be looked at, got none; launch with timeline_every=5")
    if epoch is None:
        return median_epoch(took)
    if epoch not in known:
        raise ValueError(f"epoch must be one that was recorded, {known}, got {epoch}")
    return epoch


def _took(timeline: DataFrame) -> Series:
    """Seconds of each recorded epoch."""
    return epoch_seconds(timeline[timeline["what"] != "transfer"])


def _parts_of(some: DataFrame) -> list[_Part]:
    """Return all parts; their numbers are in the order in which they ended."""
    rows = some.assign(round=some["round"] if "round" in some.columns else 0)
    rows = rows.sort_values(["end_s", "start_s"], kind="stable").assign(number=range(len(rows)))
    columns = ("number", "layer", "direction", "round", "rank", "what", "peer", "start_s", "end_s")
    return [_Part(*values) for values in zip(*(rows[name].tolist() for name in columns))]


def _backwards(own: list[_Part], transfers: list[_Part], begin: float) -> Iterator[_Part]:
    """Yield the links of the chain, last first; each begins where the one before it in time ends."""
    part: _Part | None = own[-1]
    until = own[-1].end
    while part is not None:
        message = _awaited(part, transfers) if part.what == "wait" else None
        if message is None:
            yield part._replace(end=until)
            before, until = _before(part, own), part.start
            if before is not None and before.end < until:
                yield part._replace(what=BETWEEN, start=before.end, end=until)
                until = before.end
            part = before
            continue
        post = _posted(message, own)
        if post is None:  # it left in an epoch before
            yield message._replace(what="message", start=max(message.start, begin), end=until)
            return
        left = min(post.end, until)
        yield message._replace(what="message", peer=post.rank, start=left, end=until)
        part, until = post, left


def _awaited(wait: _Part, transfers: list[_Part]) -> _Part | None:
    """Return the message that a wait ended with; ``None`` if all were there when it began."""
    here = [each for each in transfers if each.rank == wait.rank and each.place == wait.place]
    last = here[-1] if here else None
    return last if last is not None and last.end > wait.start + _SAME_S else None


def _posted(message: _Part, own: list[_Part]) -> _Part | None:
    """Return the sender's post of a message; on a GPU, which knows no sender, the last one of its exchange."""
    found = [
        part
        for part in own
        if part.what == "post"
        and part.place == message.place
        and (part.rank == message.peer if message.peer >= 0 else part.rank != message.rank)
        and part.start <= message.end
    ]
    return found[-1] if found else None


def _before(part: _Part, own: list[_Part]) -> _Part | None:
    """Return the part of the same worker that ended last before one began."""
    ended = (each for each in own[::-1] if each.rank == part.rank and each.number < part.number)
    return next((each for each in ended if each.end <= part.start + _SAME_S), None)
