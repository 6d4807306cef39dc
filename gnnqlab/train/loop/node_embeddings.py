"""Trained embeddings of nodes, in place of features: each worker has the rows of its own nodes.

A row gets its whole gradient on its owner: the exchange of the first aggregation returns the parts of other workers, as
for rows of every later layer. So no all-reduce is needed, and the bytes are those of its messages.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnqlab.nn.message_passing import ModelGraph
from gnnqlab.plain_values import gather_values
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.parameters import FlatParameters

__all__ = ["NodeEmbeddings"]

_ROWS, _BEST = "rows", "best"


class NodeEmbeddings:
    """Rows of one worker's nodes, their gradients, and their optimizer.

    Letters: N rows of this worker, V nodes of the graph, D columns.

    Args:
        graph: its features become the parameters.
        num_nodes: V.
        weights: parameters of the model, whose gradients are clipped together with those of the rows.
        distributed: True if there are other workers.
        max_gradient_norm: largest L2 norm of all gradients.
        **options: of :func:`gnnqlab.train.loop.optimizers.make_optimizer`, with the learning rate of the model.
    """

    def __init__(
        self,
        graph: ModelGraph,
        num_nodes: int,
        weights: FlatParameters,
        *,
        distributed: bool,
        max_gradient_norm: float | None = None,
        **options: Any,
    ) -> None:
        assert isinstance(graph.features, Tensor)
        holder = nn.Module()
        self.rows = holder.rows = nn.Parameter(graph.features)
        self._flat = FlatParameters(holder, num_facts=0)
        graph.features = self.rows  # requires a gradient, so the rows are not taken for static ones
        self._optimizer = make_optimizer(self._flat, **options)
        self._ids, self._num_nodes, self._distributed = graph.ids, num_nodes, distributed
        self._weights, self._max_gradient_norm = weights, max_gradient_norm
        self._best: Tensor | None = None

    def zero(self) -> None:
        """Clear the gradients."""
        self._flat.zero()

    def step(self, epoch: int) -> None:
        """Clip all gradients, and update the rows; elementwise, so each worker updates its own as one process would."""
        if self._max_gradient_norm is not None:
            self._clip(self._max_gradient_norm)
        self._optimizer.step(epoch)

    def _clip(self, max_norm: float) -> None:
        square = self._flat.gradients.square().sum()  # ()
        if self._distributed:
            dist.all_reduce(square)  # each worker has the gradients of its own rows
        norm = (square + self._weights.gradients.square().sum()).sqrt()  # those of the weights are summed already
        for parameters in (self._flat, self._weights):
            parameters.gradients.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))

    def select(self) -> None:
        """Copy the present rows as those of the best epoch."""
        self._best = self.rows.detach().clone()

    def gather(self) -> dict[str, Tensor]:
        """Return the state of all nodes on rank 0, elsewhere nothing; every worker must call this.

        Returns:
            ``rows``, ``best`` (after the first :meth:`select`) and moments of the optimizer, ``(V, D)`` in the order of
            ids, and its shared state, on the CPU.
        """
        tables = {name: table.cpu() for name, table in self._tables().items()}
        own = self._ids.cpu(), tables
        parts = gather_values(own) if self._distributed else [own]
        if not parts:  # only rank 0 has them
            return {}
        gathered = {name: torch.empty(self._num_nodes, table.shape[1]) for name, table in tables.items()}
        for ids, rows in parts:
            for name, table in gathered.items():
                table[ids] = rows[name]  # (N, D) of one worker
        return gathered | {name: tensor.cpu() for name, tensor in self._shared().items()}

    def names(self) -> list[str]:
        """Return the names of the tensors of :meth:`gather`, on every worker."""
        return [*self._tables(), *self._shared()]

    @torch.no_grad()
    def load(self, name: str, tensor: Tensor | None) -> None:
        """Restore one tensor of :meth:`gather`, which rank 0 has, on all workers; every worker must call this."""
        if name == _BEST and self._best is None:
            self.select()
        shared = self._shared()
        device, shape = self.rows.device, () if name in shared else (self._num_nodes, self.rows.shape[1])
        whole = torch.empty(shape, device=device) if tensor is None else tensor.to(device)
        if self._distributed:
            dist.broadcast(whole, 0)
        if name in shared:
            shared[name].copy_(whole)
        else:
            self._tables()[name].copy_(whole[self._ids])  # (V, D) -> (N, D)

    def _tables(self) -> dict[str, Tensor]:
        """Return the tensors with a row per node, ``(N, D)``, as views."""
        size, shape = self._flat.values.numel(), self.rows.shape
        moments = {name: each for name, each in self._optimizer.tensors().items() if each.dim() == 1}
        tables = {_ROWS: self.rows.detach(), **({} if self._best is None else {_BEST: self._best})}
        # SGD without momentum has an empty velocity.
        return tables | {name: each.view(shape) for name, each in moments.items() if each.numel() == size}

    def _shared(self) -> dict[str, Tensor]:
        """Return the tensors of the optimizer that belong to no node, such as the number of steps."""
        return {name: each for name, each in self._optimizer.tensors().items() if each.dim() == 0}
