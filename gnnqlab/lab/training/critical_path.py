"""The critical path of an epoch: the chain of work and messages that nothing but the chain itself could shorten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, overload

from gnnqlab.lab.figures.theme import BETWEEN
from gnnqlab.lab.training.paths import CriticalPath, PathsBeside, Side, exposed_table
from gnnqlab.lab.training.snapshot import labels, take

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.run.run import Run

__all__ = ["BETWEEN", "CriticalPath", "critical_path", "recorded_epoch"]

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
    epoch = _epoch_of_both(timelines) if epoch is None else epoch
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
        return _median_epoch(took)
    if epoch not in known:
        raise ValueError(f"epoch must be one that was recorded, {known}, got {epoch}")
    return epoch


def _took(timeline: DataFrame) -> Series:
    """Seconds of each recorded epoch."""
    own = timeline[timeline["what"] != "transfer"].groupby("epoch")
    took: Series = own["end_s"].max() - own["start_s"].min()
    return took


def _median_epoch(took: Series) -> int:
    return int(took.sort_values(kind="stable").index[(len(took) - 1) // 2])


def _epoch_of_both(timelines: Sequence[DataFrame]) -> int | None:
    """An epoch that all recorded, its length the median beside each one's median; ``None`` if there is none."""
    import pandas as pd

    each = [_took(timeline) for timeline in timelines]
    together = pd.concat([took / took.median() for took in each], axis=1, join="inner").sum(axis=1)
    return _median_epoch(together) if len(together) else None


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
