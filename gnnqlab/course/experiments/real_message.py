"""One real message of a training: rows of a trained model, from one worker to another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor

from gnnqlab.course.experiments.staleness import AggregatedRows
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import Observers
from gnnqlab.simulation.threaded_workers import exact_trainer

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["RealMessage", "trained_message"]


@dataclass(frozen=True, eq=False)
class RealMessage:
    """Rows of one forward message, before encoding."""

    rows: Tensor
    """float32 ``(n, D)``, in the unit of the layer."""
    ids: Tensor
    """Global node id of each row, int64 ``(n,)``, in the order of the receiver's halo."""
    sender: int
    receiver: int
    layer: int
    """Index of the exchange in the forward pass; 0 sends the input features."""
    epoch: int
    seed: int

    def __post_init__(self) -> None:
        if self.rows.dim() != 2 or self.ids.shape != self.rows.shape[:1] or self.ids.numel() == 0:
            raise ValueError(
                f"a message needs at least one row and one id per row, got rows {tuple(self.rows.shape)} and ids "
                f"{tuple(self.ids.shape)}; use trained_message"
            )

    def __repr__(self) -> str:
        count, columns = self.rows.shape
        return (
            f"RealMessage(layer {self.layer}, epoch {self.epoch}, worker {self.sender} to worker {self.receiver}: "
            f"{count} rows of {columns})"
        )


def trained_message(
    parts: Parts,
    *,
    model: str = "gcn",
    hidden: int = 16,
    layers: int = 3,
    dropout: float = 0.0,
    layer: int = 1,
    epochs: int = 40,
    seed: int = 0,
    sender: int = 0,
    receiver: int = 1,
) -> RealMessage:
    """Train a model on the whole graph in this process, and return the next message from one worker to another.

    Weights, features and dropout masks of a node do not depend on its owner, so these are the rows that workers with
    float32 messages would send in that epoch.

    Args:
        parts: the partition, which determines the rows to send.
        layer: layer of the message, from 0 to ``layers - 1``.
        dropout: dropout of the model; even without it ReLU makes about half of a row's elements zero.
        epochs: epochs trained before the message.
        sender: the worker that owns the rows.
        receiver: the worker that needs them.

    Raises:
        ValueError: if a worker or layer does not exist, or the receiver needs no row of the sender.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> message = trained_message(parts, hidden=8, epochs=5)
        >>> message, message.ids.tolist()
        (RealMessage(layer 1, epoch 5, worker 0 to worker 1: 2 rows of 8), [3, 4])
    """
    for name, worker in (("sender", sender), ("receiver", receiver)):
        if not 0 <= worker < parts.workers:
            raise ValueError(f"{name} must lie in [0, {parts.workers}), got {worker}")
    if not 0 <= layer < layers:
        raise ValueError(f"layer must lie in [0, {layers}), got {layer}")
    plan = parts.shards[receiver].plan("forward")  # what the receiver expects of each sender in the forward pass
    if not plan.received_rows[sender]:
        raise ValueError(f"a message needs rows, but worker {receiver} needs none of worker {sender}; choose others")
    ids = plan.from_peer(sender).ids  # global ids, in the receiver's order
    settings = ModelSettings(name=model, hidden=hidden, layers=layers, dropout=dropout)
    trainer = exact_trainer(parts.graph, settings, seed=seed)
    for epoch in range(epochs):
        trainer.epoch(epoch)
    aggregated = AggregatedRows(layer, ids)  # observes the inputs of one layer's aggregation
    # a forward pass in training mode, with dropout
    trainer.model(
        trainer.graph.open_pass(epochs, training=True, observers=Observers([aggregated])), trainer.graph.features
    )
    return RealMessage(
        aggregated.by_epoch[0], ids, sender=sender, receiver=receiver, layer=layer, epoch=epochs, seed=seed
    )
