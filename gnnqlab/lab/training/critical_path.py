"""Critical path of an epoch: the chain of computation and messages that determines its length."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from gnnqlab.former_names import FormerMember
from gnnqlab.lab.figures.theme import UNRECORDED
from gnnqlab.lab.training.critical_view import WORDS, draw_path, draw_path_pair
from gnnqlab.lab.training.snapshot import labels, take
from gnnqlab.lab.training.timeline_view import common_epoch, epoch_seconds, exposed_table, median_epoch

if TYPE_CHECKING:
    from pandas import DataFrame, Series

    from gnnqlab.lab.figures.bundle import FigureData
    from gnnqlab.run.run import Run

__all__ = ["UNRECORDED", "CriticalPath", "PathComparison", "Side", "critical_path", "phases_of", "recorded_epoch"]


@dataclass(frozen=True, eq=False)
class CriticalPath:
    """Critical path of one epoch in the order of time; at the end of a cell it shows its figure."""

    epoch: int
    segments: DataFrame
    """One row per link: ``worker, what, layer, direction, sender (or -1), start (ms), end (ms), ms``."""
    workers: DataFrame
    """Exposed and hidden communication of each worker, see `exposed_table`."""
    timeline: DataFrame
    """Rows of the epoch in ``run.timeline``."""

    @property
    def milliseconds(self) -> float:
        """Length of the path, from the start of its first link to the end of the last recorded part."""
        return float(self.segments["ms"].sum())

    def by_phase(self) -> DataFrame:
        """Return milliseconds of the path by worker (rows; a message counts at its receiver) and phase (columns)."""
        table = self.segments.pivot_table(index="worker", columns="what", values="ms", aggfunc="sum", fill_value=0.0)
        table.columns.name = None
        return table

    @property
    def words(self) -> str:
        """Phases of the path, and exposed and hidden communication, in sentences."""
        phases = self.segments.groupby("what")["ms"].sum().sort_values(ascending=False)
        parts = ", ".join(f"{WORDS.get(str(phase), phase)} {ms:.3g} ms" for phase, ms in phases.items())
        hops = int((self.segments["sender"] >= 0).sum())
        exposure_text = " ".join(
            f"{name}: messages under way {row['under way']:.3g} ms, {row['exposed']:.3g} ms of them exposed "
            f"(it waited), {row['hidden']:.3g} ms hidden behind its own work."
            for name, row in self.workers.iterrows()
        )
        return (
            f"The critical path of epoch {self.epoch} takes {self.milliseconds:.3g} ms and passes from worker to "
            f"worker {hops} time{'' if hops == 1 else 's'}: {parts}. {exposure_text}"
        )

    def draw(self, *, dark: bool = False) -> FigureData:
        """Draw the path over the activities of all workers."""
        return draw_path(self.segments, self.timeline, epoch=self.epoch, words=self.words, dark=dark)

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.draw()._repr_mimebundle_()


_LISTED = 3
"""Number of differences described in words."""
_SAME_MS = 1e-3
"""Differences smaller than this are not described, because clocks are read one after the other."""


class Side(NamedTuple):
    """One epoch of one run."""

    label: str
    path: CriticalPath


@dataclass(frozen=True, eq=False)
class PathComparison:
    """Comparison of an epoch of one run with one of another; at the end of a cell it shows both, worker by worker."""

    first: Side
    baseline: Side
    """Side with which the first is compared."""

    def __post_init__(self) -> None:
        ranks = [sorted(set(side.path.timeline["rank"])) for side in (self.first, self.baseline)]
        if ranks[0] != ranks[1]:
            raise ValueError(
                f"compared runs must have the same workers, got {ranks[0]} and {ranks[1]}; choose runs with equal "
                "numbers of workers"
            )

    one = FormerMember("first")
    other = FormerMember("baseline")

    def by_phase(self) -> DataFrame:
        """Return milliseconds of each worker's phases in both epochs, and their differences.

        Returns:
            One row per worker and phase; columns are the two labels, ``difference`` (first minus other), and the
            milliseconds on the critical paths, ``on the path`` and ``on the other's``.
        """
        import pandas as pd

        sides = (self.first, self.baseline)
        columns = [phases_of(side.path.timeline) for side in sides]
        path = [side.path.segments.groupby(["worker", "what"])["ms"].sum() for side in sides]
        table = pd.concat(columns, axis=1).fillna(0.0)
        labels = [side.label for side in sides]
        table.columns = pd.Index(labels if labels[0] != labels[1] else [f"{labels[0]} #{n}" for n in (1, 2)])
        order = list(WORDS)
        table = table.sort_index(key=lambda level: [order.index(each) if each in order else each for each in level])
        table["difference"] = table.iloc[:, 0] - table.iloc[:, 1]
        for name, milliseconds in zip(("on the path", "on the other's"), path, strict=True):
            table[name] = milliseconds.reindex(table.index, fill_value=0.0)
        return table.rename_axis(["worker", "phase"])

    @property
    def words(self) -> str:
        """Lengths of both epochs, exposed and hidden communication, and the largest differences, in sentences."""
        first_path, baseline_path = self.first.path, self.baseline.path
        pace = baseline_path.milliseconds / first_path.milliseconds  # above 1: the first run is faster
        parts = [
            f"The critical path of {self.first.label}, epoch {first_path.epoch}, takes {first_path.milliseconds:.3g} "
            f"ms, that of {self.baseline.label}, epoch {baseline_path.epoch}, {baseline_path.milliseconds:.3g} ms: "
            f"{pace if pace >= 1 else 1 / pace:.2f} times as {'fast' if pace >= 1 else 'slow'}."
        ]
        for name, row in first_path.workers.iterrows():
            baseline_row = baseline_path.workers.loc[name]
            parts.append(
                f"{str(name).capitalize()}: messages under way {row['under way']:.3g} ms instead of "
                f"{baseline_row['under way']:.3g}, exposed (it waited) {row['exposed']:.3g} instead of "
                f"{baseline_row['exposed']:.3g}, hidden behind its own work {row['hidden']:.3g} instead of "
                f"{baseline_row['hidden']:.3g}."
            )
        difference = self.by_phase()["difference"]
        # Largest absolute difference first.
        extremes = difference.reindex(difference.abs().sort_values(ascending=False, kind="stable").index)[:_LISTED]
        differences = ", ".join(
            f"{WORDS.get(phase, phase)} of worker {rank} {abs(ms):.3g} ms {'longer' if ms > 0 else 'shorter'}"
            for (rank, phase), ms in extremes.items()
            if abs(ms) > _SAME_MS
        )
        return " ".join([*parts, f"These differ most: {differences}." if differences else "No phase differs."])

    def draw(self, *, dark: bool = False) -> FigureData:
        """Draw both epochs aligned at their start, lanes of the same worker one below the other."""
        sides = [(side.label, side.path.timeline, side.path.segments) for side in (self.first, self.baseline)]
        return draw_path_pair(sides, self.by_phase(), words=self.words, dark=dark)

    def __repr__(self) -> str:
        return self.words

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return self.draw()._repr_mimebundle_()


def phases_of(timeline: DataFrame) -> Any:
    """Return milliseconds by worker and phase of an epoch; time between the recorded parts is a phase too.

    Args:
        timeline: rows of the epoch in ``run.timeline``; transfers are no phase of a worker.

    Example:
        >>> import pandas as pd
        >>> parts = [(0, "encode", 0.000, 0.001), (0, "wait", 0.001, 0.003), (0, "decode", 0.005, 0.006)]
        >>> timeline = pd.DataFrame(parts, columns=["rank", "what", "start_s", "end_s"])
        >>> phases_of(timeline).round(6).to_dict()
        {(0, 'decode'): 1.0, (0, 'encode'): 1.0, (0, 'wait'): 2.0, (0, 'between'): 2.0}
    """
    import pandas as pd

    parts = timeline[timeline["what"] != "transfer"]
    # Ms by worker and activity.
    phase_ms = (1e3 * (parts["end_s"] - parts["start_s"])).groupby([parts["rank"], parts["what"]]).sum()
    by_rank = parts.groupby("rank")
    # Ms from the first start to the last end of a worker.
    total_ms = 1e3 * (by_rank["end_s"].max() - by_rank["start_s"].min())
    rest = (total_ms - phase_ms.groupby(level=0).sum()).clip(lower=0.0)  # parts may overlap by the readings of clocks
    rest.index = pd.MultiIndex.from_tuples([(rank, UNRECORDED) for rank in rest.index], names=["rank", "what"])
    return pd.concat([phase_ms, rest])


_SAME_S = 1e-6
"""Times closer than this are equal, because clocks are read one after the other."""


class _Part(NamedTuple):
    number: int
    layer: int
    direction: str
    round: int
    rank: int
    activity: str
    peer: int
    start: float
    end: float

    @property
    def place(self) -> tuple[int, str, int]:
        return self.layer, self.direction, self.round


@overload
def critical_path(run: Run | DataFrame, other: None = None, *, epoch: int | None = None) -> CriticalPath: ...


@overload
def critical_path(run: Run | DataFrame, other: Run | DataFrame, *, epoch: int | None = None) -> PathComparison: ...


def critical_path(
    run: Run | DataFrame, other: Run | DataFrame | None = None, *, epoch: int | None = None
) -> CriticalPath | PathComparison:
    """Return the critical path of a recorded epoch: the chain of parts and messages that ends last.

    It is followed backwards from the part that ended last. A part began when the previous part on its worker had ended;
    a wait ended when the last message of its exchange was received, which was sent when its sender had posted it. So
    the path continues at that sender, unless the message had been received before the wait began. Other parts may take
    somewhat longer without a longer epoch.

    Args:
        run: a run, or its ``timeline``. All workers must be on one machine, whose clock they share.
        other: a run with the same workers as baseline, or its ``timeline``.
        epoch: an epoch that was recorded, for two runs in both; by default the one with the median length. For two runs
            it is one that both recorded, by its length relative to each run's median; if there is none, each run's own.

    Returns:
        The path; for two runs both paths, worker by worker and phase by phase, with the differences in words.
        A path begins with the first recorded part it depends on, or, with stale rows, with a message of an earlier
        epoch; it ends with the last recorded part, before the last all-reduce of gradients.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded, or two runs have different workers.

    Example:
        ``run.critical_path().by_phase()``, ``run.critical_path(vanilla).words``
    """
    import pandas as pd

    runs = [each for each in (run, other) if each is not None]
    timelines = [each if isinstance(each, pd.DataFrame) else each.timeline for each in runs]
    if other is None:
        return _path_of(timelines[0], recorded_epoch(timelines[0], epoch))
    if any(isinstance(each, pd.DataFrame) for each in runs):
        names = ["the first", "the other"]
    else:
        names = labels([take(each) for each in runs])
    epoch = common_epoch([_epoch_lengths(timeline) for timeline in timelines]) if epoch is None else epoch
    paths = [_path_of(timeline, recorded_epoch(timeline, epoch)) for timeline in timelines]
    return PathComparison(*(Side(name, path) for name, path in zip(names, paths, strict=True)))


def _path_of(timeline: DataFrame, epoch: int) -> CriticalPath:
    import pandas as pd

    epoch_rows = timeline[timeline["epoch"] == epoch]
    parts = _parts_of(epoch_rows)
    worker_parts = [part for part in parts if part.activity != "transfer"]  # sorted by end, as all parts
    begin = min(part.start for part in worker_parts)
    # Followed from the end to the start, because only the last part is known to be on the path.
    links = list(_follow_backwards(worker_parts, [part for part in parts if part.activity == "transfer"], begin))[::-1]
    places = [(link.rank, link.activity, link.layer, link.direction, link.peer) for link in links]
    times = [(1e3 * (link.start - begin), 1e3 * (link.end - begin)) for link in links]
    rows = [(*place, *time) for place, time in zip(places, times)]
    columns = ["worker", "what", "layer", "direction", "sender", "start (ms)", "end (ms)"]
    segments = pd.DataFrame(rows, columns=columns)
    segments["ms"] = segments["end (ms)"] - segments["start (ms)"]
    return CriticalPath(epoch, segments, exposed_table(epoch_rows), epoch_rows)


def recorded_epoch(timeline: DataFrame, epoch: int | None = None) -> int:
    """Return an epoch of a timeline; by default the one with the median length, the shorter of two.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded.
    """
    lengths = _epoch_lengths(timeline)
    recorded_epochs = sorted(lengths.index)
    if not recorded_epochs:
        raise ValueError("an epoch must be recorded to be shown, got none; launch with timeline_every=5")
    if epoch is None:
        return median_epoch(lengths)
    if epoch not in recorded_epochs:
        raise ValueError(f"epoch must be one that was recorded, {recorded_epochs}, got {epoch}")
    return epoch


def _epoch_lengths(timeline: DataFrame) -> Series:
    """Return the seconds of each recorded epoch."""
    return epoch_seconds(timeline[timeline["what"] != "transfer"])


def _parts_of(timeline: DataFrame) -> list[_Part]:
    """Return all parts, numbered in the order of their ends."""
    rows = timeline.assign(round=timeline["round"] if "round" in timeline.columns else 0)
    rows = rows.sort_values(["end_s", "start_s"], kind="stable").assign(number=range(len(rows)))
    columns = ("number", "layer", "direction", "round", "rank", "what", "peer", "start_s", "end_s")
    return [_Part(*values) for values in zip(*(rows[name].tolist() for name in columns))]


def _follow_backwards(worker_parts: list[_Part], transfers: list[_Part], begin: float) -> Iterator[_Part]:
    """Yield the links of the path from the last to the first; each begins where the previous one in time ends."""
    part: _Part | None = worker_parts[-1]
    end = worker_parts[-1].end
    while part is not None:
        message = _awaited_message(part, transfers) if part.activity == "wait" else None
        if message is None:
            yield part._replace(end=end)
            # The worker's previous part, with unrecorded time (dense layers, loss) as a link of its own.
            previous_part, end = _previous_part(part, worker_parts), part.start
            if previous_part is not None and previous_part.end < end:
                yield part._replace(activity=UNRECORDED, start=previous_part.end, end=end)
                end = previous_part.end
            part = previous_part
            continue
        post = _post_of(message, worker_parts)
        if post is None:  # it was sent in an earlier epoch
            yield message._replace(activity="message", start=max(message.start, begin), end=end)
            return
        send_time = min(post.end, end)  # a transfer may end before the post does
        yield message._replace(activity="message", peer=post.rank, start=send_time, end=end)
        part, end = post, send_time


def _awaited_message(wait: _Part, transfers: list[_Part]) -> _Part | None:
    """Return the message that ended a wait; ``None`` if all had been received when it began."""
    # Sorted by end, so the last one ended the wait.
    messages = [transfer for transfer in transfers if transfer.rank == wait.rank and transfer.place == wait.place]
    last_message = messages[-1] if messages else None
    return last_message if last_message is not None and last_message.end > wait.start + _SAME_S else None


def _post_of(message: _Part, worker_parts: list[_Part]) -> _Part | None:
    """Return the sender's post of a message; on a GPU, where the sender is not recorded, the last of its exchange."""
    posts = [
        part
        for part in worker_parts
        if part.activity == "post"
        and part.place == message.place
        and (part.rank == message.peer if message.peer >= 0 else part.rank != message.rank)
        and part.start <= message.end
    ]
    return posts[-1] if posts else None


def _previous_part(part: _Part, worker_parts: list[_Part]) -> _Part | None:
    """Return the last part of the same worker that had ended when this part began."""
    earlier_parts = (
        candidate for candidate in worker_parts[::-1] if candidate.rank == part.rank and candidate.number < part.number
    )
    return next((candidate for candidate in earlier_parts if candidate.end <= part.start + _SAME_S), None)
