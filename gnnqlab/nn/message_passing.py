"""The face of a graph that a model sees: aggregate, attend, extend, dropout; the same, distributed or not.

A model is called with one *pass* over a graph, ``model(graph.at(epoch, training=True), graph.features)``,
and never knows how many workers there are. Randomness inside a pass is a function of (seed, epoch, place in
the model, global node id, column), so a row's dropout mask does not depend on who owns it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import overload

import torch
from torch import Tensor

from gnnqlab.exchange.attention import attend as attend_over_halo
from gnnqlab.exchange.convolution import convolve
from gnnqlab.exchange.halo import HaloExchange
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.aggregate import Adjacency, aggregate
from gnnqlab.kernels.attention import attend
from gnnqlab.kernels.noise import dropout, stream
from gnnqlab.nn.sparse_input import SparseInput
from gnnqlab.partition.shard import Shard, edge_weights

__all__ = ["GraphPass", "Hop", "LocalGraph", "ModelGraph", "WorkerGraph"]


@dataclass(frozen=True)
class Hop:
    """Which look at neighbours this is: at most one exchange of the rows."""

    index: int
    """Place in the pass, from 0; the layer of what travels."""
    epoch: int
    training: bool


class ModelGraph(ABC):
    """A graph as models and the trainer see it: a whole one, or one worker's shard."""

    ids: Tensor
    """Global ids of the rows of ``features``, int64 ``(N,)``."""
    features: Tensor | SparseInput
    seed: int

    def __init__(self, features: Tensor | SparseRows, device: torch.device | str) -> None:
        if features.shape[1] == 0:
            raise ValueError("training needs node features, this graph has none; pass features= to Graph.from_edges")
        if isinstance(features, SparseRows):
            self.features = SparseInput.from_rows(features, device)
        else:
            self.features = features.to(device)
        self._adjacencies: dict[str, Adjacency] = {}
        self.device = torch.device(device)

    def densify_features(self) -> None:
        """Hold sparse features densely, for models that aggregate them before projecting."""
        if isinstance(self.features, SparseInput):
            self.features = self.features.to_dense()

    def at(self, epoch: int, *, training: bool) -> GraphPass:
        """Open one pass of a model over this graph."""
        return GraphPass(self, epoch, training)

    def adjacency(self, alpha: str) -> Adjacency:
        """Return the aggregation matrix with weights α, made once for each kind of α."""
        if alpha not in self._adjacencies:
            self._adjacencies[alpha] = self._weighted(alpha).to(self.device)
        return self._adjacencies[alpha]

    @abstractmethod
    def _weighted(self, alpha: str) -> Adjacency: ...

    @abstractmethod
    def _aggregate(self, x: Tensor, alpha: str, hop: Hop) -> Tensor: ...

    def _convolve(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        alpha: str,
        hop: Hop,
    ) -> Tensor:
        y = torch.addmm(bias, self._aggregate(x, alpha, hop), weight)
        return y if self_weight is None else torch.addmm(y, x, self_weight)

    @abstractmethod
    def _attend(self, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float, hop: Hop) -> Tensor: ...

    @abstractmethod
    def _extend(self, x: Tensor, hop: Hop) -> Tensor: ...


