"""Inputs of Theorem 3 from a training pass: factors of every weight gradient, and the messages in them.

Letters: V nodes of the graph, D columns, K messages, E pairs (message, receiving row). Rows of all workers are
combined by global node id.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.sparse.aggregate import spmm
from gnnqlab.nn.layers import GraphConvolution, SageConvolution
from gnnqlab.nn.message_passing import ModelGraph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.observe import NeighboursSummed, Observer, Observers
from gnnqlab.partition.cut import Cut
from gnnqlab.partition.shard import Shard
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.system import System
from gnnqlab.theory.variance import received_variance, shared_variance, step_widths
from gnnqlab.train.config.run_config import TrainSettings

__all__ = [
    "LayerMeans", "LayerPass", "PassTrace", "ReceivedMessages",
    "is_covered", "gradients_received", "rows_received", "gather_by_node", "traced_workers",
]  # fmt: skip


@dataclass
class LayerPass:
    """One worker's tensors of one graph layer in one pass; N owned rows."""

    alpha: str = ""
    rows: Tensor | None = None
    """Rows to aggregate, which are sent forward, ``(N, D)``."""
    rows_gradient: Tensor | None = None
    """Gradient of the rows, with the parts from other workers."""
    sums: Tensor | None = None
    """Results of the aggregation."""
    sums_gradient: Tensor | None = None
    input: Tensor | None = None
    """Input of the layer."""
    output: Tensor | None = None
    """Output of the layer, before norm and activation."""
    output_gradient: Tensor | None = None


class PassTrace(Observer):
    """Observer that stores the tensors of one worker's last pass in ``layers``; see :func:`traced_workers`."""

    shard: Shard
    graph: ModelGraph

    def __init__(self) -> None:
        self.layers: dict[int, LayerPass] = {}

    def on_neighbours_summed(self, event: NeighboursSummed) -> None:
        # x and y: (N, D), rows before and after the aggregation.
        layer, x, y = self.layers.setdefault(event.layer, LayerPass()), event.input, event.sums
        layer.alpha, layer.rows, layer.sums = event.alpha, x.detach(), y.detach()
        layer.rows_gradient = layer.sums_gradient = None  # of this pass; those of the last one must not remain
        # Hooks on the tensors: their gradients exist only during the backward pass.
        if x.requires_grad:
            x.register_hook(lambda gradient: setattr(layer, "rows_gradient", gradient.detach()))
        if y.requires_grad:
            y.register_hook(lambda gradient: setattr(layer, "sums_gradient", gradient.detach()))

    def message_gradients(self, layer: int) -> Tensor:
        """Compute the messages that this worker sends backward: the gradient of each halo row, ``(H, D)``."""
        tensors = self.layers[layer]
        gradient = tensors.sums_gradient
        shard = self.shard
        if gradient is None or tensors.rows is None or tensors.rows_gradient is None:  # raw features need no gradient
            return torch.zeros(shard.num_halo, 0)  # (H, 0): no message
        rows = (shard.num_owned, shard.num_owned + shard.num_halo)  # halo columns follow the owned ones
        # (A[:, halo])^T dY: (N, D) -> (H, D)
        return spmm(self.graph.adjacency(tensors.alpha), gradient.contiguous(), rows=rows, transposed=True)


def is_covered(model: nn.Module) -> bool:
    """Return True if Theorem 3 covers a model: a stack of convolutions with one aggregation each."""
    convolutions = getattr(model, "convolutions", None)
    return convolutions is not None and all(
        isinstance(convolution, GraphConvolution | SageConvolution) for convolution in convolutions
    )


