"""Exchange of a single process that has the whole graph: no communication."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.aggregation_context import AggregationContext
from gnnqlab.exchange.schedules.schedule import Runner, Synchronous
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel

__all__ = ["LocalExchange", "convolve_in_steps"]


class LocalExchange:
    """Aggregation without communication: all neighbours are local. The reference for distributed exchanges."""

    lag = 0
    uses_stale_rows = aggregates_before_projection = False

    def __init__(self, products: Products = PLAIN) -> None:
        self.products = products
        self.schedule: Runner = Synchronous()
        self.timeline = Timeline()
        self.adjacencies: dict[int, Adjacency] = {}
        self.channels: list[Channel] = []

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor:
        products, own_rows = _products(self, context), context.own(x)
        sums = products.aggregate(adjacency, own_rows)
        if context.remakes is not None:
            # All rows are local, so the backward pass may aggregate again in place of saving the sums.
            context.remakes.register_sum(sums, partial(products.spmm, adjacency), own_rows)
        return sums

    def convolve(
        self,
        adjacency: Adjacency,
        x: Tensor,
        weight: Tensor,
        bias: Tensor,
        self_weight: Tensor | None,
        context: AggregationContext,
    ) -> Tensor:
        return convolve_in_steps(self, adjacency, x, weight, bias, self_weight, context)

    def attend(
        self,
        adjacency: Adjacency,
        z: Tensor,
        a_source: Tensor,
        a_target: Tensor,
        *,
        slope: float,
        context: AggregationContext,
    ) -> Tensor:
        return _products(self, context).attend(adjacency, z, a_source, a_target, slope=slope)

    def extend(self, x: Tensor, context: AggregationContext) -> Tensor:
        return x

    def release(self) -> None:
        pass

    def drain(self) -> None:
        pass


class _Aggregates(Protocol):
    products: Products

    def aggregate(self, adjacency: Adjacency, x: Tensor, context: AggregationContext) -> Tensor: ...


def convolve_in_steps(
    exchange: _Aggregates,
    adjacency: Adjacency,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    self_weight: Tensor | None,
    context: AggregationContext,
) -> Tensor:
    """Compute ``aggregate(x) weight + x self_weight + bias``, first the sums, then the products."""
    products = _products(exchange, context)
    sums = exchange.aggregate(adjacency, x, context)  # (N, D)
    own_rows = None if self_weight is None else context.own(x)
    y = _projected(products, sums, weight, bias, own_rows, self_weight)
    if context.remakes is not None:
        if own_rows is not None:
            context.remakes.fix(own_rows)
        context.remakes.register(y, partial(_projected, products), sums, weight, bias, own_rows, self_weight)
    return y


def _projected(
    products: Products, sums: Tensor, weight: Tensor, bias: Tensor, own_rows: Tensor | None, self_weight: Tensor | None
) -> Tensor:
    y = products.affine(bias, sums, weight)  # (N, D) -> (N, O)
    return y if own_rows is None or self_weight is None else products.affine(y, own_rows, self_weight)


def _products(exchange: _Aggregates, context: AggregationContext) -> Products:
    return exchange.products.exact if context.exact else exchange.products
