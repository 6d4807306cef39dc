"""Result of one training: scores, seconds, bytes and bit-widths of all its epochs.

Speed and accuracy of an adaptive system must come from the same training: the bit-widths and stale rows of its fast
first epochs differ from those that determine its final score.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.train.loop.scores import get_test_score, score_key
from gnnqlab.train.records.evaluation_pauses import by_epoch, epoch_seconds

if TYPE_CHECKING:
    from gnnqlab.run.run import Run

__all__ = ["MARGIN", "RunResult", "read_result", "stale_share"]

MARGIN = 0.005
"""Tolerance of the target: the baseline's best validation score less this margin counts as reached."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """Result of a finished training; seconds are those of the slowest worker, without evaluation.

    In-process trainings leave unmeasured quantities at their defaults.
    """

    score: float
    """Test score in the epoch with the best validation score, in [0, 1]."""
    score_name: str = "test_accuracy"
    """Name of the score: ``test_accuracy``, ``test_f1_micro`` or ``test_auc``."""
    run: str = ""
    """Name of the run's folder in the study's folder; empty for an in-process training."""
    bits: float = 0.0
    """Mean bit-width of sent elements."""
    stale: float = 0.0
    """Share of epochs with stale rows (of the previous epoch)."""
    epochs: int = 0
    train_s: float = math.nan
    """Training time, including the first epoch and bit-width assignments."""
    curve: tuple[tuple[int, float, float], ...] = ()
    """(epochs trained, seconds trained, validation score) of every evaluation."""
    epochs_s: tuple[float, ...] = ()
    """Seconds of every epoch."""
    epochs_bytes: tuple[float, ...] = ()
    """Bytes sent in every epoch: payload and quantization parameters, of all workers."""
    bytes_sent: float = math.nan
    """Mean bytes per epoch."""
    computation_s: float = math.nan
    """Computation in a median epoch, mean over workers."""
    communication_s: float = math.nan
    """Waiting, gradient all-reduce, encoding and decoding in a median epoch, mean over workers."""
    gradients_s: float = math.nan
    """All-reduce of weight gradients alone, in a median epoch."""
    memory_bytes: int = 0
    """Peak memory of the worker with the highest peak."""
    assign_s: float = 0.0
    """Total time in which bit-width assignment blocked training."""
    assign_cpu_s: float = 0.0
    """Total processor time of assignments in the background."""
    skipped: float = 0.0
    """Share of rows that a cache skipped; 0 without a cache."""
    rounded_twice: float = 0.0
    """Share of elements quantized by products after a codec had rounded them; 0 without quantized products."""

    @property
    def best(self) -> float:
        """Best validation score; NaN without evaluations."""
        return max((score for *_, score in self.curve), default=math.nan)

    def seconds_to(self, target: float) -> float:
        """Return the seconds of training until a validation score was reached; NaN if it never was.

        Example:
            >>> one = RunResult(score=0.9, curve=((1, 1.0, 0.5), (2, 3.0, 0.9)))
            >>> one.seconds_to(0.8), one.seconds_to(0.95)
            (3.0, nan)
        """
        return next((seconds for _, seconds, score in self.curve if score >= target), math.nan)

    def epochs_to(self, target: float) -> float:
        """Return the number of epochs until a validation score was reached; NaN if it never was."""
        return next((float(epochs) for epochs, _, score in self.curve if score >= target), math.nan)

    def bytes_to(self, target: float) -> float:
        """Return the bytes sent until a validation score was reached; NaN if it never was.

        Example:
            >>> one = RunResult(score=0.9, curve=((2, 1.0, 0.9),), epochs_bytes=(300.0, 100.0, 100.0))
            >>> one.bytes_to(0.8), one.bytes_to(0.95)
            (400.0, nan)
        """
        epochs = self.epochs_to(target)
        return math.nan if math.isnan(epochs) else math.fsum(self.epochs_bytes[: int(epochs)])

    def settled_s(self, share: float = 0.5) -> float:
        """Compute the mean seconds per epoch over the last ``share`` of the training, after warm-up and adaptation."""
        last_epochs_s = self.epochs_s[int((1 - share) * len(self.epochs_s)) :]  # the last epochs
        return statistics.fmean(last_epochs_s) if last_epochs_s else math.nan

    def to_json(self) -> dict[str, Any]:
        """Convert to plain values; :meth:`from_json` restores them."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunResult:
        """Build a result from the output of :meth:`to_json`."""
        curve = tuple((int(epochs), float(seconds), float(score)) for epochs, seconds, score in value["curve"])
        sequences = {name: tuple(value.get(name, ())) for name in ("epochs_s", "epochs_bytes")}
        return cls(**{**value, "curve": curve, **sequences})


def read_result(run: Run) -> RunResult:
    """Read the result of a finished run from its folder."""
    summary, records, traffic = run.summary, run.records, run.traffic
    evaluated = by_epoch(records).dropna(subset=["val_score"])  # epochs without evaluation have no score
    payload_bits = 8.0 * traffic["payload_bytes"]
    elements = float((payload_bits / traffic["bits"]).sum())  # parameters are not elements
    byte_columns = [name for name in ("bytes_payload", "bytes_params", "bytes_bases") if name in records]
    epoch_bytes = records.groupby("epoch")[byte_columns].sum().sum(axis=1)  # of all workers
    row_counts = run.cache[["rows_sent", "rows_offered"]].sum()
    return RunResult(
        score=get_test_score(summary) or 0.0,
        score_name=score_key(summary),
        run=run.id,
        bits=float(payload_bits.sum()) / elements if elements else 0.0,
        stale=stale_share(run),
        epochs=int(summary["epochs"]),
        train_s=summary["train_s"],
        curve=tuple(
            (int(row.epoch) + 1, float(row.train_s), float(row.val_score)) for row in evaluated.itertuples(index=False)
        ),
        epochs_s=tuple(map(float, epoch_seconds(records))),
        epochs_bytes=tuple(map(float, epoch_bytes)),
        bytes_sent=float(epoch_bytes.sum()) / int(summary["epochs"]),
        computation_s=summary["comp_s"],
        communication_s=summary["comm_s"] + summary["quant_s"],
        gradients_s=float(records.groupby("epoch")["reduce_s"].mean().median()),  # workers' mean, epochs' median
        memory_bytes=summary["peak_memory_bytes"],
        assign_s=float(records.groupby("rank")["assign_s"].sum().max()),  # all workers wait for the slowest
        assign_cpu_s=summary.get("assignments", 0) * summary.get("assign_cpu_s", 0.0),
        skipped=float(1 - row_counts["rows_sent"] / row_counts["rows_offered"]) if row_counts["rows_offered"] else 0.0,
        rounded_twice=float(records["rounded_twice"].sum() / max(records["rounded"].sum(), 1.0)),
    )


def stale_share(run: Run) -> float:
    """Compute the share of epochs with stale rows from a run's decisions; the first epoch is never stale."""
    if run.config.system.schedule.lag == 0:
        return 0.0
    epochs, decisions = run.config.train.epochs, run.decisions
    stale_flags = [False] + [True] * (epochs - 1)  # the first epoch has no earlier rows
    for epoch, decision in zip(decisions["epoch"], decisions["what"]):
        if decision in ("fresh rows", "rows of the epoch before"):
            # A decision holds until the next one.
            stale_flags[int(epoch) :] = [decision == "rows of the epoch before"] * len(stale_flags[int(epoch) :])
    return stale_flags.count(True) / epochs