class GraphPass:
    """One forward pass (and its backward) of a model over a graph in one epoch."""

    def __init__(self, graph: ModelGraph, epoch: int, training: bool) -> None:
        self.graph, self.epoch, self.training = graph, epoch, training
        self._hops = 0
        self._dropouts = 0

    @property
    def ids(self) -> Tensor:
        return self.graph.ids

    def aggregate(self, x: Tensor, *, alpha: str = "symmetric") -> Tensor:
        """Return ``y_v = sum over u in N(v) of α(u, v) x_u`` (AdaQP Eq. 3, without its self term).

        A self loop of the graph brings v's own row into the sum.

        Args:
            x: rows of owned nodes, float32 ``(N, D)``.
            alpha: ``symmetric`` (GCN), ``mean`` (GraphSAGE) or ``sum``; from global degrees.

        Returns:
            float32 ``(N, D)``.
        """
        return self.graph._aggregate(x, alpha, self._next_hop())

    def convolve(
        self, x: Tensor, weight: Tensor, bias: Tensor, *, alpha: str = "symmetric", self_weight: Tensor | None = None
    ) -> Tensor:
        """Return ``aggregate(x) weight + x self_weight + bias``: a layer whose products can run while rows travel.

        Args:
            x: rows of owned nodes, float32 ``(N, D)``.
            weight: ``(D, O)``; ``self_weight`` the same, or ``None`` for no such term; ``bias`` ``(O,)``.
            alpha: as for :meth:`aggregate`.

        Returns:
            float32 ``(N, O)``.
        """
        return self.graph._convolve(x, weight, bias, self_weight, alpha, self._next_hop())

    def attend(self, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2) -> Tensor:
        """Return ``y_v = sum over u in N(v) of softmax_u(leaky(<a_target, z_v> + <a_source, z_u>)) z_u`` (GAT).

        A self loop of the graph lets v attend to itself.

        Args:
            z: projected rows of owned nodes, float32 ``(N, K, F)``: K heads of F features.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: of the leaky rectifier, in (0, 1].

        Returns:
            float32 ``(N, K, F)``; zeros for a node without neighbours.
        """
        return self.graph._attend(z, a_source, a_target, slope, self._next_hop())

    def extend(self, x: Tensor) -> Tensor:
        """Return the rows of owned nodes with those of halo nodes behind them, for anything else."""
        return self.graph._extend(x, self._next_hop())

    @overload
    def dropout(self, x: Tensor, p: float) -> Tensor: ...
    @overload
    def dropout(self, x: Tensor | SparseInput, p: float) -> Tensor | SparseInput: ...
    def dropout(self, x: Tensor | SparseInput, p: float) -> Tensor | SparseInput:
        """Drop each element with probability p and rescale the others; nothing outside training."""
        if not self.training or p == 0.0:
            return x
        self._dropouts += 1
        key = stream("dropout", self._dropouts - 1)
        if isinstance(x, SparseInput):
            return x.dropout(self.ids, p=p, seed=self.graph.seed, epoch=self.epoch, stream=key)
        return dropout(x, self.ids, p=p, seed=self.graph.seed, epoch=self.epoch, stream=key)

    def _next_hop(self) -> Hop:
        self._hops += 1
        return Hop(self._hops - 1, self.epoch, self.training)


class LocalGraph(ModelGraph):
    """A whole graph in one process: the truth that workers are held against."""

    def __init__(self, graph: Graph, *, seed: int = 0, device: torch.device | str = "cpu") -> None:
        super().__init__(graph.features, device)
        self.ids = torch.arange(graph.num_nodes, device=device)
        self.seed = seed
        self._graph = graph

    def _weighted(self, alpha: str) -> Adjacency:
        graph = self._graph
        weights = edge_weights(alpha, graph.indptr, graph.indices, graph.in_degrees, graph.out_degrees)
        return Adjacency(graph.indptr, graph.indices, weights, num_columns=graph.num_nodes)

    def _aggregate(self, x: Tensor, alpha: str, hop: Hop) -> Tensor:
        return aggregate(self.adjacency(alpha), x)

    def _attend(self, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float, hop: Hop) -> Tensor:
        source, target = (z * a_source).sum(-1), (z * a_target).sum(-1)
        return attend(self.adjacency("sum"), z, source, target, slope=slope)

    def _extend(self, x: Tensor, hop: Hop) -> Tensor:
        return x


class WorkerGraph(ModelGraph):
    """One worker's shard, joined to its peers by an exchange."""

    def __init__(
        self, shard: Shard, exchange: HaloExchange, *, seed: int = 0, device: torch.device | str = "cpu"
    ) -> None:
        super().__init__(shard.features, device)
        self.ids = shard.owned.to(device)
        self.seed = seed
        self._shard, self._exchange = shard, exchange

    def _weighted(self, alpha: str) -> Adjacency:
        shard = self._shard
        weights = shard.alpha(alpha)
        return Adjacency(shard.indptr, shard.indices, weights, num_columns=shard.num_owned + shard.num_halo)

    def _aggregate(self, x: Tensor, alpha: str, hop: Hop) -> Tensor:
        return self._exchange.aggregate(
            self.adjacency(alpha),
            x.contiguous(),
            layer=hop.index,
            epoch=hop.epoch,
            exact=not hop.training,
            static=x is self.features,
        )

    def _convolve(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        alpha: str,
        hop: Hop,
    ) -> Tensor:
        return convolve(
            self._exchange,
            self.adjacency(alpha),
            x.contiguous(),
            weight,
            bias,
            self_weight,
            layer=hop.index,
            epoch=hop.epoch,
            exact=not hop.training,
            static=x is self.features,
        )

    def _attend(self, z: Tensor, a_source: Tensor, a_target: Tensor, slope: float, hop: Hop) -> Tensor:
        return attend_over_halo(
            self._exchange,
            self.adjacency("sum"),
            z,
            a_source,
            a_target,
            slope=slope,
            layer=hop.index,
            epoch=hop.epoch,
            exact=not hop.training,
        )

    def _extend(self, x: Tensor, hop: Hop) -> Tensor:
        return self._exchange.extend(x.contiguous(), layer=hop.index, epoch=hop.epoch, exact=not hop.training)
