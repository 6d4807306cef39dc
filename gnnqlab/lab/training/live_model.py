"""Model of the live view: incremental reading of the files that a run writes while it trains."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.run.folder import read_json
from gnnqlab.run.run import LIVE, Run
from gnnqlab.run.status_text import RateMeter, describe_activity
from gnnqlab.train.config.config_file import find_unimported_modules, read_config
from gnnqlab.train.loop.scores import FURTHER_SCORES, SCORES, read_further_score_names, read_score_name
from gnnqlab.train.records.json_lines import JsonLinesTail, last_line, lines_at, spread_lines
from gnnqlab.train.records.slow_worker import COMPUTING, find_slow_worker
from gnnqlab.units import human_bytes

__all__ = ["AGES", "DIRECTIONS", "SENT_COLUMNS", "GrowingColumns", "LiveModel", "Traffic"]

AGES = ("staleness", "epsilon")
"""Columns of records that only systems with stale or cached rows have: age in epochs, threshold of a cache."""
SENT_COLUMNS = tuple(f"sent_{layer}" for layer in range(16))
"""Columns of records that only systems with a cache have: the share of a layer's rows that rank 0 sent."""
DIRECTIONS = ("forward", "backward")
_COLUMNS = (
    "epoch", "time_s", "loss", "train_score", "val_score", "test_score", "epoch_s",
    *(phase.column for phase in PHASES), "bytes_payload", "bytes_params", *AGES, *SENT_COLUMNS,
    *(f"{split}_{name}" for name in FURTHER_SCORES for split in ("val", "test")),
)  # fmt: skip
_LONG = 2000
"""Most epochs that are all read at once when a view opens."""
_PREVIEW = 200
"""Approximate number of epochs that an opening view reads of a longer run: about as many as it has bars."""
_SPREAD = 64
"""Lines, one per epoch, that are read of a long file of messages when a view opens."""
_NEWEST_BYTES = 32 << 10
"""Bytes at the end of a file of messages that each later update reads; most epochs before them are skipped."""
_SKIPPED = 16
"""Approximate number of skipped epochs that are read after all."""
_MAX_EPOCHS = 1024
"""Most epochs whose messages are stored; beyond it every second epoch is dropped."""
_SHORT_EPOCH_S = 2.0
"""Epochs shorter than this need no words about their progress."""
_RECENT = 10
"""Newest epochs whose means are shown as map of pairs and time left."""


