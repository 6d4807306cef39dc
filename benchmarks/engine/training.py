"""What one training came to, all of it: how well, how soon, how long, and what travelled.

Speed and accuracy of a system that decides as it goes belong together only if they are of one training: widths and old
rows that make its first epochs quick are not those that its score came from.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnqlab.launch.run import Run

__all__ = ["Training", "mean_of", "read_training"]


@dataclass(frozen=True, kw_only=True)
class Training:
    """One run to its end; seconds are of training, the slowest worker's, evaluation apart."""

    score: float
    """On test nodes, in the epoch with the best validation score, in [0, 1]."""
    bits: float
    """Mean width of an element that travelled."""
    stale: float
    """Share of epochs that used rows of the epoch before."""
    epochs: int = 0
    train_s: float = math.nan
    """The whole training, first epoch and assignments of widths included."""
    curve: tuple[tuple[int, float, float], ...] = ()
    """(epochs trained by then, seconds trained by then, validation score) of every evaluation."""
    epochs_s: tuple[float, ...] = ()
    """Every epoch."""
    bytes_sent: float = math.nan
    """Mean bytes of an epoch: data and parameters, of all workers."""
    memory_bytes: int = 0
    """Most that a worker held."""
    assign_s: float = 0.0
    """What assignments of widths held the training up for, in all."""
    assign_cpu_s: float = 0.0
    """Processor time that they took beside it, in all."""

    kept: float = 0.0
    """Share of the rows offered to a cache that stayed home; 0 without one."""
    rounded_twice: float = 0.0
    """Share of the elements that products quantized which a codec had rounded on their way; 0 if they quantize none."""

    epochs_bytes: tuple[float, ...] = ()
    """Bytes sent in every epoch: data and parameters, of all workers."""

    @property
    def best(self) -> float:
        """Best validation score; NaN if nothing was validated."""
        return max((score for *_, score in self.curve), default=math.nan)

    def seconds_to(self, target: float) -> float:
        """Return the seconds of training by which a validation score was reached; NaN if it never was.

        Example:
            >>> one = Training(score=0.9, bits=2, stale=0.0, curve=((1, 1.0, 0.5), (2, 3.0, 0.9)))
            >>> one.seconds_to(0.8), one.seconds_to(0.95)
            (3.0, nan)
        """
        return next((seconds for _, seconds, score in self.curve if score >= target), math.nan)

    def epochs_to(self, target: float) -> float:
        """Return the epochs after which a validation score was reached; NaN if it never was."""
        return next((float(epochs) for epochs, _, score in self.curve if score >= target), math.nan)

    def bytes_to(self, target: float) -> float:
        """Return the bytes sent until a validation score was reached; NaN if it never was.

        Example:
            >>> one = Training(score=0.9, bits=2, stale=0.0, curve=((2, 1.0, 0.9),), epochs_bytes=(300.0, 100.0, 100.0))
            >>> one.bytes_to(0.8), one.bytes_to(0.95)
            (400.0, nan)
        """
        epochs = self.epochs_to(target)
        return math.nan if math.isnan(epochs) else math.fsum(self.epochs_bytes[: int(epochs)])

    def settled_s(self, share: float = 0.5) -> float:
        """Return the mean epoch of the last ``share`` of the training: after warm-up and first decisions."""
        return statistics.fmean(self.epochs_s[int((1 - share) * len(self.epochs_s)) :])

    def to_json(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_json` undoes it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Training:
        curve = tuple((int(epochs), float(seconds), float(score)) for epochs, seconds, score in value["curve"])
        each = {name: tuple(value.get(name, ())) for name in ("epochs_s", "epochs_bytes")}
        return cls(**{**value, "curve": curve, **each})


def read_training(run: Run) -> Training:
    """Return what a finished run came to."""
    from gnnqlab.lab.figures.frames import by_epoch
    from gnnqlab.study.result import stale_share
    from gnnqlab.train.records.pauses import epoch_seconds

    summary, records, traffic = run.summary, run.records, run.traffic
    evaluated = by_epoch(records).dropna(subset=["val_score"])
    coded = 8.0 * traffic["payload_bytes"].sum()
    elements = (8.0 * traffic["payload_bytes"] / traffic["bits"]).sum()
    epochs = int(summary["epochs"])
    return Training(
        score=summary.get("test_accuracy") or summary.get("test_f1_micro") or 0.0,
        bits=float(coded / elements) if elements else 0.0,
        stale=stale_share(run),
        epochs=epochs,
        train_s=summary["train_s"],
        curve=tuple(
            (int(at.epoch) + 1, float(at.train_s), float(at.val_score)) for at in evaluated.itertuples(index=False)
        ),
        epochs_s=tuple(map(float, epoch_seconds(records))),
        bytes_sent=float(records[["bytes_payload", "bytes_params"]].to_numpy().sum()) / epochs,
        epochs_bytes=tuple(map(float, records.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1))),
        memory_bytes=summary["peak_memory_bytes"],
        assign_s=float(records.groupby("rank")["assign_s"].sum().max()),
        assign_cpu_s=summary.get("assignments", 0) * summary.get("assign_cpu_s", 0.0),
        rounded_twice=float(records["rounded_twice"].sum() / max(records["rounded"].sum(), 1.0)),
    )


def mean_of(trainings: Sequence[Training], value: str) -> float:
    """Return the mean of a field over trainings."""
    return statistics.fmean(getattr(one, value) for one in trainings)
