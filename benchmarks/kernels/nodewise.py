"""What stands between two convolutions: one pass beside its steps one after another, alone and in an epoch.

With activations and dropout, and where JKNet joins its layers; in JKNet's second epoch the joins alone are in steps.
Freed memory is kept, as in training, for all contestants. An epoch is that of one process on the whole graph, forward,
backward and update, from the same weights with the same masks; its share of node-wise work is the time that the passes
of as many layers take by themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.engine.rows import row
from benchmarks.kernels.pinned import Pair, by_threads, compare, interleaved, median, next_epochs, pair_rows

__all__ = ["nodewise"]

ROWS, COLUMNS, LAYERS = 40_000, 256, 3
GRAPH = f"sbm:{ROWS},16,20"
MODELS = ("gcn", "graphsage", "gcnii", "jknet")
JUMPS, ACTIVATIONS = ("cat", "max"), ("elu", "gelu", "gelu-tanh")
SHARE, FASTER = 15.0, 1.35
"""Most per cent of an epoch that node-wise passes are to take, and least gain of an epoch."""
STEPS = "one step after another"
WAYS = ("forward", "forward and backward")


@by_threads(models=MODELS)
def nodewise(
    repeats: int = 7,
    graph: str = GRAPH,
    rows: int = ROWS,
    columns: int = COLUMNS,
    models: Sequence[str] = MODELS,
) -> list[dict[str, Any]]:
    """Measure passes and epochs on one and two threads.

    Args:
        repeats: interleaved repeats of each contestant.
        graph: of the epochs.
        rows, columns: of the passes; as many columns have the layers of an epoch.
        models: whose epochs are measured, some of `MODELS`; none: passes alone.

    Returns:
        Rows as :func:`benchmarks.registry.measure` describes them.

    Raises:
        ValueError: if there is nothing to repeat, or epochs of a model are not measured here.
    """
    from gnnqlab.train.memory import keep_pages

    keep_pages()
    found, passes = _passes(repeats, rows, columns)
    found += _activations(repeats, rows, columns) + _joins(repeats, rows, columns)
    for model in models:
        if model == "jknet":
            for jump in JUMPS:
                found += _joined_epochs(repeats, graph, jump, columns)
        else:
            found += _epochs(repeats, graph, model, columns, passes)
    return found


def _beside_steps(contestants: dict[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Return some passes, and the same one step after another."""
    return contestants | {f"{name}, in steps": _in_steps(run) for name, run in contestants.items()}


def _both_ways(memcpy: str) -> list[Pair]:
    """Return the rows of a pass: forward, and with its backward pass, each beside its steps and beside a memcpy."""
    return [
        pair
        for way in WAYS
        for pair in (
            Pair(f"one pass, {way}", way, f"{way}, in steps", STEPS),
            Pair(f"one pass, {way}", way, "memcpy", memcpy),
        )
    ]


def _passes(repeats: int, rows: int, columns: int) -> tuple[list[dict[str, Any]], float]:
    """Return the rows of LayerNorm, ReLU and dropout, and the seconds of one such pass, forward and backward."""
    import torch

    from gnnqlab.kernels.rowwise.nodewise import Mask, Norm
    from gnnqlab.kernels.rowwise.nodewise import nodewise as one_pass

    x, gradient = torch.randn(rows, columns), torch.randn(rows, columns)
    out = torch.empty_like(x)
    weight, bias = torch.ones(columns, requires_grad=True), torch.zeros(columns, requires_grad=True)
    norm, mask = Norm(weight, bias), Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3)

    def together() -> None:
        with torch.no_grad():
            one_pass(x, norm, mask=mask)

    def there_and_back() -> None:
        one_pass(x.detach().requires_grad_(), norm, mask=mask).backward(gradient)

    contestants = _beside_steps({"forward": together, "forward and backward": there_and_back})
    seconds = interleaved({**contestants, "memcpy": lambda: out.copy_(x)}, repeats)
    case = f"LayerNorm, ReLU, dropout of {rows} x {columns}, {torch.get_num_threads()} thread(s)"
    return pair_rows(case, seconds, _both_ways("memcpy of the rows")), median(seconds["forward and backward"])


def _in_steps(run: Callable[[], object]) -> Callable[[], None]:
    from gnnqlab.kernels.rowwise.nodewise import apart

    def step_by_step() -> None:
        with apart():
            run()

    return step_by_step


