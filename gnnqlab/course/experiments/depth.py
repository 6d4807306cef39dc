"""Deeper models: quantization error by depth, and bytes of messages and of weight gradients (SYLVIE Table II)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.charts import bars, lines, panels
from gnnqlab.lab.figures.frames import without_first_epoch
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import ThreadedWorkers, exact_trainer
from gnnqlab.systems.registry import make_system
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.partition.parts import Parts

__all__ = ["SEVEN", "depth_error", "draw_depth", "draw_kinds", "kinds_of_bytes", "train_models"]

SEVEN = ("gcn", "graphsage", "gat", "jknet", "gcnii", "sgc", "dagnn")


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
    """Return the relative error of a model's output and gradient under quantized messages, at its initial weights.

    ``||z - z_exact|| / ||z_exact||`` over all nodes, z the logits, and the same for the gradient of all weights: root
    mean square over ``repeats`` draws of noise. The workers are threads with the shards, exchanges and codecs of
    launched runs; no dropout.

    Args:
        parts: the partition.
        models: names of models.
        depths: numbers of layers, or of propagation steps in models without weights there.
        bits: bit-width of every message, forward and backward; 32 for float32.
        hidden: hidden size.
        repeats: number of draws of noise.
        seed: seed of weights and noise.

    Returns:
        One line per model and depth: ``output (%)`` and ``gradient (%)``.

    Raises:
        ValueError: if a name, a depth or the bit-width is invalid.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> bool((depth_error(parts, models=("gcn", "sgc"), depths=(2,), bits=32) < 1e-3).all(axis=None))
        True
    """
    import pandas as pd

    lines = []
    for name in models:
        for depth in depths:
            model = ModelSettings(name=name, layers=depth, hidden=hidden, dropout=0.0)
            workers = _workers(parts, model, bits, seed)  # threads with quantized messages
            # One process with the same weights is the reference, for output and gradient.
            truth = exact_trainer(parts.graph, model, seed=seed)
            exact_logits = _logits([truth], [None], parts.graph.num_nodes, 0)  # (N, C)
            truth.gradients(0)
            gradient = truth.parameters.gradients
            squares = [0.0, 0.0]
            for epoch in range(repeats):  # the weights do not change; another epoch number draws other noise
                z = _logits(workers, [shard.owned for shard in workers.shards], parts.graph.num_nodes, epoch)
                _, noisy_gradient = workers.gradients(epoch)
                # mean square over the draws
                squares[0] += float((z - exact_logits).norm() / exact_logits.norm()) ** 2 / repeats
                squares[1] += float((noisy_gradient - gradient).norm() / gradient.norm()) ** 2 / repeats
            lines.append((name, depth, *(100 * square**0.5 for square in squares)))  # root mean square, percent
    table = pd.DataFrame(lines, columns=["model", "depth", "output (%)", "gradient (%)"])
    return table.set_index(["model", "depth"])


def _workers(parts: Parts, model: ModelSettings, bits: int, seed: int) -> ThreadedWorkers:
    # 32 bits: float32 messages, without a codec
    system = make_system("vanilla") if bits == 32 else make_system("fixed-bits", bits=bits)
    settings = TrainSettings(seed=seed)
    return ThreadedWorkers(parts.graph, parts.cut, system, model, settings)


def _logits(trainers: Any, owned_ids: Sequence[Tensor | None], num_nodes: int, epoch: int) -> Tensor:
    """Return the logits of all nodes ``(N, C)``, from a list of one trainer or from threaded workers."""

    def logits_of(trainer: Any) -> Tensor:
        with torch.no_grad():
            out: Tensor = trainer.model(trainer.graph.open_pass(epoch, training=True), trainer.graph.features)
        return out

    parts = [logits_of(trainer) for trainer in trainers] if isinstance(trainers, list) else trainers.run(logits_of)
    logits = torch.empty(num_nodes, parts[0].shape[1])  # (N, C)
    # Each worker holds the logits of its own nodes; write them at their global ids.
    for ids, part in zip(owned_ids, parts):
        logits[slice(None) if ids is None else ids] = part
    return logits


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
        By ``model``: ``one process: loss`` (last epoch) and test ``accuracy (%)``, and the same for every bit-width.
    """
    import pandas as pd

    graph, lines = parts.graph, {}  # the same initial weights in one process and on the workers
    for name in models:
        model = ModelSettings(name=name, layers=layers, hidden=hidden, dropout=0.0)
        local_trainer = exact_trainer(graph, model, seed=seed)
        loss = [local_trainer.epoch(epoch) for epoch in range(epochs)][-1]
        scores = local_trainer.evaluate(epochs)
        line = {"one process: loss": loss, "accuracy (%)": 100 * scores.test}
        for width in bits:
            workers = _workers(parts, model, width, seed)
            loss = [workers.step(epoch) for epoch in range(epochs)][-1]
            # Evaluation exchanges float32 rows, so one process with the same weights gives the same score.
            local_trainer.parameters.values.copy_(workers.trainers[0].parameters.values)
            scores = local_trainer.evaluate(epochs)
            label = f"{parts.workers} workers, {human_bits(width)}"
            line |= {f"{label}: loss": loss, f"{label}: accuracy (%)": 100 * scores.test}
        lines[name] = line
    table = pd.DataFrame(lines).T
    table.index.name = "model"
    return table