class GrowingColumns:
    """Records of one worker in growing columns of numbers.

    Example:
        >>> growing = GrowingColumns()
        >>> growing.add([{"epoch": 0, "loss": 2.0}, {"epoch": 1, "loss": 1.5, "val_score": None}])
        >>> growing["loss"].tolist(), len(growing)
        ([2.0, 1.5], 2)
        >>> growing.add([{"epoch": 1, "loss": 1.4}])  # again, after a restart
        >>> growing["loss"].tolist()
        [2.0, 1.4]
    """

    def __init__(self) -> None:
        self._table = np.empty((len(_COLUMNS), 64))  # (columns, capacity), of which `_count` records are used
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, column: str) -> NDArray[np.float64]:
        """Return one column; NaN where a record lacks it."""
        return self._table[_COLUMNS.index(column), : self._count]

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Append records; those of epochs that were trained again, after a restart of the run, replace the old ones."""
        rows = list(lines)  # an iterator may be read once only
        if not rows:
            return
        first_epoch = rows[0].get("epoch", np.inf)
        if self._count and first_epoch <= self["epoch"][-1]:
            self._count = int(np.searchsorted(self["epoch"], first_epoch))
        new_count = self._count + len(rows)
        if new_count > self._table.shape[1]:  # double the capacity, so that appending has constant amortized cost
            table = np.empty((len(_COLUMNS), max(2 * self._table.shape[1], new_count)))
            table[:, : self._count] = self._table[:, : self._count]
            self._table = table
        for index, name in enumerate(_COLUMNS):
            self._table[index, self._count : new_count] = np.array([row.get(name) for row in rows], dtype=float)
        self._count = new_count


class Traffic:
    """Messages that one worker received: elements by bit-width in some epochs, bytes by sender in the newest."""

    def __init__(self, workers: int) -> None:
        self.elements: dict[int, NDArray[np.float64]] = {}
        """Epoch -> elements by direction and bit-width, ``(2, len(WIDTHS))``."""
        self._bytes: dict[int, NDArray[np.float64]] = {}
        self._workers = workers

    def add(self, lines: Iterable[dict[str, Any]]) -> None:
        """Add lines of a file of messages; an epoch that appears twice counts once."""
        for line in lines:
            elements, sent_bytes = np.zeros((len(DIRECTIONS), len(WIDTHS))), np.zeros(self._workers)
            for _, direction, sender, _, bits, _, payload, parameters, *_ in line["rows"]:
                # Payload bits / bits per element.
                elements[DIRECTIONS.index(direction), WIDTHS.index(bits)] += 8 * payload / bits
                sent_bytes[sender] += payload + parameters  # bytes
            self.elements[line["epoch"]], self._bytes[line["epoch"]] = elements, sent_bytes
        self._bytes = {epoch: self._bytes[epoch] for epoch in sorted(self._bytes)[-_RECENT:]}  # the newest epochs only

    @property
    def bytes_by_sender(self) -> NDArray[np.float64]:
        """Mean bytes per epoch from each worker, over the newest epochs, ``(P,)``."""
        return np.mean(list(self._bytes.values()), axis=0) if self._bytes else np.zeros(self._workers)


@dataclass(frozen=True, kw_only=True)
class RunStatus:
    """Status of a run."""

    state: str
    epoch: int
    cause: str
    activity: str = ""
    """Current activity before the end of the first epoch, and in long epochs; else empty."""


class LiveModel:
    """State of a run while it trains; :meth:`poll` reads new records.

    All its data come from the run's folder, so it can be created again at any time, in any process.

    Args:
        run: the run, which may train, have ended, or not have begun.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        config = read_config(run.folder)
        self.workers: int = config["workers"]
        self.epochs: int = config["train"]["epochs"]
        self.system: str = config["system"]["name"]
        self.choices, self.lag = _bits_and_lag(run)
        """Bit-widths that the system chooses from, and the staleness in epochs of the rows that its schedule uses."""
        self.records = [GrowingColumns() for _ in range(self.workers)]
        self.traffic = [Traffic(self.workers) for _ in range(self.workers)]
        self.status = RunStatus(state="starting", epoch=-1, cause="")
        self.switches: list[tuple[int, bool]] = []
        """Epochs from which on rows are fresh (True) or stale (False), as the system decided."""
        self._slow = ""
        self._wire = RateMeter()
        self._epoch_seen = (-1, time.monotonic())
        self._score: str | None = None
        self.also: dict[str, str] = {}
        """Columns of further scores -> their names; empty until they are known."""
        folder = run.folder
        self._lines = [JsonLinesTail(folder / f"records-rank{rank}.jsonl") for rank in range(self.workers)]
        self._messages = [JsonLinesTail(folder / f"traffic-rank{rank}.jsonl") for rank in range(self.workers)]
        self._events, self._decisions = (
            JsonLinesTail(folder / "events.jsonl"),
            JsonLinesTail(folder / "decisions.jsonl"),
        )
        self._opened = self._is_previewed = False

    # -- reading --------------------------------------------------------------------------------------------------

    def poll_status(self) -> bool:
        """Read the status of the run, which is cheap; return True if its state or cause has changed."""
        previous_status = self.status
        for event in self._events.poll():
            if event.get("event") == "slow":
                self._slow = str(event.get("text", ""))
            elif event.get("event") in ("recovered", "stalled"):
                self._slow = ""
        state = self.run.status
        if state not in LIVE:
            self._slow = ""
        cause, epoch = self.run.cause or self._slow or self.run.warning, self.run.epoch
        if epoch != self._epoch_seen[0]:
            self._epoch_seen = (epoch, time.monotonic())
        activity = self._activity() if state in LIVE else ""
        self.status = RunStatus(state=state, epoch=epoch, cause=cause, activity=activity)
        return (previous_status.state, previous_status.cause) != (state, cause)

    def _activity(self) -> str:
        """Return the activity of the workers in the first epoch and in long ones; empty in other epochs."""
        epoch, begin_s = self._epoch_seen
        if epoch > 0 and time.monotonic() - begin_s < _SHORT_EPOCH_S:
            return ""
        pulses = self.run.pulses
        rate = self._wire.rate([pulse.pid for pulse in pulses]) if self.run.is_here else None
        return describe_activity(pulses) + ("" if rate is None else f", {human_bytes(rate)}/s over the wire")

    def preview(self) -> None:
        """Read enough to open a view: of a long run some epochs, including the newest; the next `poll` reads all."""
        newest_line = last_line(self._lines[0].path)
        if len(self.records[0]) or newest_line is None or newest_line["epoch"] < _LONG:
            self.poll()
            return
        self.poll_status()
        spread_epochs = {line["epoch"] for line in spread_lines(self._lines[0].path, _PREVIEW)}
        epochs = sorted(spread_epochs | set(range(newest_line["epoch"] - _RECENT, newest_line["epoch"] + 1)))
        for records, lines in zip(self.records, self._lines, strict=True):
            records.add(lines_at(lines.path, "epoch", epochs))
        self._is_previewed = True
        self._poll_messages_and_decisions()

    def poll(self) -> bool:
        """Read new records; return True if anything has changed."""
        has_changed = self.poll_status()
        # After a preview the records have gaps, so all are read again into new columns.
        records = [GrowingColumns() for _ in self.records] if self._is_previewed else self.records
        for worker_records, lines in zip(records, self._lines, strict=True):
            new_lines = lines.poll()
            worker_records.add(new_lines)
            has_changed |= bool(new_lines)
        self.records, self._is_previewed = records, False
        self._poll_messages_and_decisions()
        return has_changed

    def _poll_messages_and_decisions(self) -> None:
        self._poll_messages()
        self.switches += [
            (decision["epoch"], decision["what"] == "fresh rows")
            for decision in self._decisions.poll()
            if decision.get("what") in ("fresh rows", "rows of the epoch before")
        ]

    def _poll_messages(self) -> None:
        """Read the newest messages, and of the skipped epochs a few, the same for all workers."""
        newest_lines = [lines.poll(_NEWEST_BYTES) for lines in self._messages]
        # First epoch that all workers' newest lines contain.
        first_epoch = max((lines[0]["epoch"] for lines in newest_lines if lines), default=0)
        if not self._opened:
            epochs = [line["epoch"] for line in spread_lines(self._messages[0].path, _SPREAD)]
        else:
            skipped_epochs = np.arange(max(self.common_epochs, default=-1) + 1, first_epoch)
            epochs = skipped_epochs[:: max(1, len(skipped_epochs) // _SKIPPED)].tolist()
        self._opened = any(newest_lines) or self._opened
        for traffic, lines, new_lines in zip(self.traffic, self._messages, newest_lines, strict=True):
            traffic.add(lines_at(lines.path, "epoch", epochs))
            traffic.add(new_lines)
        common_epochs = sorted(self.common_epochs)
        if len(common_epochs) > _MAX_EPOCHS:
            remaining_epochs = set(common_epochs[::-2])  # every second epoch from the newest on
            for traffic in self.traffic:
                traffic.elements = {
                    epoch: elements
                    for epoch, elements in traffic.elements.items()
                    if epoch in remaining_epochs or epoch > common_epochs[-1]
                }

    # -- answers --------------------------------------------------------------------------------------------------

    @property
    def common_epochs(self) -> set[int]:
        """Epochs whose messages were read for all workers; only these can be summed."""
        return set.intersection(*(set(traffic.elements) for traffic in self.traffic))

    @property
    def under_way(self) -> bool:
        """True if the run may still write records."""
        return self.status.state in LIVE

    @property
    def has_epochs(self) -> bool:
        """True if all workers have recorded an epoch, so that a figure can be drawn."""
        return self.recorded_epochs > 0

    @property
    def score(self) -> str:
        """Name of the score: ``accuracy``, ``micro-F1``, ``AUC`` ...; ``score`` until it is known."""
        if self._score is None and (facts := read_json(self.run.folder / "facts.json")) is not None:
            self._score = SCORES[read_score_name(facts)]
            splits = (("val", "validation"), ("test", "test"))
            self.also = {
                f"{split}_{name}": f"{word} {FURTHER_SCORES[name]}"
                for name in read_further_score_names(facts)
                if name in FURTHER_SCORES  # errors in the unit of the targets have no share of 100 %
                for split, word in splits
            }
        return self._score or "score"

    @property
    def recorded_epochs(self) -> int:
        """Number of epochs that all workers have recorded."""
        return min(len(records) and int(records["epoch"][-1]) + 1 for records in self.records)

    @property
    def remaining_s(self) -> float | None:
        """Estimated seconds of the remaining epochs, from the mean of the last ten; ``None`` if unknown."""
        end_times = self.records[0]["time_s"][-_RECENT - 1 :]  # ends of the newest epochs, seconds since the start
        if not len(end_times) or not self.under_way:
            return None
        if len(end_times) == 1:  # an overestimate, because the first epoch includes set-up
            return float((self.epochs - self.recorded_epochs) * self.records[0]["epoch_s"][-1])
        return float((self.epochs - self.recorded_epochs) * (end_times[-1] - end_times[0]) / (len(end_times) - 1))

    @property
    def sentence(self) -> str:
        """The run in one line: state, epoch, time left, loss, accuracy, and the cause of a failure."""
        words = [f"run {self.run.id}", self.status.state, f"epoch {self.recorded_epochs}/{self.epochs}"]
        if (left_s := self.remaining_s) is not None:
            words.append(f"{int(left_s) // 60:02d}:{int(left_s) % 60:02d} left")
        if len(self.records[0]):
            words.append(f"loss {self.records[0]['loss'][-1]:.4g}")
        scores = self.records[0]["val_score"]
        known_scores = scores[~np.isnan(scores)]
        if len(known_scores):
            words.append(f"validation {100 * known_scores[-1]:.1f} %")
        if self.status.activity:
            words.insert(3, self.status.activity)
        if self.status.cause or self.trouble:
            words.append(self.status.cause or self.trouble)
        return " · ".join(words)

    @property
    def trouble(self) -> str:
        """Cause of a failure or delay, or a worker slower than the others; empty if there is none."""
        if self.status.cause or self._is_previewed:
            return self.status.cause if self.status.state != "stopped" else ""
        count = min(map(len, self.records))
        computing = [sum(records[column][:count] for column in COMPUTING) for records in self.records]
        slow_worker = find_slow_worker(np.array(computing))
        return "" if slow_worker is None else slow_worker.text

    @property
    def ages(self) -> dict[str, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Column (staleness, ε) -> epochs and values of rank 0; empty for a system with neither."""
        ages = {column: pair for column in AGES if (pair := self._known_values(column))}
        if self.lag and "staleness" not in ages:
            epochs = self.records[0]["epoch"]
            ages["staleness"] = (epochs, self._scheduled_age(epochs))
        return ages

    @property
    def sent_shares(self) -> dict[int, tuple[NDArray[np.float64], NDArray[np.float64]]]:
        """Layer -> epochs and the share of its rows that rank 0 sent; empty for a system without a cache."""
        return {layer: pair for layer, column in enumerate(SENT_COLUMNS) if (pair := self._known_values(column))}

    def _known_values(self, column: str) -> tuple[NDArray[np.float64], NDArray[np.float64]] | None:
        """Return epochs and values of rank 0 where a column is known; ``None`` if it is known nowhere."""
        records = self.records[0]
        is_known = ~np.isnan(records[column])
        return (records["epoch"][is_known], records[column][is_known]) if is_known.any() else None

    def _scheduled_age(self, epochs: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the staleness under the schedule: fresh rows in the first epoch, and where the system switched."""
        age = np.where(epochs == 0, 0.0, float(self.lag))
        for begin, is_fresh in self.switches:
            # Switches are in the order of epochs, so the last one counts.
            age[epochs >= begin] = 0.0 if is_fresh else float(self.lag)
        return age


def _bits_and_lag(run: Run) -> tuple[tuple[int, ...], int]:
    if find_unimported_modules(read_config(run.folder)):
        return (), 0  # the user's classes are not imported here; the run's records show their effect
    try:
        system = run.config.system
        return tuple(system.bits.choices), system.schedule.lag
    except (AttributeError, KeyError, TypeError, ValueError):
        return (), 0  # written by another version
