"""Node-wise operations between two convolutions: one fused pass compared with separate steps, alone and in an epoch.

Norms, activations and dropout, and JKNet's joins; in the rival of JKNet's epoch only the joins are separate steps.
The allocator retains freed memory, as in training, for all contestants. An epoch is that of one process on the whole
graph, forward, backward and update, from the same weights with the same masks; its share of node-wise work is the time
of the passes of the same number of layers by themselves.
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
"""Goals: largest share of node-wise passes in an epoch (%), and least speed-up of an epoch."""
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
        graph: graph of the epochs.
        rows, columns: shape of the passes; ``columns`` is also the hidden size in epochs.
        models: models whose epochs are measured, some of `MODELS`; with none only passes are measured.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if ``repeats`` is below 1, or a model is not one of `MODELS`.
    """
    from gnnqlab.train.memory import keep_pages

    keep_pages()  # retain freed memory, as training does
    lines, passes = _passes(repeats, rows, columns)
    lines += _activations(repeats, rows, columns) + _joins(repeats, rows, columns)
    for model in models:
        if model == "jknet":
            for jump in JUMPS:
                lines += _joined_epochs(repeats, graph, jump, columns)
        else:
            lines += _epochs(repeats, graph, model, columns, passes)
    return lines


def _add_step_contestants(contestants: dict[str, Callable[[], object]]) -> dict[str, Callable[[], object]]:
    """Return the passes, and the same ones in separate steps."""
    return contestants | {f"{name}, in steps": _run_in_steps(run) for name, run in contestants.items()}


def _pairs_of_pass(memcpy: str) -> list[Pair]:
    """Return the pairs of a pass: forward, and with backward, each compared with separate steps and with a memcpy."""
    return [
        pair  # both ways, each against two rivals
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
    copy = torch.empty_like(x)
    # parameters of the norm need gradients
    weight, bias = torch.ones(columns, requires_grad=True), torch.zeros(columns, requires_grad=True)
    norm, mask = Norm(weight, bias), Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3)

    def forward() -> None:
        with torch.no_grad():
            one_pass(x, norm, mask=mask)

    def forward_backward() -> None:
        one_pass(x.detach().requires_grad_(), norm, mask=mask).backward(gradient)

    contestants = _add_step_contestants({"forward": forward, "forward and backward": forward_backward})
    seconds = interleaved({**contestants, "memcpy": lambda: copy.copy_(x)}, repeats)
    case = f"LayerNorm, ReLU, dropout of {rows} x {columns}, {torch.get_num_threads()} thread(s)"
    # median seconds of one pass, for the share of an epoch
    return pair_rows(case, seconds, _pairs_of_pass("memcpy of the rows")), median(seconds["forward and backward"])


def _run_in_steps(run: Callable[[], object]) -> Callable[[], None]:
    from gnnqlab.kernels.rowwise.nodewise import disable_fusion

    def step_by_step() -> None:
        with disable_fusion():  # switches the fused kernels off
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

        def forward_backward(activation: str = activation) -> None:
            one_pass(x.detach().requires_grad_(), activation=activation, mask=mask).backward(gradient)

        case = f"{activation}, dropout of {rows} x {columns}, {torch.get_num_threads()} thread(s)"
        pair = Pair("one pass, forward and backward", "one", "one, in steps", STEPS)
        lines += compare(case, _add_step_contestants({"one": forward_backward}), [pair], repeats)
    return lines


def _joins(repeats: int, rows: int, columns: int) -> list[dict[str, Any]]:
    """Return the rows of JKNet's joins with dropout, forward and backward."""
    import torch

    from gnnqlab.kernels.rowwise.jumping_knowledge import join
    from gnnqlab.kernels.rowwise.nodewise import Mask

    layers = [torch.randn(rows, columns) for _ in range(LAYERS)]
    copies = [torch.empty_like(layer) for layer in layers]
    mask, lines = Mask(ids=torch.arange(rows), p=0.5, seed=1, epoch=2, stream=3), []

    def copy() -> None:
        for target, layer in zip(copies, layers, strict=True):
            target.copy_(layer)

    for jump in JUMPS:
        # concatenation has the columns of all layers
        gradient = torch.randn(rows, columns * (LAYERS if jump == "cat" else 1))

        def forward(jump: str = jump) -> None:
            join(layers, jump, mask=mask)

        def forward_backward(jump: str = jump, gradient: torch.Tensor = gradient) -> None:
            # a copy without history, as a leaf
            join([layer.detach().requires_grad_() for layer in layers], jump, mask=mask).backward(gradient)

        contestants = _add_step_contestants({"forward": forward, "forward and backward": forward_backward})
        case = f"join {jump} of {LAYERS} x {rows} x {columns}, dropout, {torch.get_num_threads()} thread(s)"
        lines += compare(case, {**contestants, "memcpy": copy}, _pairs_of_pass("memcpy of the layers"), repeats)
    return lines


def _joined_epochs(repeats: int, graph: str, jump: str, columns: int) -> list[dict[str, Any]]:
    """Return the row of an epoch of JKNet, compared with one that has its joins in separate steps."""
    import torch

    from gnnqlab.compute.float32 import PlainProducts
    from gnnqlab.graph import load
    from gnnqlab.kernels.rowwise.nodewise import Mask, disable_fusion
    from gnnqlab.nn.models.jknet import JKNetSettings
    from gnnqlab.simulation.whole_graph import exact_trainer

    class JoinsInSteps(PlainProducts):
        def join(self, layers: Sequence[torch.Tensor], how: str, *, mask: Mask | None) -> torch.Tensor:
            with disable_fusion():
                return super().join(layers, how, mask=mask)  # only the joins are in steps

    loaded_graph, shape = load(graph), JKNetSettings(layers=LAYERS, hidden=columns, jump=jump)
    trainers = {
        name: exact_trainer(loaded_graph, shape, products=products)
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
    seconds = interleaved(_add_step_contestants(next_epochs(trainers)), repeats)
    case = f"{graph}, {model} {LAYERS} x {columns}, one worker, {torch.get_num_threads()} thread(s)"
    lines = pair_rows(case, seconds, [Pair("epoch", "one pass", "one pass, in steps", STEPS, FASTER)])
    if model == "gcn":  # LAYERS - 1 node-wise passes in a model
        share = 100.0 * (LAYERS - 1) * pass_s / median(seconds["one pass"])
        lines.append(
            row(case, "node-wise passes, share of the epoch", share, "%", "at most", SHARE, SHARE / share, 1.0)
        )
    return lines