_LOOKS = {
    "gcn": "vermillion solid circle",
    "graphsage": "orange dash square",
    "gat": "purple dashdot diamond",
    "jknet": "grey dot triangle-up",
    "gcnii": "green solid x",
    "sgc": "sky dash cross",
    "dagnn": "blue dot star",
}


def draw_depth(table: DataFrame, *, bits: int = 2, dark: bool = False) -> FigureData:
    """Draw `depth_error`: output left, gradient right, one line per model."""
    rows = table.reset_index()
    depths = sorted(set(rows["depth"]))
    # Ticks in a 1-2-5 series, because both axes are logarithmic.
    error = {"title_text": "relative error (%)", "tickvals": [1, 2, 5, 10, 20, 50, 100, 200, 500]}
    charts = {
        quantity: lines(
            rows, x="depth", y=f"{quantity} (%)", by="model", styles=_LOOKS, size=9, log="xy",
            x_axis={"title_text": "depth (layers)", "tickvals": depths}, y_axis=error,
        )
        for quantity in ("output", "gradient")
    }  # fmt: skip
    title = f"Relative error (%) by depth, {human_bits(bits)}"
    figure = panels(charts, gap=0.12, title=title, dark=dark, height=420, legend_below=True)
    return FigureData(figure, table.reset_index("depth"))


def kinds_of_bytes(records: Mapping[str, DataFrame], traffic: Mapping[str, DataFrame]) -> DataFrame:
    """Return the bytes of an epoch by kind, one line per run; the columns of SYLVIE's Table II.

    Args:
        records: label -> ``run.records``.
        traffic: label -> ``run.traffic``.

    Returns:
        ``embeddings`` and ``embedding gradients``: bytes sent by all workers, with quantization parameters;
        ``messages``, their sum; ``weight gradients``: bytes that one worker adds to the all-reduce; ``times``: messages
        over weight gradients.
    """
    import pandas as pd

    lines = {}
    for label in records:
        frame = without_first_epoch(traffic[label])  # epochs after set-up
        # bytes of all workers, by direction
        sent_bytes = (frame["payload_bytes"] + frame["param_bytes"]).groupby(frame["direction"]).sum()
        epochs = max(frame["epoch"].nunique(), 1)
        forward, backward = (float(sent_bytes.get(way, 0)) / epochs for way in ("forward", "backward"))
        weights = float(records[label]["bytes_gradients"].max())  # of one worker: all add the same number of bytes
        lines[label] = (forward, backward, forward + backward, weights, (forward + backward) / weights)
    columns = ["embeddings", "embedding gradients", "messages", "weight gradients", "times"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("model")


def draw_kinds(table: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw `kinds_of_bytes` as bars.

    Raises:
        ValueError: if there is no run.
    """
    if table.empty:
        raise ValueError("bytes of at least one run are needed, got none; see kinds_of_bytes")
    kinds = ["embeddings", "embedding gradients", "weight gradients"]
    max_bytes = float(table[kinds].max().max())
    words = "; ".join(
        f"{label}: {human_bytes(line['messages'])} of messages, {human_bytes(line['weight gradients'])} of weight "
        f"gradients, a ratio of {line['times']:.3g}"
        for label, line in table.iterrows()
    )
    # labels such as "1.2 MB" at the bars
    labelled_table = table.assign(**{f"{kind}, text": table[kind].map(human_bytes) for kind in kinds})
    figure = bars(
        labelled_table,
        y=kinds,
        styles=["blue", "sky /", "orange x"],
        text={kind: f"{kind}, text" for kind in kinds},
        hover="%{text} per epoch",
        x_axis="model: layers, name, hidden size",
        y_axis={"title_text": "sent per epoch", "range": [0, 1.12 * max_bytes], **byte_ticks(max_bytes)},
        title="Messages and weight gradients",
        caption=f"Bytes per epoch: {words}.",
        dark=dark,
        height=380,
    )
    return FigureData(figure, table)
