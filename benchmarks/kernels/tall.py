"""Products of many rows with one small matrix: our own beside the framework's, alone and in an epoch.

Shapes are those of GCN 3 x 256 on 40 000 nodes of 64 features and 16 classes. ``X^T dY`` is the framework's on both
sides and stands there for what it reaches. An epoch is that of one process on the whole graph, with our own products
and with the framework's in turn, from the same weights; freed memory is kept, as in training.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import interleaved, median, run_each, spread

__all__ = ["measure", "tall"]

ROWS = 40_000
SHAPES = ((64, 256), (256, 256), (256, 16))
"""Columns in and out of the layers."""
GRAPHS = (f"sbm:{ROWS},16,50",)
MODELS = ("gcn", "graphsage")


def tall(repeats: int = 7, threads: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Measure products and epochs on one and two threads.

    Args:
        repeats: interleaved repeats of each contestant.
        threads: numbers of threads; by default one and, where there are two cores, two.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them.

    Raises:
        ValueError: if there is nothing to repeat.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    return run_each(f"{__name__}:measure", threads=threads, repeats=repeats)


def measure(
    repeats: int, rows: int = ROWS, graphs: tuple[str, ...] = GRAPHS, models: tuple[str, ...] = MODELS
) -> list[dict[str, Any]]:
    """Return the rows of this process's threads."""
    from gnnqlab.train.memory import keep_pages

    keep_pages()
    found = [line for inner, columns in SHAPES for line in _products(repeats, rows, inner, columns)]
    return found + [_epoch(repeats, graph, model) for graph in graphs for model in models]


def _products(repeats: int, rows: int, inner: int, columns: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.kernels.dense.tall import tall_mm

    x, w, gradient = torch.randn(rows, inner), torch.randn(inner, columns), torch.randn(rows, columns)
    y, dx, dw, bias = torch.empty(rows, columns), torch.empty(rows, inner), torch.empty(inner, columns), w[0].clone()
    seconds = interleaved(
        {
            "b + X W": lambda: tall_mm(x, w, base=bias, out=y),
            "dY W.T": lambda: tall_mm(gradient, w.t(), out=dx),
            "framework's b + X W": lambda: torch.addmm(bias, x, w, out=y),
            "framework's dY W.T": lambda: torch.mm(gradient, w.t(), out=dx),
            "X.T dY": lambda: torch.mm(x.t(), gradient, out=dw),
        },
        repeats,
    )
    case = f"{rows} x {inner} by {inner} x {columns}, {torch.get_num_threads()} thread(s)"
    rate = 2e-9 * rows * inner * columns
    lines = []
    for name in ("b + X W", "dY W.T"):
        ours, theirs = seconds[name], seconds[f"framework's {name}"]
        figure = f"{name} ({spread(ours)}; rival {spread(theirs)})"
        values = rate / median(ours), rate / median(theirs)
        lines.append(row(case, figure, values[0], "GFLOP/s", "the framework's", values[1], values[0] / values[1]))
    known = seconds["X.T dY"]
    lines.append(
        row(case, f"X.T dY, the framework's ({spread(known)})", rate / median(known), "GFLOP/s", "", None, None)
    )
    return lines


def _epoch(repeats: int, graph: str, model: str) -> dict[str, Any]:
    import torch

    from gnnqlab.graph import load
    from gnnqlab.kernels.dense.tall import own_products
    from gnnqlab.nn import ModelSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    shape = ModelSettings(name=model)
    trainer, numbers = exact_trainer(load(graph), shape), itertools.count()

    def with_products(own: bool) -> Callable[[], None]:
        def train() -> None:
            with own_products(own):
                trainer.epoch(next(numbers))

        return train

    seconds = interleaved({"own": with_products(True), "theirs": with_products(False)}, repeats)
    ours, theirs = median(seconds["own"]), median(seconds["theirs"])
    case = f"{graph}, {model} {shape.layers} x {shape.hidden}, one worker, {torch.get_num_threads()} thread(s)"
    figure = f"epoch ({spread(seconds['own'])}; rival {spread(seconds['theirs'])})"
    return row(case, figure, ours, "s", "the framework's products", theirs, theirs / ours)
