"""Values of the traces of a live view: lines, bars and maps, as plain lists of numbers and words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gnnqlab.bits.policy import WIDTHS
from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.live_model import DIRECTIONS, LiveModel
from gnnqlab.lab.training.live_thinning import Buckets, round_values, thin
from gnnqlab.units import human_bytes

__all__ = [
    "bit_width_values", "line_values", "pair_bytes", "phases_by_epoch", "phases_by_worker", "volume_by_epoch",
]  # fmt: skip

_BARS, _RECENT = 48, 50
"""Most bars of epochs; newest epochs whose means are shown by worker."""


def line_values(x: NDArray[np.float64], y: NDArray[np.float64]) -> dict[str, Any]:
    """Return a line, thinned to the resolution of a screen."""
    x, y = thin(x, y)
    return {"x": round_values(x, 8), "y": round_values(y)}


def phases_by_epoch(model: LiveModel, worker: int | None) -> list[dict[str, Any]]:
    """Return milliseconds of each phase in groups of epochs, without the first, which includes set-up."""
    shown_records = model.records if worker is None else [model.records[worker]]
    count = min(map(len, shown_records))  # epochs that all these workers have recorded
    begin = 1 if count > 1 else 0
    buckets = Buckets(shown_records[0]["epoch"][begin:count], most=_BARS)
    centers = round_values(buckets.centers, 8)
    traces = []
    for phase in PHASES:
        # Mean of workers, (epochs,).
        seconds = np.mean([records[phase.column][begin:count] for records in shown_records], axis=0)
        traces.append(
            {"x": centers, "y": round_values(1e3 * np.nan_to_num(buckets.mean(seconds))), "width": buckets.length}
        )
    return traces


def phases_by_worker(model: LiveModel) -> list[dict[str, Any]]:
    """Return mean milliseconds of each phase by worker, over the newest epochs without the first."""
    names = [f"worker {rank}" for rank in range(model.workers)]
    traces = []
    for phase in PHASES:
        newest_seconds = [records[phase.column][1:][-_RECENT:] for records in model.records]
        # Seconds by worker, (P,).
        means = np.array([np.nan_to_num(values).mean() if len(values) else 0.0 for values in newest_seconds])
        traces.append({"y": names, "x": round_values(1e3 * means)})
    return traces


def bit_width_values(model: LiveModel) -> list[dict[str, Any]]:
    """Return the mean bits per element by direction, and the share of each bit-width, over the epochs read so far."""
    total_elements = {
        epoch: np.sum([traffic.elements[epoch] for traffic in model.traffic], axis=0) for epoch in model.common_epochs
    }
    # With stale rows an epoch may end before any message is received.
    known_elements = {epoch: elements for epoch, elements in total_elements.items() if elements.any()}
    epochs = np.array(sorted(known_elements), dtype=float)
    buckets = Buckets(epochs, most=200)
    x = round_values(buckets.centers, 8)
    table = (
        np.array([known_elements[int(epoch)] for epoch in epochs])
        if known_elements
        else np.zeros((0, len(DIRECTIONS), len(WIDTHS)))
    )
    # (epochs, directions, widths) -> (directions, widths, buckets)
    sums = np.array([[buckets.mean(table[:, i, j]) for j in range(len(WIDTHS))] for i in range(len(DIRECTIONS))])
    with np.errstate(invalid="ignore"):  # 0 / 0 in a direction without messages gives NaN, a gap in its line
        # (directions, buckets).
        means = np.tensordot(sums, np.array(WIDTHS, dtype=float), axes=(1, 0)) / sums.sum(axis=1)
        shares = 100 * sums.sum(axis=0) / sums.sum(axis=(0, 1))  # (widths, buckets), percent
    traces = [{"x": x, "y": round_values(mean)} for mean in means]
    return [*traces, *({"x": x, "y": round_values(share)} for share in shares)]


def pair_bytes(model: LiveModel) -> dict[str, Any]:
    """Return bytes by sender (row) and receiver (column), mean over the newest epochs."""
    # Receivers are rows of the list; transposed, senders are.
    sent_bytes = np.array([traffic.bytes_by_sender for traffic in model.traffic]).T
    names = [f"w{rank}" for rank in range(model.workers)]
    cells = [[None if i == j else value for j, value in enumerate(row)] for i, row in enumerate(sent_bytes.tolist())]
    has_room = model.workers <= 8
    text = [["" if value is None or not has_room else human_bytes(value) for value in row] for row in cells]
    return {"z": cells, "x": names, "y": names, "text": text, "zmax": max(float(sent_bytes.max()), 1.0)}


def volume_by_epoch(model: LiveModel) -> list[dict[str, Any]]:
    """Return bytes of payload and of parameters per epoch, all workers."""
    count = min(map(len, model.records))
    buckets = Buckets(model.records[0]["epoch"][:count], most=200)
    x = round_values(buckets.centers, 8)
    return [
        {
            "x": x,
            "y": round_values(buckets.mean(np.sum([records[column][:count] for records in model.records], axis=0))),
        }
        for column in ("bytes_payload", "bytes_params")
    ]
