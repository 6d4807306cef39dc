"""Codecs over a training: errors of each codec by epoch, and the code chosen for each row."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.bits.row import row_bytes
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.codec.row_errors import ERROR_WIDTHS, NOTED, row_errors
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.message.codecs.least_variance import by_rotation
from gnnqlab.message.codecs.lloyd_max import relative_error
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.codec_error import RowsKey, codec_error, trained_rows
from gnnqlab.simulation.gradient_noise import trained_weights
from gnnqlab.systems.system import System

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["codecs_over_epochs", "codes_chosen", "rows_by_epoch"]


def rows_by_epoch(
    graph: Graph,
    model: ModelSettings,
    epochs: Sequence[int],
    *,
    workers: int,
    most: int,
    system: System | None = None,
    seed: int = 0,
) -> Iterator[tuple[int, dict[RowsKey, Tensor]]]:
    """Yield each epoch with the rows that workers would send in it, as returned by `trained_rows`.

    Args:
        epochs: numbers of epochs trained before, ascending, at least 0.
        workers: number of workers.
        most: largest number of rows sampled of each kind of message.
        system: system whose partitioner is used; METIS by default.
        seed: seed of weights and samples.

    Raises:
        ValueError: if epochs are not ascending.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import make_system
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> shape = ModelSettings(layers=2, hidden=8)
        >>> found = rows_by_epoch(load("sbm:60,3,6"), shape, (0, 2), workers=2, most=20, system=recipe)
        >>> [(epoch, len(kinds)) for epoch, kinds in found]
        [(0, 4), (2, 4)]
    """
    if list(epochs) != sorted(set(epochs)) or not epochs or epochs[0] < 0:
        raise ValueError(f"epochs must rise from 0 on, got {list(epochs)}; for instance (0, 5, 20, 60)")
    # Trained again from the start for each epoch: weights depend on the seed and the number of epochs only.
    for epoch in epochs:
        weights = trained_weights(graph, model, epoch, seed=seed)
        yield epoch, trained_rows(graph, model, weights, workers=workers, most=most, system=system, seed=seed)


def codecs_over_epochs(
    graph: Graph,
    codecs: Mapping[str, Codec],
    *,
    model: ModelSettings | None = None,
    epochs: Sequence[int] = (0, 5, 20, 60),
    bits: Sequence[int] = (1, 2, 4),
    workers: int = 2,
    rows: int = 200,
    draws: int = 8,
    system: System | None = None,
    seed: int = 0,
) -> DataFrame:
    """Train with float32 messages, and at some epochs encode the rows to be sent next with each codec.

    Args:
        codecs: name -> codec.
        model: settings of the model; by default a GCN of 3 layers and 64 columns.
        epochs: numbers of epochs trained before the rows are taken, ascending.
        rows: largest number of rows of each kind of message.
        draws: number of messages, each with independent noise.
        system: system whose partitioner is used; METIS by default.

    Returns:
        One line per epoch, direction, layer, bit-width and codec: ``row_bytes`` (one row with its quantization
        parameters), ``squared`` (mean ``|x' - x|^2 / |x|^2``) and ``bias`` (norm of the mean error over that of the
        rows), as in :func:`gnnqlab.simulation.codec_error.codec_error`. Bit-widths that a codec lacks have no line.

    Raises:
        ValueError: if epochs are not ascending.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.message import Rotated, Stochastic
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import make_system
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> found = codecs_over_epochs(
        ...     load("sbm:60,3,6"), {"min-max": Stochastic(), "rotated": Rotated()},
        ...     model=ModelSettings(layers=2, hidden=16), epochs=(0, 2), bits=(1,), system=recipe,
        ... )
        >>> sorted(found["direction"].unique()), len(found)
        (['backward', 'forward'], 16)
    """
    import pandas as pd

    shape = ModelSettings(layers=3, hidden=64, dropout=0.0) if model is None else model
    lines = []
    # Rows are those of float32 training, so all codecs encode the same rows.
    for epoch, matrices in rows_by_epoch(graph, shape, epochs, workers=workers, most=rows, system=system, seed=seed):
        for place, matrix in matrices.items():  # matrix: (rows, D) of one direction and layer
            for name, codec in codecs.items():
                for width in (each for each in bits if each in codec.widths):  # a codec may not support every bit-width
                    error = codec_error(codec, matrix, width, draws=draws)
                    size = row_bytes(width, matrix.shape[1], codec.param_bytes)
                    lines.append((epoch, *place, width, name, size, error.squared, error.bias))
    columns = ["epoch", "direction", "layer", "bits", "codec", "row_bytes", "squared", "bias"]
    return pd.DataFrame(lines, columns=columns)


def codes_chosen(
    graph: Graph,
    *,
    model: ModelSettings | None = None,
    epochs: Sequence[int] = (0, 5, 20, 60),
    bits: Sequence[int] = ERROR_WIDTHS,
    workers: int = 2,
    rows: int = 200,
    system: System | None = None,
    seed: int = 0,
) -> DataFrame:
    """Train with float32 messages, and at some epochs find the code with less error for each row to be sent next.

    The choice is that of :class:`gnnqlab.message.codecs.least_variance.LeastVariance`: codes between the row's ends
    have the expected squared error ``S^2 sum f (1 - f)`` (AdaQP, Wan et al., MLSys 2023, proof of Theorem 1), rotated
    ones a share of ``|x|^2`` (EDEN, Vargaftik et al., ICML 2022). Both are known before a row is encoded; no noise is
    drawn.

    Args:
        model: settings of the model; by default a GCN of 3 layers and 64 columns.
        epochs: numbers of epochs trained before the rows are taken, ascending.
        bits: bit-widths to compare, of 1, 2 and 4.
        rows: largest number of rows sampled of each kind of message, without rows of zeros.
        system: system whose partitioner is used; METIS by default.

    Returns:
        One line per epoch, direction, layer, bit-width and row: ``peak``, its range over its root mean square;
        ``ratio``, the squared error between its ends over that of rotation; ``rotated``, True if the ratio is above 1
        (for rows of fewer than 20 columns, above a safety factor) and for constant rows, which are exact in both.

    Raises:
        ValueError: if epochs are not ascending, or a bit-width is none of 1, 2 and 4.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import make_system
        >>> recipe = replace(make_system("vanilla"), partition=Random())
        >>> shape = ModelSettings(layers=2, hidden=64)
        >>> found = codes_chosen(load("sbm:60,3,6"), model=shape, epochs=(2,), system=recipe)
        >>> sorted(set(found["direction"])), set(found[found["ratio"] > 3]["rotated"])
        (['backward', 'forward'], {True})
    """
    import pandas as pd

    if not bits or not set(bits) <= set(ERROR_WIDTHS):
        raise ValueError(f"bits must be among {ERROR_WIDTHS}, where rows choose, got {list(bits)}")
    shape = ModelSettings(layers=3, hidden=64, dropout=0.0) if model is None else model
    parts = []
    for epoch, matrices in rows_by_epoch(graph, shape, epochs, workers=workers, most=rows, system=system, seed=seed):
        for place, matrix in matrices.items():
            count, columns = matrix.shape  # (n, D)
            # Per row: root errors between its ends for each bit-width, its norm (3) and its range (4).
            records = torch.empty(count, NOTED)
            row_errors(matrix, torch.arange(count), records)
            peak = records[:, 4] / matrix.square().mean(1).sqrt()  # range over root mean square, (n,)
            # Expected squared errors of both codes, from the recorded root errors; no row is encoded.
            for width in bits:
                plain_errors = records[:, ERROR_WIDTHS.index(width)].double().square()
                rotated_errors = records[:, 3].double().square() * relative_error(width, columns)
                # One table per message kind and bit-width; they are joined once, which is linear in the rows.
                parts.append(
                    pd.DataFrame(
                        {
                            "epoch": epoch, "direction": place.direction, "layer": place.layer, "bits": width,
                            "peak": peak, "ratio": plain_errors / rotated_errors,
                            "rotated": by_rotation(records, width, columns),
                        }
                    )
                )  # fmt: skip
    return pd.concat(parts, ignore_index=True)
