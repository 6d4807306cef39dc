"""Seven models over one exchange: what few bits do to output and gradient at every depth, and to a training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.measure.in_process import ThreadedWorkers
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.partition.parts import Parts

__all__ = ["SEVEN", "depth_error", "draw_depth", "train_models"]

SEVEN = ("gcn", "graphsage", "gat", "jknet", "gcnii", "sgc", "dagnn")
_LOOKS = {
    "gcn": (OKABE_ITO["vermillion"], "solid", "circle"),
    "graphsage": (OKABE_ITO["orange"], "dash", "square"),
    "gat": (OKABE_ITO["purple"], "dashdot", "diamond"),
    "jknet": (OKABE_ITO["grey"], "dot", "triangle-up"),
    "gcnii": (OKABE_ITO["green"], "solid", "x"),
    "sgc": (OKABE_ITO["sky"], "dash", "cross"),
    "dagnn": (OKABE_ITO["blue"], "dot", "star"),
}


def depth_error(
    parts: Parts,
    *,
    models: Sequence[str] = SEVEN,
    depths: Sequence[int] = (2, 4, 8, 16),
    bits: int = 2,
    hidden: int = 32,
    repeats: int = 2,
    seed: int = 0,
) -> DataFrame:
    """Return by how much quantized messages change a model's output and its gradient, at its first weights.

    ``||z - z_exact|| / ||z_exact||`` over all nodes, z the logits, and the same for the gradient of all weights; the
    root of the mean square over ``repeats`` draws of noise. The workers are threads with the shards, exchanges and
    codecs of real ones; no dropout.

    Args:
        parts: who owns what.
        models: names.
        depths: layers, or hops where a hop has no weights.
        bits: of every message, forward and backward; 32 for float32.
        hidden: width.
        repeats: draws of noise.
        seed: of weights and noise.

    Returns:
        One line each model and depth: ``output (%)`` and ``gradient (%)``.

    Raises:
        ValueError: if a name, a depth or the bits are wrong.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> bool((depth_error(parts, models=("gcn", "sgc"), depths=(2,), bits=32) < 1e-3).all(axis=None))
        True
    """
    import pandas as pd

    from gnnqlab.measure.in_process import exact_trainer
    from gnnqlab.nn.models.registry import ModelSettings

    lines = []
    for name in models:
        for depth in depths:
            model = ModelSettings(name=name, layers=depth, hidden=hidden, dropout=0.0)
            workers = _workers(parts, model, bits, seed)
            truth = exact_trainer(parts.graph, model, seed=seed)
            exact = _logits([truth], [None], parts.graph.num_nodes, 0)
            truth.gradients(0)
            gradient = truth.parameters.gradients
            squares = [0.0, 0.0]
            for epoch in range(repeats):
                z = _logits(workers, [shard.owned for shard in workers.shards], parts.graph.num_nodes, epoch)
                _, noisy = workers.gradients(epoch)
                squares[0] += float((z - exact).norm() / exact.norm()) ** 2 / repeats
                squares[1] += float((noisy - gradient).norm() / gradient.norm()) ** 2 / repeats
            lines.append((name, depth, *(100 * square**0.5 for square in squares)))
    table = pd.DataFrame(lines, columns=["model", "depth", "output (%)", "gradient (%)"])
    return table.set_index(["model", "depth"])


def _workers(parts: Parts, model: ModelSettings, bits: int, seed: int) -> ThreadedWorkers:
    from gnnqlab.measure.in_process import ThreadedWorkers
    from gnnqlab.systems.system import make_system
    from gnnqlab.train.config import TrainSettings

    system = make_system("vanilla") if bits == 32 else make_system("fixed-bits", bits=bits)
    settings = TrainSettings(seed=seed)
    return ThreadedWorkers(parts.graph, parts.owner, system, model, settings, workers=parts.workers)


def _logits(trainers: Any, owned: Sequence[Tensor | None], num_nodes: int, epoch: int) -> Tensor:
    """The logits of all nodes, from one trainer or from threaded workers."""
    import torch

    def one(trainer: Any) -> Tensor:
        with torch.no_grad():
            out: Tensor = trainer.model(trainer.graph.at(epoch, training=True), trainer.graph.features)
        return out

    parts = [one(trainer) for trainer in trainers] if isinstance(trainers, list) else trainers.run(one)
    whole = torch.empty(num_nodes, parts[0].shape[1])
    for ids, part in zip(owned, parts):
        whole[slice(None) if ids is None else ids] = part
    return whole


def draw_depth(table: DataFrame, *, bits: int = 2, dark: bool = False) -> Bundle:
    """Draw `depth_error`: output left, gradient right, a line a model, one colour, dash and marker each."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=1, cols=2, subplot_titles=["output", "gradient"], horizontal_spacing=0.12)
    models = list(dict.fromkeys(table.index.get_level_values("model")))
    for column, what in enumerate(("output (%)", "gradient (%)"), start=1):
        for model in models:
            values = table.loc[model, what]
            color, dash, symbol = _LOOKS.get(model, (OKABE_ITO["grey"], "solid", "circle"))
            figure.add_scatter(
                x=values.index.tolist(),
                y=values.tolist(),
                mode="lines+markers",
                name=model,
                legendgroup=model,
                showlegend=column == 1,
                line={"color": color, "dash": dash, "width": 2},
                marker={"symbol": symbol, "size": 9, "color": color},
                hovertemplate=f"{model}: %{{y:.1f}} % at depth %{{x}}<extra></extra>",
                row=1,
                col=column,
            )
    depths = sorted(set(table.index.get_level_values("depth")))
    figure.update_xaxes(title_text="layers or hops", type="log", tickvals=depths)
    figure.update_yaxes(type="log", tickvals=[1, 2, 5, 10, 20, 50, 100, 200, 500])
    figure.update_yaxes(title_text="distance from exact messages (%)", row=1, col=1)
    low, high = depths[0], depths[-1]
    words = ", ".join(
        f"{model} {table.loc[(model, low), 'output (%)']:.2g} → {table.loc[(model, high), 'output (%)']:.2g} %"
        for model in models
    )
    caption = f"By how much {bits} bits change the output, at depth {low} → {high}: {words}."
    finish(figure, title=f"Error against depth, {bits} bits", caption=caption, dark=dark, height=420)
    figure.update_layout(legend={"y": -0.2, "yanchor": "top"}, margin={"t": 76, "b": 100})
    return Bundle(figure, table.reset_index("depth"))