def traced_workers(
    graph: Graph, cut: Cut, system: System, model: ModelSettings, settings: TrainSettings, **how: Any
) -> tuple[ThreadedWorkers, list[PassTrace]]:
    """Create workers with a trace of each one's last pass, including inputs and outputs of convolutions.

    Raises:
        ValueError: if the model is not a stack of convolutions with one aggregation each.
    """
    traces = [PassTrace() for _ in range(cut.workers)]
    observers = [Observers([trace], rank) for rank, trace in enumerate(traces)]
    workers = ThreadedWorkers(graph, cut, system, model, settings, observers=observers, **how)
    for trace, trainer, shard in zip(traces, workers.trainers, workers.shards, strict=True):
        trace.graph, trace.shard = trainer.graph, shard
        if not is_covered(trainer.model):
            raise ValueError(
                f"Theorem 3 needs layers of the form W · Σ α h, got {type(trainer.model).__name__}; choose gcn or "
                "graphsage"
            )
        for index, convolution in enumerate(trainer.model.convolutions):  # type: ignore[arg-type]
            convolution.register_forward_hook(_output_hook(trace, index))
    return workers, traces


def _output_hook(trace: PassTrace, index: int):  # type: ignore[no-untyped-def]
    def store(module: nn.Module, inputs: tuple[object, ...], output: Tensor) -> None:
        layer = trace.layers.setdefault(index, LayerPass())
        x = inputs[1]  # inputs: the graph pass, then the rows
        layer.input = x.to_dense() if isinstance(x, SparseInput) else x.detach()  # type: ignore[attr-defined]
        layer.output = output.detach().clone()  # the activation may overwrite it in place
        if output.requires_grad:
            output.register_hook(lambda gradient: setattr(layer, "output_gradient", gradient.detach()))

    return store


@dataclass(frozen=True, eq=False)
class ReceivedMessages:
    """Messages of one layer and direction, as pairs of message and receiving row."""

    noise: Tensor
    """Number of the rounding noise; messages with the same noise have the same number, int64 ``(E,)``."""
    row: Tensor
    """Global id of the receiving row, int64 ``(E,)``."""
    alpha: Tensor
    """Coefficient, ``(E,)``."""
    squared_step: Tensor
    """``D S^2`` of the message, float64 ``(E,)``."""

    def variance(self, constant: float, *, num_rows: int) -> Tensor:
        """Return ``Σ_k α^2 c D S^2`` for every node, float64 ``(V,)``."""
        pairs = torch.arange(self.row.numel())
        return received_variance(pairs, self.row, self.alpha, constant * self.squared_step, num_rows=num_rows)


def rows_received(
    traces: Sequence[PassTrace], bits: BitPolicy, layer: int, *, noise: str = "receiver"
) -> ReceivedMessages:
    """Return the forward messages of a layer with the weighted sums that they enter.

    A receiver decodes a row once, so all its pairs with the row share the noise; with the noise of ``node`` those of
    other receivers do too.
    """
    parts = []
    for trace in traces:
        shard = trace.shard
        # (V, D) in the order of workers; `position` maps a global id to its row there.
        rows = torch.cat([other_trace.layers[layer].rows for other_trace in traces])  # type: ignore[misc]
        position = _positions(traces)
        step_H = _squared_steps(trace, bits, layer, "forward", rows[position[shard.halo]])
        destination = torch.repeat_interleave(torch.arange(shard.num_owned), shard.indptr.diff())  # (E,), row per edge
        is_remote = shard.indices >= shard.num_owned  # (edges,) bool
        column = shard.indices[is_remote].long() - shard.num_owned  # (E,), index of the halo row
        alpha = shard.alpha(trace.layers[layer].alpha)[is_remote]
        number = shard.halo[column]  # (E,), global id
        if noise == "receiver":
            number = number * shard.workers + shard.rank  # another number for each receiver
        parts.append((number, shard.owned[destination[is_remote]], alpha, step_H[column]))
    return ReceivedMessages(*(torch.cat(list(column)) for column in zip(*parts, strict=True)))


def gradients_received(traces: Sequence[PassTrace], bits: BitPolicy, layer: int) -> ReceivedMessages:
    """Return the backward messages of a layer with the rows to whose gradients they are added.

    Differs: in the paper a node receives the gradients of its neighbours and multiplies them by α. Here the worker that
    owns those neighbours sends their weighted sum, one message per halo row, and the owner of the row adds it: α is 1.
    """
    parts = []
    for trace in traces:
        shard = trace.shard
        messages = trace.message_gradients(layer)
        step_H = _squared_steps(trace, bits, layer, "backward", messages)
        noise = shard.halo * shard.workers + shard.rank  # (H,), unique: one message per halo row and worker
        parts.append((noise, shard.halo, torch.ones(shard.num_halo), step_H))
    return ReceivedMessages(*(torch.cat(list(column)) for column in zip(*parts, strict=True)))


