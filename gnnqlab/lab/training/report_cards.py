"""Cards at the top of a report: the numbers that a reader looks for first, and the formats of its numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from gnnqlab.lab.training.comparison_table import seconds_to
from gnnqlab.lab.training.readable_table import ReadableTable
from gnnqlab.lab.training.snapshot import Snapshot
from gnnqlab.run.machine_links import bits_text, read_machine_links
from gnnqlab.train.heartbeat import read_warning
from gnnqlab.train.loop.scores import further_test_scores, get_test_score, score_label
from gnnqlab.train.records.slow_worker import computing_seconds, find_slow_worker
from gnnqlab.units import human_bytes

__all__ = [
    "Card", "cards_of_comparison", "cards_of_run", "cards_over_seeds", "as_number", "percent", "ratio_text",
    "in_seconds", "test_score", "time_text",
]  # fmt: skip

Card = tuple[str, str, str]
"""Title, value and note of a card."""


def cards_of_comparison(runs: Sequence[Snapshot], names: Sequence[str], target: float) -> list[Card]:
    """Return the cards of the last run relative to the first: total time, time to accuracy, score, bytes."""
    (baseline, reference), (summary, name) = (runs[0].summary, names[0]), (runs[-1].summary, names[-1])
    score, reference_score = test_score(summary), test_score(baseline)
    # Bytes per epoch, all workers.
    sent_bytes, reference_bytes = as_number(summary.get("bytes_sent")), as_number(baseline.get("bytes_sent"))
    points = f"{100 * (score - reference_score):+.2f} points, " if math.isfinite(score - reference_score) else ""
    to_target, to_target_before = seconds_to(runs[-1].records, target), seconds_to(runs[0].records, target)
    return [
        _time_card("Total", name, as_number(summary.get("train_s")), reference, as_number(baseline.get("train_s"))),
        *(
            [_time_card(f"To {percent(target)}", name, to_target, reference, to_target_before)]
            if math.isfinite(target)
            else []
        ),
        (
            f"Test {score_label(summary)}, {name}",
            percent(score),
            f"{points}{reference} {percent(reference_score)}",
        ),
        (
            f"Bytes sent, {name}",
            _fraction_text(sent_bytes, reference_bytes),
            f"{human_bytes(sent_bytes)} per epoch, {reference} {human_bytes(reference_bytes)}",
        ),
    ]


def _time_card(title: str, name: str, seconds: float, reference: str, reference_seconds: float) -> Card:
    """Return a card of seconds with the speed-up, or "not reached"."""
    times = reference_seconds / seconds if seconds else math.nan  # speed-up of the run relative to the reference
    value = ratio_text(times, 2) if math.isfinite(times) else time_text(seconds)
    return (
        f"{title}, {name}",
        value,
        f"{time_text(seconds)} of training, {reference} {time_text(reference_seconds)}",
    )


def cards_of_run(run: Snapshot, target: float) -> list[Card]:
    summary = run.summary
    best_score = percent(as_number(summary.get("best_val")))
    total = f"of training, median epoch {in_seconds(summary.get('epoch_s'))}"
    to_target = seconds_to(run.records, target)
    slow = find_slow_worker(computing_seconds(run.records))
    warning = "" if run.folder is None else read_warning(run.folder)
    joules = summary.get("energy_j")
    return [
        ("Total", in_seconds(summary.get("train_s")), total),
        *(
            [(f"To {percent(target)}", time_text(to_target), "of training, on validation")]
            if math.isfinite(target)
            else []
        ),
        (
            f"Test {score_label(summary)}",
            percent(test_score(summary)),
            f"best on validation {best_score}{_in_epoch(summary)}",
        ),
        *(
            (f"Test {label}", percent(as_number(value)), "in the same epoch")
            for label, value in further_test_scores(summary).items()
        ),
        ("Bytes sent", human_bytes(as_number(summary.get("bytes_sent"))), "per epoch, all workers"),
        *([("Energy", f"{as_number(joules):.3g} J", "per epoch, other programs included")] if joules else []),
        *([("Slow worker", f"rank {slow.rank}", slow.text)] if slow is not None else []),
        *([("Not written", "a file", warning)] if warning else []),
        *_link_cards(run),
    ]


def _link_cards(run: Snapshot) -> list[Card]:
    """Return a card with the slowest link between machines, and one for each warning."""
    machines = None if run.folder is None else read_machine_links(run.folder)
    if machines is None or (link := machines.slowest) is None:
        return []
    first, second = link["machines"]
    note = f"between machines {first} and {second}, {1e3 * link['latency_s']:.2f} ms there and back, at the start"
    return [
        ("Slowest link", bits_text(link["bit_per_s"]), note),
        *(("Warning", "machines", text) for text in machines.warnings),
    ]


def _in_epoch(summary: Mapping[str, Any]) -> str:
    best_epoch = summary.get("best_epoch")
    return "" if best_epoch is None else f", in epoch {best_epoch}, whose model is stored"


def cards_over_seeds(table: ReadableTable, score: str) -> list[Card]:
    """Return the cards of the last system: means over seeds, compared with the baseline's runs of the same seeds."""
    name, cells = table.cells.index[-1], table.cells.iloc[-1]
    to_target = [column for column in table.cells if column.startswith("to ")]
    difference = next((cells[column] for column in table.cells if column.startswith(f"{score} − ")), "")
    times = [
        (
            f"{column[0].upper()}{column[1:]}, {name}",
            cells[ratio] or cells[column],
            cells[column] if cells[ratio] else "",
        )
        for column, ratio in (("total", "speed-up"), *((column, f"speed-up {column}") for column in to_target))
    ]
    return [
        *times,
        (f"Test {score}, {name}", cells[f"test {score}"], difference),
        (f"Sent per epoch, {name}", f"{cells['less sent']} less", cells["sent per epoch"]),
    ]


def as_number(value: Any) -> float:
    return math.nan if value is None else float(value)


def test_score(summary: Mapping[str, Any]) -> float:
    return as_number(get_test_score(summary))


def percent(value: float) -> str:
    return f"{100 * value:.2f} %" if math.isfinite(value) else "–"


def in_seconds(value: Any) -> str:
    seconds = as_number(value)
    if not math.isfinite(seconds):
        return "–"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def time_text(value: float) -> str:
    return "not reached" if math.isnan(value) else in_seconds(value)


def ratio_text(value: float, digits: int) -> str:
    return f"{value:.{digits}f} ×" if math.isfinite(value) else "–"


def _fraction_text(value: float, reference: float) -> str:
    """Return ``1/14.2`` if less is sent, ``1.3 ×`` if more is."""
    ratio = reference / value if value and reference else math.nan  # above 1 if less is sent
    if not math.isfinite(ratio):
        return "–"
    return f"1/{ratio:.1f}" if ratio >= 1.05 else f"{1 / ratio:.2f} ×"  # within 5 % the fraction would read 1/1.0
