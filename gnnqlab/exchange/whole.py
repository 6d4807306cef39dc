"""The exchange of one process that has the whole graph: nobody to exchange with."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from torch import Tensor

from gnnqlab.compute import Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.exchange.hop import Hop
from gnnqlab.exchange.schedules.schedule import Runner, Synchronous
from gnnqlab.exchange.timeline import Timeline
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.message.channels.channel import Channel

__all__ = ["WholeGraph", "convolve_in_steps"]


class WholeGraph:
    """Every neighbour is here: the products alone, which exchanges are held against."""

    lag = 0
    keeps_rows = looks_first = False

    def __init__(self, products: Products = PLAIN) -> None:
        self.products = products
        self.schedule: Runner = Synchronous()
        self.timeline = Timeline()
        self.adjacencies: dict[int, Adjacency] = {}
        self.channels: list[Channel] = []

    def aggregate(self, adjacency: Adjacency, x: Tensor, hop: Hop) -> Tensor:
        products, own = _products(self, hop), hop.own(x)
        sums = products.aggregate(adjacency, own)
        if hop.remakes is not None:
            hop.remakes.summed(sums, partial(products.spmm, adjacency), own)
        return sums

    def convolve(
        self, adjacency: Adjacency, x: Tensor, weight: Tensor, bias: Tensor, self_weight: Tensor | None, hop: Hop
    ) -> Tensor:
        return convolve_in_steps(self, adjacency, x, weight, bias, self_weight, hop)

    def attend(
        self, adjacency: Adjacency, z: Tensor, a_source: Tensor, a_target: Tensor, *, slope: float, hop: Hop
    ) -> Tensor:
        return _products(self, hop).attend(adjacency, z, a_source, a_target, slope=slope)

    def extend(self, x: Tensor, hop: Hop) -> Tensor:
        return x

    def release(self) -> None:
        pass

    def drain(self) -> None:
        pass

    def forget(self) -> None:
        pass


class _Aggregates(Protocol):
    products: Products

    def aggregate(self, adjacency: Adjacency, x: Tensor, hop: Hop) -> Tensor: ...


def convolve_in_steps(
    exchange: _Aggregates,
    adjacency: Adjacency,
    x: Tensor,
    weight: Tensor,
    bias: Tensor,
    self_weight: Tensor | None,
    hop: Hop,
) -> Tensor:
    """Return ``aggregate(x) weight + x self_weight + bias``, sum and products one after the other."""
    products = _products(exchange, hop)
    sums = exchange.aggregate(adjacency, x, hop)
    own = None if self_weight is None else hop.own(x)
    y = _projected(products, sums, weight, bias, own, self_weight)
    if hop.remakes is not None:
        if own is not None:
            hop.remakes.fix(own)
        hop.remakes.made(y, partial(_projected, products), sums, weight, bias, own, self_weight)
    return y


def _projected(
    products: Products, sums: Tensor, weight: Tensor, bias: Tensor, own: Tensor | None, self_weight: Tensor | None
) -> Tensor:
    y = products.affine(bias, sums, weight)
    return y if own is None or self_weight is None else products.affine(y, own, self_weight)


def _products(exchange: _Aggregates, hop: Hop) -> Products:
    return exchange.products.exact if hop.exact else exchange.products