def _squared_steps(trace: PassTrace, bits: BitPolicy, layer: int, direction: str, messages_HD: Tensor) -> Tensor:
    """Return ``D S^2`` of each halo row's message, ``(H,)``."""
    shard, columns = trace.shard, messages_HD.shape[1]
    if columns == 0 or shard.num_halo == 0:
        return torch.zeros(shard.num_halo, dtype=torch.float64)
    ranges = messages_HD.amax(dim=1) - messages_HD.amin(dim=1)  # (H,)
    widths = torch.full((shard.num_halo,), 32)
    for route in shard.plan("forward").receive:
        # Backward, the holder of a halo row sends its gradient to the owner.
        sender, receiver = (route.peer, shard.rank) if direction == "forward" else (shard.rank, route.peer)
        rows = Rows(
            layer=layer, direction=direction, sender=sender, receiver=receiver, ids=route.ids, seed=trace.graph.seed
        )
        if route.num_rows:
            # A policy returns one bit-width for all rows, or one for each.
            widths[route.rows] = torch.as_tensor(bits.widths(rows, 0)).expand(route.num_rows).long()
    return step_widths(ranges, widths) ** 2 * columns


def _positions(traces: Sequence[PassTrace]) -> Tensor:
    """Return the row of each global node id in the concatenated owned rows of all workers, ``(V,)``."""
    order = torch.cat([trace.shard.owned for trace in traces])
    positions = torch.empty_like(order)
    positions[order] = torch.arange(order.numel())  # inverse of a permutation
    return positions


def gather_by_node(traces: Sequence[PassTrace], layer: int, name: str) -> Tensor:
    """Return a field of `LayerPass` for all nodes, by global id ``(V, D)``; ``(V, 0)`` if a worker does not have it."""
    parts = [getattr(trace.layers[layer], name) for trace in traces]
    if any(part is None for part in parts):
        return torch.zeros(sum(trace.shard.num_owned for trace in traces), 0)
    return torch.cat(parts)[_positions(traces)]  # in the order of workers -> by global id


class LayerMeans:
    """Means over passes of one layer's factors, and of the noise from messages in them.

    Noises are in units of the constant c of ``c D S^2``.

    Args:
        layer: index of the layer.
        noise: ``receiver`` or ``node``, as in :class:`gnnqlab.message.codecs.codec.Stochastic`.
    """

    def __init__(self, layer: int, *, noise: str = "receiver") -> None:
        self.layer, self.alpha, self._noise = layer, "", noise
        self._passes = 0
        self._sums: dict[str, Tensor] = {}

    def add(self, traces: Sequence[PassTrace], bits: BitPolicy) -> None:
        """Add the last pass of all workers."""
        num_rows = traces[0].shard.num_global_nodes
        self.alpha = traces[0].layers[self.layer].alpha
        self._passes += 1
        for name in ("input", "sums", "output", "output_gradient", "rows_gradient"):
            self._add(name, gather_by_node(traces, self.layer, name).double())
        forward_messages = rows_received(traces, bits, self.layer, noise=self._noise)
        backward_messages = gradients_received(traces, bits, self.layer)
        self._add("rows_noise", forward_messages.variance(1.0, num_rows=num_rows))
        self._add("gradients_noise", backward_messages.variance(1.0, num_rows=num_rows))
        self._add(
            "shared",
            torch.tensor(
                shared_variance(forward_messages.noise, forward_messages.alpha, forward_messages.squared_step)
            ),
        )

    def mean(self, name: str) -> Tensor:
        """Return a mean: ``input``, ``sums``, ``output`` and their gradients by node ``(V, D)``, or a noise."""
        return self._sums[name] / self._passes

    def largest(self, name: str) -> float:
        """Return ``max_v ||E x_v||``: M or N of Assumption 2."""
        return float(self.mean(name).norm(dim=1).max())

    def _add(self, name: str, value: Tensor) -> None:
        self._sums[name] = self._sums[name] + value if name in self._sums else value
