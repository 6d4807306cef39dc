"""Products of tall matrices with one small matrix, compared with PyTorch's, alone and in an epoch.

Shapes are those of GCN 3 x 256 on 40 000 nodes of 64 features and 16 classes. ``X^T dY`` is PyTorch's in both cases,
and shown for its rate. An epoch is that of one process on the whole graph, with our own products and with PyTorch's
interleaved, from the same weights; the allocator retains freed memory, as in training.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import Pair, by_threads, compare, interleaved, median, pair_rows, spread

__all__ = ["tall"]

ROWS = 40_000
SHAPES = ((64, 256), (256, 256), (256, 16))
"""Columns in and out of the layers."""
GRAPHS = (f"sbm:{ROWS},16,50",)
MODELS = ("gcn", "graphsage")


@by_threads()
def tall(
    repeats: int = 7, rows: int = ROWS, graphs: tuple[str, ...] = GRAPHS, models: tuple[str, ...] = MODELS
) -> list[dict[str, Any]]:
    """Measure products and epochs on one and two threads.

    Args:
        repeats: interleaved repeats of each contestant.
        rows: rows of the products.
        graphs, models: graphs and models of the epochs.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if ``repeats`` is below 1.
    """
    from gnnqlab.train.memory import keep_pages

    keep_pages()
    lines = [line for width, columns in SHAPES for line in _products(repeats, rows, width, columns)]
    return lines + [line for graph in graphs for model in models for line in _epoch(repeats, graph, model)]


def _products(repeats: int, rows: int, width: int, columns: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.dense.tall_skinny import tall_mm

    x, w, gradient = torch.randn(rows, width), torch.randn(width, columns), torch.randn(rows, columns)
    # preallocated outputs
    y, dx, dw, bias = torch.empty(rows, columns), torch.empty(rows, width), torch.empty(width, columns), w[0].clone()
    seconds = interleaved(
        {
            "b + X W": lambda: tall_mm(x, w, base=bias, out=y),
            "dY W.T": lambda: tall_mm(gradient, w.t(), out=dx),
            "framework's b + X W": lambda: torch.addmm(bias, x, w, out=y),
            "framework's dY W.T": lambda: torch.mm(gradient, w.t(), out=dx),
            "X.T dY": lambda: torch.mm(x.t(), gradient, out=dw),  # PyTorch's in both cases
        },
        repeats,
    )
    case = f"{rows} x {width} by {width} x {columns}, {torch.get_num_threads()} thread(s)"
    rate = 2e-9 * rows * width * columns  # 2 flops per multiply-add, in GFLOP
    pairs = [Pair(name, name, f"framework's {name}", "the framework's") for name in ("b + X W", "dY W.T")]
    rival = seconds["X.T dY"]
    rate_row = row(
        case, "X.T dY, the framework's", rate / median(rival), "GFLOP/s", "", None, None, detail=f" ({spread(rival)})"
    )
    return [*pair_rows(case, seconds, pairs, amount=rate, unit="GFLOP/s"), rate_row]


def _epoch(repeats: int, graph: str, model: str) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.graph import load
    from gnnqlab.kernels.dense.tall_skinny import own_products
    from gnnqlab.nn import ModelSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    shape = ModelSettings(name=model)
    trainer, numbers = exact_trainer(load(graph), shape), itertools.count()

    def with_products(own_kernels: bool) -> Callable[[], None]:
        def train() -> None:
            with own_products(own_kernels):
                trainer.epoch(next(numbers))  # alternates between both on the same weights

        return train

    case = f"{graph}, {model} {shape.layers} x {shape.hidden}, one worker, {torch.get_num_threads()} thread(s)"
    contestants = {"own": with_products(True), "theirs": with_products(False)}
    return compare(case, contestants, [Pair("epoch", "own", "theirs", "the framework's products")], repeats)
