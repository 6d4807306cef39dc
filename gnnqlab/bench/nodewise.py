"""What stands between two convolutions: one pass beside its steps one after another, alone and in an epoch.

Freed memory is kept, as in training, for all contestants. An epoch is that of one process on the whole graph, forward,
backward and update, from the same weights with the same masks; its share of node-wise work is the time that the passes
of as many layers take by themselves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gnnqlab.bench.pinned import interleaved, median, run_each, spread
from gnnqlab.bench.rows import row

__all__ = ["measure", "nodewise"]

ROWS, COLUMNS, LAYERS = 40_000, 256, 3
GRAPH = f"sbm:{ROWS},16,20"
MODELS = ("gcn", "graphsage", "gcnii")
SHARE, FASTER = 15.0, 1.35
"""Most per cent of an epoch that node-wise passes are to take, and least gain of an epoch."""


def nodewise(repeats: int = 7, threads: tuple[int, ...] | None = None) -> list[dict[str, Any]]:
    """Measure passes and epochs on one and two threads.

    Args:
        repeats: interleaved repeats of each contestant.
        threads: numbers of threads; by default one and, where there are two cores, two.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them.

    Raises:
        ValueError: if there is nothing to repeat.
    """
    if repeats < 1:
        raise ValueError(f"repeats must be at least 1, got {repeats}")
    return run_each(f"{__name__}:measure", threads=threads, repeats=repeats)


def measure(repeats: int, graph: str = GRAPH, rows: int = ROWS, columns: int = COLUMNS) -> list[dict[str, Any]]:
    """Return the rows of this process's threads."""
    from gnnqlab.train.memory import keep_pages

    keep_pages()
    found, passes = _passes(repeats, rows, columns)
    for model in MODELS:
        found += _epochs(repeats, graph, model, columns, passes)
    return found


def _passes(repeats: int, rows: int, columns: int) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of LayerNorm, ReLU and dropout, and the seconds of one such pass, forward and backward."""
    import torch

    from gnnqlab.kernels.nodewise import Mask, Norm, apart
    from gnnqlab.kernels.nodewise import nodewise as one_pass

    x, gradient = torch.randn(rows, columns), torch.randn(rows, columns)
    out = torch.empty_like(x)
    weight, bias = torch.ones(columns, requires_grad=True), torch.zeros(columns, requires_grad=True)
    norm, mask = Norm(weight, bias), Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3)

    def together() -> None:
        with torch.no_grad():
            one_pass(x, norm, mask=mask)

    def there_and_back() -> None:
        one_pass(x.detach().requires_grad_(), norm, mask=mask).backward(gradient)

    def in_steps(run: Callable[[], None]) -> Callable[[], None]:
        def step_by_step() -> None:
            with apart():
                run()

        return step_by_step

    seconds = interleaved(
        {
            "forward": together,
            "forward, in steps": in_steps(together),
            "forward and backward": there_and_back,
            "forward and backward, in steps": in_steps(there_and_back),
            "memcpy": lambda: out.copy_(x),
        },
        repeats,
    )
    case = f"LayerNorm, ReLU, dropout of {rows} x {columns}, {torch.get_num_threads()} thread(s)"
    least = median(seconds["memcpy"])
    lines = []
    for what in ("forward", "forward and backward"):
        ours, other = median(seconds[what]), median(seconds[f"{what}, in steps"])
        figure = f"one pass, {what} ({spread(seconds[what])}; rival {spread(seconds[f'{what}, in steps'])})"
        lines.append(row(case, figure, ours, "s", "one step after another", other, other / ours))
        lines.append(row(case, figure, ours, "s", "memcpy of the rows", least, least / ours))
    return lines, median(seconds["forward and backward"])


def _epochs(repeats: int, graph: str, model: str, columns: int, pass_s: float) -> list[dict[str, Any]]:
    import itertools

    import torch

    from gnnqlab.graph import load
    from gnnqlab.kernels.nodewise import apart
    from gnnqlab.nn import LocalGraph, ModelSettings, build_model
    from gnnqlab.train.config import TrainSettings
    from gnnqlab.train.node_labels import label_objective
    from gnnqlab.train.trainer import Trainer

    whole = load(graph)
    local, shape = LocalGraph(whole), ModelSettings(name=model, layers=LAYERS, hidden=columns)
    network = build_model(shape, whole.num_features, whole.num_classes, seed=0)
    trainer, numbers = Trainer(local, label_objective(whole), network, TrainSettings()), itertools.count()

    def steps() -> None:
        with apart():
            trainer.epoch(next(numbers))

    seconds = interleaved({"one pass": lambda: trainer.epoch(next(numbers)), "in steps": steps}, repeats)
    ours, other = median(seconds["one pass"]), median(seconds["in steps"])
    case = f"{graph}, {model} {LAYERS} x {columns}, one worker, {torch.get_num_threads()} thread(s)"
    figure = f"epoch ({spread(seconds['one pass'])}; rival {spread(seconds['in steps'])})"
    lines = [row(case, figure, ours, "s", "one step after another", other, other / ours, FASTER)]
    if model == "gcn":
        share = 100.0 * (LAYERS - 1) * pass_s / ours
        lines.append(
            row(case, "node-wise passes, share of the epoch", share, "%", "at most", SHARE, SHARE / share, 1.0)
        )
    return lines
