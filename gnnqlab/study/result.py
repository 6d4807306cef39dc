"""The result of one training: scores, seconds, bytes and bit-widths of the whole of it.

Speed and accuracy of a system that decides while it trains belong together only if they are of the same training: the
bit-widths and stale rows that make its first epochs fast are not those that its score comes from.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.train.loop.scores import score_in, score_key
from gnnqlab.train.records.evaluation_pauses import by_epoch, epoch_seconds

if TYPE_CHECKING:
    from gnnqlab.run.run import Run

__all__ = ["MARGIN", "RunResult", "read_result", "stale_share"]

MARGIN = 0.005
"""How far below the baseline's best validation score a training may stay and count as having reached it."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """One training to its end; seconds are those of the slowest worker, without evaluation.

    A training that was not launched, but made in this process, leaves at their defaults what it does not measure.
    """

    score: float
    """On test nodes, in the epoch with the best validation score, in [0, 1]."""
    score_name: str = "test_accuracy"
    """Name of the score: ``test_accuracy``, ``test_f1_micro`` or ``test_auc``."""
    run: str = ""
    """Name of the run's folder in the study's folder; empty for a training that was not launched."""
    bits: float = 0.0
    """Mean bit-width of an element that was sent."""
    stale: float = 0.0
    """Share of epochs that used rows of the epoch before."""
    epochs: int = 0
    train_s: float = math.nan
    """The whole training, first epoch and assignments of bit-widths included."""
    curve: tuple[tuple[int, float, float], ...] = ()
    """(epochs trained by then, seconds trained by then, validation score) of every evaluation."""
    epochs_s: tuple[float, ...] = ()
    """Every epoch."""
    epochs_bytes: tuple[float, ...] = ()
    """Bytes sent in every epoch: payload and parameters, of all workers."""
    bytes_sent: float = math.nan
    """Mean bytes of an epoch."""
    computation_s: float = math.nan
    """Computation in a median epoch, mean over workers."""
    communication_s: float = math.nan
    """Waiting, the sum of weight gradients, encoding and decoding in a median epoch, mean over workers."""
    gradients_s: float = math.nan
    """The sum of weight gradients alone."""
    memory_bytes: int = 0
    """Peak memory of the worker that needed most."""
    assign_s: float = 0.0
    """Time for which assignments of bit-widths held up the training, in all."""
    assign_cpu_s: float = 0.0
    """Processor time that assignments took in the background, in all."""
    skipped: float = 0.0
    """Share of the rows offered to a cache that were not sent; 0 without a cache."""
    rounded_twice: float = 0.0
    """Share of the elements quantized by products that a codec had rounded before; 0 without quantized products."""

    @property
    def best(self) -> float:
        """Best validation score; NaN if nothing was validated."""
        return max((score for *_, score in self.curve), default=math.nan)

    def seconds_to(self, target: float) -> float:
        """Return the seconds of training by which a validation score was reached; NaN if it never was.

        Example:
            >>> one = RunResult(score=0.9, curve=((1, 1.0, 0.5), (2, 3.0, 0.9)))
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
            >>> one = RunResult(score=0.9, curve=((2, 1.0, 0.9),), epochs_bytes=(300.0, 100.0, 100.0))
            >>> one.bytes_to(0.8), one.bytes_to(0.95)
            (400.0, nan)
        """
        epochs = self.epochs_to(target)
        return math.nan if math.isnan(epochs) else math.fsum(self.epochs_bytes[: int(epochs)])

    def settled_s(self, share: float = 0.5) -> float:
        """Return the mean epoch of the last ``share`` of the training: after warm-up and first decisions."""
        settled = self.epochs_s[int((1 - share) * len(self.epochs_s)) :]
        return statistics.fmean(settled) if settled else math.nan

    def to_json(self) -> dict[str, Any]:
        """Return plain values; :meth:`from_json` undoes it."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> RunResult:
        """Return the result that :meth:`to_json` wrote."""
        curve = tuple((int(epochs), float(seconds), float(score)) for epochs, seconds, score in value["curve"])
        each = {name: tuple(value.get(name, ())) for name in ("epochs_s", "epochs_bytes")}
        return cls(**{**value, "curve": curve, **each})


def read_result(run: Run) -> RunResult:
    """Read the result of a finished run from its folder."""
    summary, records, traffic = run.summary, run.records, run.traffic
    evaluated = by_epoch(records).dropna(subset=["val_score"])
    payload_bits = 8.0 * traffic["payload_bytes"]
    elements = float((payload_bits / traffic["bits"]).sum())
    sent = records.groupby("epoch")[["bytes_payload", "bytes_params"]].sum().sum(axis=1)
    offered = run.cache[["rows_sent", "rows_offered"]].sum()
    return RunResult(
        score=score_in(summary) or 0.0,
        score_name=score_key(summary),
        run=run.id,
        bits=float(payload_bits.sum()) / elements if elements else 0.0,
        stale=stale_share(run),
        epochs=int(summary["epochs"]),
        train_s=summary["train_s"],
        curve=tuple(
            (int(at.epoch) + 1, float(at.train_s), float(at.val_score)) for at in evaluated.itertuples(index=False)
        ),
        epochs_s=tuple(map(float, epoch_seconds(records))),
        epochs_bytes=tuple(map(float, sent)),
        bytes_sent=float(sent.sum()) / int(summary["epochs"]),
        computation_s=summary["comp_s"],
        communication_s=summary["comm_s"] + summary["quant_s"],
        gradients_s=float(records.groupby("epoch")["reduce_s"].mean().median()),
        memory_bytes=summary["peak_memory_bytes"],
        assign_s=float(records.groupby("rank")["assign_s"].sum().max()),
        assign_cpu_s=summary.get("assignments", 0) * summary.get("assign_cpu_s", 0.0),
        skipped=float(1 - offered["rows_sent"] / offered["rows_offered"]) if offered["rows_offered"] else 0.0,
        rounded_twice=float(records["rounded_twice"].sum() / max(records["rounded"].sum(), 1.0)),
    )


def stale_share(run: Run) -> float:
    """Return the share of a run's epochs that used rows of the epoch before, by its decisions; the first never does."""
    if run.config.system.schedule.lag == 0:
        return 0.0
    epochs, decisions = run.config.train.epochs, run.decisions
    stale = [False] + [True] * (epochs - 1)
    for epoch, what in zip(decisions["epoch"], decisions["what"]):
        if what in ("fresh rows", "rows of the epoch before"):
            stale[int(epoch) :] = [what == "rows of the epoch before"] * len(stale[int(epoch) :])
    return stale.count(True) / epochs
