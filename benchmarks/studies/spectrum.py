"""Spectrum of real messages, and the error of coefficients in a few directions compared with codes of as many bytes.

A basis is computed from the rows of one epoch and used ``AGE`` epochs later, for the rows of the last epoch of a
training with float32 messages: the age at which codec `LowRank` replaces it. At one bit an element a row
of D columns has ``D / 8`` coefficients of 8 bits. The rivals are the existing codecs with at most the bytes of row
min-max codes, biased ones among them, because an error outside a basis is a bias too. The detail has the ratio to
rotated codes multiplied by ``1 / (1 + e)``, e their squared error: the least error of such codes, which no codec sends.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from benchmarks.engine.rows import row
from benchmarks.studies.late_messages import late_rows
from gnnqlab.bits.row import row_bytes

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.codecs.codec import Codec
    from gnnqlab.nn.models.registry import ModelSettings

__all__ = ["spectrum_rows"]

AGE = 5
"""Epochs between the rows of a basis and the messages that it encodes."""
PARTS_OF_D = (16, 8, 4)
"""Divisors of D: numbers of directions whose share of the squared norm is listed."""
GOAL = 3.0
"""Goal: least factor by which a basis reduces the squared error of gradient rows at one bit an element."""


def spectrum_rows(
    name: str, graph: Graph, shape: ModelSettings, epochs: int, rivals: Mapping[str, Codec]
) -> list[dict[str, Any]]:
    """Return the rows of one graph and model: shares of directions, errors by layer, and errors by direction.

    Args:
        name: graph and model, for the case.
        epochs: epochs of the training, at least 2; with at most `AGE` the basis is of the first.
        rivals: existing codecs by name, each with at most the bytes of row min-max codes at one bit.
    """
    from gnnqlab.message.codecs.lloyd_max import relative_error
    from gnnqlab.message.codecs.low_rank import LowRank, with_basis
    from gnnqlab.simulation.codec_error import codec_error

    codec, lines, sums = LowRank(least_gain=0.0), [], dict[str, list[float]]()
    for place, rows in late_rows(graph, shape, epochs, last=min(AGE + 1, epochs)).items():
        if bool((rows == rows[0]).all()):  # input features never change
            continue
        traced, sent = rows[0], rows[-1]  # (n, D) each
        columns, case = sent.shape[1], f"{name}, {place.direction}, layer {place.layer}, epoch {epochs - 1}"
        for rank in dict.fromkeys(max(1, columns // part) for part in PARTS_OF_D):  # equal ones of few columns once
            metric = f"share of the squared norm in {rank} of {columns} directions of a former epoch"
            lines.append(row(case, metric, _share(traced, sent, rank), "of the square", "", None, None))
        errors = {kind: codec_error(rival, sent, 1).squared for kind, rival in rivals.items()}
        lost = 1.0 - _share(traced, sent, codec.rank(1, columns))
        # As the codec decides: where a basis does not halve the error, rows are encoded as by LeastVariance.
        uses = lost * LowRank().least_gain <= relative_error(1, columns)
        kept_codec = with_basis(codec, traced, 1) if uses else codec
        error = codec_error(kept_codec, sent, 1).squared
        size = f", {row_bytes(1, columns, codec.param_bytes)} B a row"
        lines.append(_error_row(case, size, error, errors, note="" if uses else "no basis is used; "))
        num_bytes = row_bytes(1, columns, codec.param_bytes)
        totals = sums.setdefault(place.direction, [0.0] * (2 + len(errors)))
        sums[place.direction] = [
            total + num_bytes * value for total, value in zip(totals, (1.0, error, *errors.values()), strict=True)
        ]
    for direction, (weight, error, *others) in sums.items():
        case = f"{name}, {direction}, mean of layers by bytes, epoch {epochs - 1}"
        means = {kind: other / weight for kind, other in zip(rivals, others, strict=True)}
        goal = GOAL if direction == "backward" else None
        lines.append(_error_row(case, "", error / weight, means, goal=goal))
    return lines


def _share(traced: Tensor, sent: Tensor, rank: int) -> float:
    """Return the share of the squared norm of rows in the leading directions of former rows, both ``(n, D)``."""
    import torch

    directions = torch.linalg.eigh(traced.double().T @ traced.double()).eigenvectors[:, -rank:]  # (D, r)
    return float((sent.double() @ directions).square().sum() / sent.double().square().sum())


def _error_row(
    case: str, size: str, error: float, rivals: Mapping[str, float], *, goal: float | None = None, note: str = ""
) -> dict[str, Any]:
    """Return the row of an error compared with the least one of the rivals."""
    best = min(sorted(rivals), key=rivals.__getitem__)
    scaled = rivals["rotated twice"] / (1 + rivals["rotated twice"])
    ratios = [rival / error if error else None for rival in (rivals[best], scaled)]
    of_scaled = "" if ratios[1] is None else f"; {ratios[1]:.2f} × less than rotated codes scaled to the least error"
    metric, rival = f"squared error of a message at 1 bit, basis{size}", "best existing codec"
    detail = f" ({note}rival: {best}{of_scaled})"
    return row(case, metric, error, "of the square", rival, rivals[best], ratios[0], goal, detail=detail)