def train_models(
    parts: Parts,
    *,
    models: Sequence[str] = SEVEN,
    layers: int = 4,
    bits: Sequence[int] = (32, 2),
    hidden: int = 32,
    epochs: int = 30,
    seed: int = 0,
) -> DataFrame:
    """Train models in one process and on the workers of ``parts`` (threads here), without dropout.

    Returns:
        By ``model``: ``one process: loss`` (the last epoch's) and test ``accuracy (%)``, and the same for every width.
    """
    import pandas as pd

    from gnnqlab.measure.in_process import exact_trainer
    from gnnqlab.nn.models.registry import ModelSettings

    graph, lines = parts.graph, {}
    for name in models:
        model = ModelSettings(name=name, layers=layers, hidden=hidden, dropout=0.0)
        local = exact_trainer(graph, model, seed=seed)
        loss = [local.epoch(epoch) for epoch in range(epochs)][-1]
        scores = local.evaluate(epochs)
        line = {"one process: loss": loss, "accuracy (%)": 100 * scores.test}
        for width in bits:
            workers = _workers(parts, model, width, seed)
            loss = [workers.step(epoch) for epoch in range(epochs)][-1]
            # Evaluation exchanges exact rows, which is what one process has.
            local.parameters.values.copy_(workers.trainers[0].parameters.values)
            scores = local.evaluate(epochs)
            label = f"{parts.workers} workers, {width} bits"
            line |= {f"{label}: loss": loss, f"{label}: accuracy (%)": 100 * scores.test}
        lines[name] = line
    table = pd.DataFrame(lines).T
    table.index.name = "model"
    return table
