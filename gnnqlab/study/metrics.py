"""Metrics of a study: name, value and unit of each quantity of a result.

======================  ======  =====================================================================================
metric                  unit    meaning
======================  ======  =====================================================================================
``test_accuracy``       %       test score at the best validation score (``test_f1_micro``, ``test_auc`` of others)
``best_validation``     %       best validation score
``train_s``             s       training time without evaluation
``settled_epoch_s``     s       mean epoch of the second half
``computation_s``       s       computation in a median epoch
``communication_s``     s       waiting, gradient all-reduce, encoding and decoding in a median epoch
``bytes_per_epoch``     B       bytes sent in a mean epoch, all workers
``bits``                bits    mean bit-width of sent elements
``stale_epochs``        %       epochs with stale rows (of the previous epoch)
``skipped_rows``        %       rows skipped by a cache
``rounded_twice``       %       elements quantized by products after a codec had rounded them
``peak_memory_bytes``   B       of the worker with the highest peak
``assign_s``            s       time in which bit-width assignment blocked training
``assign_cpu_s``        s       processor time of assignments in the background
``speed_up``            ×       ``train_s`` of the baseline with the same seed over that of the system
``to_target_s``         s       until the baseline's best validation score with the same seed, less half a point
``speed_up_to_target``  ×       ``to_target_s`` of the baseline with the same seed over that of the system
``bytes_to_target``     B       bytes sent until the target is reached
======================  ======  =====================================================================================
"""

from __future__ import annotations

from typing import Any

from gnnqlab.study.result import MARGIN, RunResult

__all__ = ["metric_rows"]


def metric_rows(result: RunResult, baseline: RunResult | None) -> list[dict[str, Any]]:
    """Return the metrics of a result; metrics relative to the baseline are omitted without its result.

    Args:
        result: result of a cell.
        baseline: result of the baseline's cell with the same seed.

    Example:
        >>> one = RunResult(score=0.9, train_s=2.0, curve=((1, 2.0, 0.8),), epochs_s=(2.0,))
        >>> other = RunResult(score=0.9, train_s=6.0, curve=((1, 6.0, 0.8),), epochs_s=(6.0,))
        >>> {each["metric"]: each["value"] for each in metric_rows(one, other)}["speed_up"]
        3.0
    """
    triples: list[tuple[str, float, str]] = [
        (result.score_name, 100 * result.score, "%"),
        ("best_validation", 100 * result.best, "%"),
        ("train_s", result.train_s, "s"),
        ("settled_epoch_s", result.settled_s(), "s"),
        ("computation_s", result.computation_s, "s"),
        ("communication_s", result.communication_s, "s"),
        ("bytes_per_epoch", result.bytes_sent, "B"),
        ("bits", result.bits, "bits"),
        ("stale_epochs", 100 * result.stale, "%"),
        ("skipped_rows", 100 * result.skipped, "%"),
        ("rounded_twice", 100 * result.rounded_twice, "%"),
        ("peak_memory_bytes", float(result.memory_bytes), "B"),
        ("assign_s", result.assign_s, "s"),
        ("assign_cpu_s", result.assign_cpu_s, "s"),
    ]
    if baseline is not None:
        # The baseline of the same seed: the spread between seeds cancels in these ratios.
        target = baseline.best - MARGIN
        triples += [
            ("speed_up", baseline.train_s / result.train_s, "×"),
            ("to_target_s", result.seconds_to(target), "s"),
            ("speed_up_to_target", baseline.seconds_to(target) / result.seconds_to(target), "×"),
            ("bytes_to_target", result.bytes_to(target), "B"),
        ]
    return [{"metric": metric, "value": value, "unit": unit} for metric, value, unit in triples]
