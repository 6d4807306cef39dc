"""What codecs do to the messages of a training as it goes on: errors by epoch, direction, layer and width."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.bits.row import row_bytes
from gnnqlab.course.experiments.rows_by_epoch import rows_by_epoch
from gnnqlab.graph.graph import Graph
from gnnqlab.message.codecs.codec import Codec
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.codec_error import codec_error
from gnnqlab.systems.system import System

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["codecs_over_epochs"]


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
    """Train exactly, and at some epochs send the rows that would travel next through each codec.

    Args:
        codecs: name -> codec.
        model: a GCN of 3 layers and 64 columns by default.
        epochs: after how many the rows are taken, rising.
        rows: of each kind of message.
        draws: messages, each with noise of its own.
        system: its partitioner is used; METIS by default.

    Returns:
        A line an epoch, direction, layer, width and codec: ``row_bytes`` (of one row, its parameters included),
        ``squared`` (mean ``|x' - x|^2 / |x|^2``) and ``bias`` (norm of the mean error over that of the rows), as
        :func:`gnnqlab.simulation.codec_error.codec_error` has them. A width that a codec has not got has no line.

    Raises:
        ValueError: if epochs do not rise.

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
    for epoch, sent in rows_by_epoch(graph, shape, epochs, workers=workers, most=rows, system=system, seed=seed):
        for place, matrix in sent.items():
            for name, codec in codecs.items():
                for width in (each for each in bits if each in codec.widths):
                    error = codec_error(codec, matrix, width, draws=draws)
                    size = row_bytes(width, matrix.shape[1], codec.param_bytes)
                    lines.append((epoch, *place, width, name, size, error.squared, error.bias))
    columns = ["epoch", "direction", "layer", "bits", "codec", "row_bytes", "squared", "bias"]
    return pd.DataFrame(lines, columns=columns)
