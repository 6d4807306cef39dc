"""Graph interface of models: linear, aggregate, attend, extend, dropout; identical for one and for many workers.

A model is called with one *pass* over a graph, ``model(graph.open_pass(epoch, training=True), graph.features)``, and is
independent of the number of workers and of the precision of its products. Randomness inside a pass is a function of
(seed, epoch, position in the model, global node id, column), so a row's dropout mask does not depend on its owner. A
model passes ``dropout=`` to an aggregation instead of dropping its rows before: then a worker with stale or cached
halo rows has them without dropout, and applies this epoch's mask itself.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import overload

import torch
from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.compute.products import PassRows, to_float32
from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.exchange.aggregation_context import AggregationContext, Drop
from gnnqlab.exchange.protocol import Exchange
from gnnqlab.exchange.whole import LocalExchange, convolve_in_steps
from gnnqlab.former_names import FormerMember
from gnnqlab.graph.edge_data import refuse_attention
from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.noise import stream
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.nn.node_sums import NodeSums
from gnnqlab.nn.pass_clock import PassClock, run_in_phase
from gnnqlab.nn.reported import reporting
from gnnqlab.nn.row_passes import RowPasses
from gnnqlab.nn.sparse_input import SparseInput, project
from gnnqlab.observe import NO_OBSERVERS, Aggregated, NeighboursSummed, Observers
from gnnqlab.partition.coefficients import aggregation_coefficients
from gnnqlab.partition.shard import Shard

__all__ = ["GraphPass", "LocalGraph", "ModelGraph", "WorkerGraph"]


class ModelGraph(ABC):
    """Graph on which models run: a whole one, or one worker's shard."""

    ids: Tensor
    """Global ids of the rows of ``features``, int64 ``(N,)``."""
    features: Tensor | SparseInput
    seed: int
    weighted = False
    """True if edges have weights."""
    edge_features: Tensor | None = None
    """Features of the edges into local rows, float32 ``(E, F)``; used by :mod:`gnnqlab.nn.edge_rows`."""
    edge_means: Tensor | None = None
    """Cached mean of the edge features of each local row, float32 ``(N, F)``."""
    observers: Observers = NO_OBSERVERS
    """Observers of training passes."""
    node_sums = NodeSums()
    """Sums over the nodes of all workers, of one process here."""

    def __init__(self, features: Tensor | SparseRows, exchange: Exchange, device: torch.device | str) -> None:
        if features.shape[1] == 0:
            raise ValueError("training needs node features, got none; pass features=, or set node_features")
        if isinstance(features, SparseRows):
            self.features = SparseInput.from_rows(features, device)
        else:
            self.features = features.to(device)
        self.exchange = exchange
        """Exchange that aggregates neighbours, local and remote."""
        self._adjacencies: dict[str, Adjacency] = {}
        self.device = torch.device(device)

    def densify_features(self) -> None:
        """Convert sparse features to dense ones, for models that aggregate before they project."""
        if isinstance(self.features, SparseInput):
            self.features = self.features.to_dense()

    def open_pass(
        self,
        epoch: int,
        *,
        training: bool,
        clock: PassClock | None = None,
        remakes: RecomputeContext | None = None,
        observers: Observers | None = None,
    ) -> GraphPass:
        """Open one pass of a model over this graph.

        Args:
            epoch: epoch of the pass, which enters its random numbers.
            training: True for a training pass.
            clock: phase timer of the pass; ``None``: not timed.
            remakes: open recompute context, which recomputes registered results in the backward pass instead of saving
                them.
            observers: observers of this pass; by default those of the graph in a training pass, else none.

        Raises:
            ValueError: if ``remakes`` is given and the products cannot be recomputed.
        """
        if observers is None:
            observers = self.observers if training else NO_OBSERVERS
        # Without observers of operations the plain class avoids a call per operation.
        kind = _ReportingPass if observers.operation_started or observers.operation_ended else GraphPass
        return kind(self, epoch, training, clock, remakes, observers)

    at = FormerMember("open_pass")

    def adjacency(self, alpha: str) -> Adjacency:
        """Return the aggregation matrix with weights α, cached for each kind of α."""
        if alpha not in self._adjacencies:
            self._adjacencies[alpha] = self._weighted(alpha).to(self.device)
        return self._adjacencies[alpha]

    @abstractmethod
    def _weighted(self, alpha: str) -> Adjacency: ...