def _activations(repeats: int, rows: int, columns: int) -> list[dict[str, Any]]:
    """Return the rows of activation and dropout, without a norm, forward and backward."""
    import torch

    from gnnqlab.kernels.rowwise.nodewise import Mask
    from gnnqlab.kernels.rowwise.nodewise import nodewise as one_pass

    x, gradient = torch.randn(rows, columns), torch.randn(rows, columns)
    mask, lines = Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3), []
    for activation in ACTIVATIONS:

        def there_and_back(activation: str = activation) -> None:
            one_pass(x.detach().requires_grad_(), activation=activation, mask=mask).backward(gradient)

        case = f"{activation}, dropout of {rows} x {columns}, {torch.get_num_threads()} thread(s)"
        pair = Pair("one pass, forward and backward", "one", "one, in steps", STEPS)
        lines += compare(case, _beside_steps({"one": there_and_back}), [pair], repeats)
    return lines


def _joins(repeats: int, rows: int, columns: int) -> list[dict[str, Any]]:
    """Return the rows of JKNet's joins and dropout of them, forward and backward."""
    import torch

    from gnnqlab.kernels.rowwise.jumping_knowledge import join
    from gnnqlab.kernels.rowwise.nodewise import Mask

    layers = [torch.randn(rows, columns) for _ in range(LAYERS)]
    copies = [torch.empty_like(layer) for layer in layers]
    mask, lines = Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3), []

    def copy() -> None:
        for to, layer in zip(copies, layers, strict=True):
            to.copy_(layer)

    for jump in JUMPS:
        gradient = torch.randn(rows, columns * (LAYERS if jump == "cat" else 1))

        def together(jump: str = jump) -> None:
            join(layers, jump, mask=mask)

        def there_and_back(jump: str = jump, gradient: torch.Tensor = gradient) -> None:
            join([layer.detach().requires_grad_() for layer in layers], jump, mask=mask).backward(gradient)

        contestants = _beside_steps({"forward": together, "forward and backward": there_and_back})
        case = f"join {jump} of {LAYERS} x {rows} x {columns}, dropout, {torch.get_num_threads()} thread(s)"
        lines += compare(case, {**contestants, "memcpy": copy}, _both_ways("memcpy of the layers"), repeats)
    return lines


def _joined_epochs(repeats: int, graph: str, jump: str, columns: int) -> list[dict[str, Any]]:
    """Return the row of an epoch of JKNet beside one that differs in its join alone."""
    import torch

    from gnnqlab.compute.float32 import PlainProducts
    from gnnqlab.graph import load
    from gnnqlab.kernels.rowwise.nodewise import Mask, apart
    from gnnqlab.nn.models.jknet import JKNetSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    class JoinsInSteps(PlainProducts):
        def join(self, layers: Sequence[torch.Tensor], how: str, *, mask: Mask | None) -> torch.Tensor:
            with apart():
                return super().join(layers, how, mask=mask)

    whole, shape = load(graph), JKNetSettings(layers=LAYERS, hidden=columns, jump=jump)
    trainers = {
        name: exact_trainer(whole, shape, products=products)
        for name, products in (("one pass", PlainProducts()), ("in steps", JoinsInSteps()))
    }
    case = f"{graph}, jknet {jump} {LAYERS} x {columns}, one worker, {torch.get_num_threads()} thread(s)"
    return compare(case, next_epochs(trainers), [Pair("epoch", "one pass", "in steps", "its joins in steps")], repeats)


def _epochs(repeats: int, graph: str, model: str, columns: int, pass_s: float) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.graph import load
    from gnnqlab.nn import ModelSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    shape = ModelSettings(name=model, layers=LAYERS, hidden=columns)
    trainers = {"one pass": exact_trainer(load(graph), shape)}
    seconds = interleaved(_beside_steps(next_epochs(trainers)), repeats)
    case = f"{graph}, {model} {LAYERS} x {columns}, one worker, {torch.get_num_threads()} thread(s)"
    lines = pair_rows(case, seconds, [Pair("epoch", "one pass", "one pass, in steps", STEPS, FASTER)])
    if model == "gcn":
        share = 100.0 * (LAYERS - 1) * pass_s / median(seconds["one pass"])
        lines.append(
            row(case, "node-wise passes, share of the epoch", share, "%", "at most", SHARE, SHARE / share, 1.0)
        )
    return lines