class GraphPass(RowPasses):
    """One forward pass (and its backward) of a model over a graph in one epoch.

    Products run in the precision of the axis ``compute``, or in float32 with ``exact=True``, which models pass in the
    layer before the loss.
    """

    def __init__(
        self,
        graph: ModelGraph,
        epoch: int,
        training: bool,
        clock: PassClock | None = None,
        remakes: RecomputeContext | None = None,
        observers: Observers = NO_OBSERVERS,
    ) -> None:
        if remakes is not None and not graph.exchange.products.remade:
            raise ValueError(
                "recompute 'selective' and 'full' recompute float32 products, got products that prepare their "
                "operands once per pass; choose compute float32 or recompute 'none'"
            )
        self._remakes = remakes
        self.graph, self.epoch, self.training, self.clock = graph, epoch, training, clock
        self.observers = observers
        self._hops = 0  # number of aggregations so far, the layer of the next
        self._dropouts = 0  # number of masks so far, the noise stream of the next
        self._looked = False  # True after the first aggregation of a training pass
        self._products = graph.exchange.products
        # Operands of the last pass are dropped; rounding noise depends on the seed and epoch of this one.
        self._products.begin(PassRows(graph.ids, graph.seed, epoch, training, graph.features))

    @property
    def ids(self) -> Tensor:
        return self.graph.ids

    @property
    def _keeps_rows(self) -> bool:
        return self.graph.exchange.uses_stale_rows

    def linear(
        self, x: Tensor | SparseInput, weight: Tensor, bias: Tensor | None = None, *, exact: bool = False
    ) -> Tensor:
        """Compute ``x weight + bias``, float32 ``(N, O)``; a sparse ``x`` is multiplied by its stored values only."""
        products = self._products.exact if exact else self._products
        x = self.exactly(x) if exact else x

        def run(x: Tensor | SparseInput, weight: Tensor, bias: Tensor | None) -> Tensor:
            product = project(products, x, weight)  # (N, D) -> (N, O)
            return product if bias is None else product + bias

        y = run_in_phase(self.clock, "products", lambda x: run(x, weight, bias), x)
        return self._register(y, run, x, weight, bias)

    def exactly(self, x: Tensor | SparseInput) -> Tensor | SparseInput:
        """Convert rows to float32 for exact products; call it once for several products of the same rows."""
        return to_float32(x) if isinstance(x, Tensor) else x

    def affine(self, base: Tensor, x: Tensor, weight: Tensor, *, beta: float = 1.0, alpha: float = 1.0) -> Tensor:
        """Compute ``beta base + alpha x weight``, float32 ``(N, O)``; if ``base`` is ``x``, with a single product."""
        if base is x:  # beta x + alpha x W = x (beta I + alpha W)
            mix = partial(self._products.mixed, weight=weight, beta=beta, alpha=alpha)
            return self._register(run_in_phase(self.clock, "products", mix, x), mix, x)

        def run(base: Tensor, x: Tensor) -> Tensor:
            return self._products.affine(base, x, weight, beta=beta, alpha=alpha)

        return self._register(run_in_phase(self.clock, "products", run, base, x), run, base, x)

    def aggregate(self, x: Tensor, *, alpha: str = "symmetric", dropout: float = 0.0, exact: bool = False) -> Tensor:
        """Aggregate ``y_v = sum over u in N(v) of α(u, v) x_u`` (AdaQP Eq. 3, without its self term).

        With a self loop in the graph the sum includes v's own row.

        Args:
            x: rows of owned nodes, float32 ``(N, D)``.
            alpha: ``symmetric`` (GCN), ``mean`` (GraphSAGE) or ``sum``; from global degrees and edge weights, as in
                :meth:`gnnqlab.partition.Shard.alpha`.
            dropout: probability of dropping an element of local and halo rows first; see :meth:`dropout`.
            exact: True to aggregate in float32.

        Returns:
            float32 ``(N, D)``.
        """
        x, context = self._look(x, dropout, exact)
        rows = x.contiguous()  # kernels read contiguous memory
        sums = self.graph.exchange.aggregate(self.graph.adjacency(alpha), rows, context)  # (N, D)
        self._report_sums(alpha, rows, sums, context)
        return self._report(x, sums, context)

    def convolve(
        self,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        *,
        alpha: str = "symmetric",
        self_weight: Tensor | None = None,
        dropout: float = 0.0,
        exact: bool = False,
    ) -> Tensor:
        """Compute ``aggregate(x) weight + x self_weight + bias``: a layer whose products can overlap the exchange.

        Args:
            x: rows of owned nodes, float32 ``(N, D)``.
            weight: ``(D, O)``.
            bias: ``(O,)``.
            self_weight: ``(D, O)``, or ``None`` without this term.
            alpha, dropout, exact: as for :meth:`aggregate`.

        Returns:
            float32 ``(N, O)``.
        """
        graph = self.graph
        x, context = self._look(x, dropout, exact)
        operands = graph.adjacency(alpha), x.contiguous(), weight, bias, self_weight, context
        if self.observers.neighbours_summed:  # the fused convolution does not expose its sums
            convolution_steps = _InSteps(graph.exchange.products, partial(self._sum, alpha))
            return self._report(x, convolve_in_steps(convolution_steps, *operands), context)
        return self._report(x, graph.exchange.convolve(*operands), context)

    def attend(
        self, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float = 0.2, exact: bool = False
    ) -> Tensor:
        """Compute ``y_v = sum over u in N(v) of softmax_u(leaky(<a_target, z_v> + <a_source, z_u>)) z_u`` (GAT).

        A self loop of the graph lets v attend to itself.

        Args:
            z: projected rows of owned nodes, float32 ``(N, K, F)``: K heads of F features.
            a_source, a_target: the two halves of the attention vector, ``(K, F)``.
            slope: negative slope of the leaky ReLU, in (0, 1].
            exact: as for :meth:`aggregate`.

        Returns:
            float32 ``(N, K, F)``; zeros for a node without neighbours.

        Raises:
            ValueError: on a graph with edge weights; see :func:`gnnqlab.graph.edge_data.refuse_attention`.
        """
        graph = self.graph
        if graph.weighted:
            refuse_attention("GraphPass.attend")
        context = self._next_context(z, exact)
        adjacency = graph.adjacency("sum")  # structure only: attention computes the coefficients
        return self._report(
            z, graph.exchange.attend(adjacency, z, a_source, a_target, slope=slope, context=context), context
        )

    def extend(self, x: Tensor) -> Tensor:
        """Append the halo rows to the owned rows, ``(N, D) -> (N + H, D)``, for layers not covered by other methods."""
        # Rows may have the precision of products, such as bfloat16; layers outside the pass compute in float32.
        return self.graph.exchange.extend(to_float32(x).contiguous(), self._next_context(x))

    def next_aggregation(self, x: Tensor) -> AggregationContext:
        """Return the context of the next aggregation, for callers that exchange its rows themselves."""
        return self._next_context(x)

    @overload
    def dropout(self, x: Tensor, p: float) -> Tensor: ...
    @overload
    def dropout(self, x: Tensor | SparseInput, p: float) -> Tensor | SparseInput: ...
    def dropout(self, x: Tensor | SparseInput, p: float) -> Tensor | SparseInput:
        """Drop each element with probability p and rescale the others; the identity outside training."""
        drop = self._next_drop(p)
        if drop is None:
            return x
        # Rows precomputed by activate() are for the next operation only.
        precomputed_dropout, self._precomputed = self._precomputed, None
        if isinstance(x, SparseInput):
            noise = {"seed": drop.seed, "epoch": drop.epoch, "stream": drop.stream}
            return drop.wrapper(partial(x.dropout, self.ids, p=p, **noise))
        if precomputed_dropout is not None and (dropped_rows := precomputed_dropout.take(x, drop)) is not None:
            return dropped_rows
        return self._register(drop.own(x), drop.rows, x, self.ids)

    def aggregates_before_projection(self, x: Tensor | SparseInput, dropout: float) -> bool:
        """Return True if rows must be aggregated before they are projected, though projected rows have fewer columns.

        This holds if receivers apply dropout: a projected row contains the mask of its epoch, which cannot be removed.
        Raw features are dropped by their owner and projected first in any case: they may have thousands of columns.
        """
        has_dropout = self.training and dropout > 0.0 and x is not self.graph.features
        return has_dropout and self.graph.exchange.aggregates_before_projection

    def _sum(self, alpha: str, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        """Aggregate for a convolution in steps, and report the sums."""
        sums = self.graph.exchange.aggregate(adjacency, x, context)
        self._report_sums(alpha, x, sums, context)
        return sums

    def _report_sums(self, alpha: str, x: Tensor, sums: Tensor, context: AggregationContext) -> None:
        if self.observers.neighbours_summed:
            event = NeighboursSummed(self.observers.rank, self.epoch, context.layer, alpha, x, sums)
            self.observers.emit(self.observers.neighbours_summed, event)

    def _report(self, input: Tensor, output: Tensor, context: AggregationContext) -> Tensor:
        """Report the result of an aggregation, the first of a training pass to the products too, and return it."""
        if self.training and not self._looked:
            self._looked = True
            self._products.on_first_aggregation(output.detach())
        if self.observers.aggregated:
            event = Aggregated(self.observers.rank, self.epoch, context.layer, input.detach(), output.detach())
            self.observers.emit(self.observers.aggregated, event)
        return output

    def _look(self, x: Tensor, p: float, exact: bool) -> tuple[Tensor, AggregationContext]:
        """Return input rows and context of an aggregation; dropout is applied here, or later by the exchange."""
        drop = self._next_drop(p)
        precomputed_dropout, self._precomputed = self._precomputed, None
        # Before dropout and exchange, so that both are in float32.
        x = to_float32(x) if exact else x
        if drop is None:
            return x, self._next_context(x, exact)
        # With stale or cached halo rows the exchange applies this epoch's mask, so rows are sent without it.
        if self.graph.exchange.uses_stale_rows:
            return x, replace(self._next_context(x, exact), drop=drop, precomputed=precomputed_dropout)
        x = self._register(drop.own(x), drop.rows, x, self.ids)  # recomputed with the same mask
        return x, self._next_context(x, exact)

    def _next_drop(self, p: float) -> Drop | None:
        drop = self._drop_to_come(p)
        self._dropouts += drop is not None
        return drop

    def _drop_to_come(self, p: float) -> Drop | None:
        if not self.training or p == 0.0:
            return None
        key = stream("dropout", self._dropouts)  # a stream of noise per mask of the pass
        wrapper = partial(run_in_phase, self.clock, "elementwise")
        return Drop(ids=self.ids, p=p, seed=self.graph.seed, epoch=self.epoch, stream=key, wrapper=wrapper)

    def _next_context(self, x: Tensor, exact: bool = False) -> AggregationContext:
        self._hops += 1
        static = x is self.graph.features and not x.requires_grad  # unless trained, so their sums may be cached
        return AggregationContext(
            self._hops - 1, self.epoch, self.training, static=static, exact=exact, remakes=self._remakes
        )


_ReportingPass = reporting(GraphPass)


@dataclass
class _InSteps:
    """Exchange whose convolutions aggregate first and then multiply the sums."""

    products: Products
    aggregate: Callable[[Adjacency, Tensor, AggregationContext], Tensor]


class LocalGraph(ModelGraph):
    """A whole graph in one process: the reference for distributed runs."""

    def __init__(
        self, graph: Graph, *, seed: int = 0, device: torch.device | str = "cpu", products: Products = PLAIN
    ) -> None:
        super().__init__(graph.features, LocalExchange(products), device)
        self.ids = torch.arange(graph.num_nodes, device=device)  # (N,)
        self.seed = seed
        self.weighted, self.edge_features = graph.edge_weights is not None, graph.edge_features
        self._graph = graph

    def _weighted(self, alpha: str) -> Adjacency:
        graph, degrees = self._graph, (self._graph.weighted_in_degrees, self._graph.weighted_out_degrees)
        weights = aggregation_coefficients(alpha, graph.indptr, graph.indices, *degrees, graph.edge_weights)  # (E,)
        return Adjacency(graph.indptr, graph.indices, weights, num_columns=graph.num_nodes)


class WorkerGraph(ModelGraph):
    """One worker's shard, connected to its peers by an exchange."""

    def __init__(self, shard: Shard, exchange: Exchange, *, seed: int = 0, device: torch.device | str = "cpu") -> None:
        super().__init__(shard.features, exchange, device)
        self.ids = shard.row_ids.to(device)
        self.seed = seed
        self.weighted, self.edge_features = shard.edge_weights is not None, shard.edge_features
        self._shard, self.node_sums = shard, NodeSums.of_shard(shard, device)

    def _weighted(self, alpha: str) -> Adjacency:
        return self._shard.matrix(alpha)
