"""Mini-batches: which nodes a step trains on, which of them a worker takes, and whose rows it needs for that.

Everything is a function of (seed, epoch, node): order, sampled neighbours and dropout masks do not depend on how many
workers there are. So P workers take the steps of one process that trains on the same batches whole.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import torch
from torch import Tensor

from gnnqlab.bits.policy import USUAL
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.neighbours import Frontier, sample_neighbours, shuffled
from gnnqlab.nn.blocks import Block, BlockWeights
from gnnqlab.settings import POSITIVE, OneOf, check

__all__ = ["GRADIENTS", "Batch", "Batches", "MiniBatchSettings"]

GRADIENTS = ("float32", "int8")
"""Types in which weight gradients of a step travel."""


@dataclass(frozen=True, kw_only=True)
class MiniBatchSettings:
    """How batches are made, and what travels for them."""

    fanouts: tuple[int, ...] = (10, 10)
    """In-neighbours sampled of each node, a number for each layer from the input on."""
    batch_size: Annotated[int, POSITIVE] = 1024
    """Training nodes of one step, which the workers share out."""
    feature_bits: Annotated[int, OneOf(USUAL)] = 32
    """Bits of an element of a feature row that travels: 32 as it is, 8 as int8 codes (TANGO), or another width."""
    gradients: Annotated[str, OneOf(GRADIENTS)] = "float32"
    """``float32``: one all-reduce; ``int8``: sums of codes (``gradient_codes.py``)."""
    overlap: bool = True
    """Sample the next batch and fetch its rows in a thread while this one is trained on."""

    def __post_init__(self) -> None:
        check(self)
        if not self.fanouts or min(self.fanouts) < 1:
            raise ValueError(f"fanouts must be numbers from 1 on, one for each layer, got {self.fanouts}")


@dataclass(frozen=True, eq=False)
class Batch:
    """One worker's share of a step."""

    step: int
    """Number of the step since training began."""
    size: int
    """Training nodes of all workers."""
    seeds: Tensor
    """This worker's, int64."""
    blocks: tuple[Block, ...]
    """From the widest to that of the seeds."""

    @property
    def inputs(self) -> Tensor:
        """Nodes whose features are needed, int64."""
        return self.blocks[0].sources


class Batches:
    """The batches of one worker; used by one thread at a time.

    Args:
        graph: the whole structure and split; features are not looked at.
        settings: fanouts and size.
        seed: of order and neighbours.
        rank: this worker, of ``workers``.

    Raises:
        ValueError: if there is nothing to learn from.

    Example:
        >>> from gnnqlab.graph import load
        >>> batches = Batches(load("digits"), MiniBatchSettings(batch_size=500), seed=0, rank=0, workers=2)
        >>> batches.steps, [batches.sample(epoch=0, number=number).seeds.numel() for number in range(3)]
        (3, [250, 250, 39])
    """

    def __init__(
        self, graph: Graph, settings: MiniBatchSettings, *, seed: int, rank: int = 0, workers: int = 1
    ) -> None:
        # Features stay with their owners; this lets go of those that came with the structure.
        self._graph = replace(graph, features=torch.empty(graph.num_nodes, 0))
        self._settings, self._seed, self._rank, self._workers = settings, seed, rank, workers
        self._train = graph.train_mask.nonzero().flatten()
        if not len(self._train):
            raise ValueError("mini-batches need at least one training node, this graph has none; pass train_idx=")
        self._weights, self._frontier = BlockWeights(graph), Frontier(graph.num_nodes)
        self._order = (-1, self._train)

    @property
    def steps(self) -> int:
        """Batches of an epoch."""
        return -(-len(self._train) // self._settings.batch_size)

    @property
    def num_train(self) -> int:
        return len(self._train)

    def share(self, epoch: int, number: int) -> tuple[Tensor, int]:
        """Return this worker's nodes of a batch, and how many all workers have; it may have none of a few."""
        if self._order[0] != epoch:
            self._order = epoch, shuffled(self._train, seed=self._seed, epoch=epoch)
        first = number * self._settings.batch_size
        nodes = self._order[1][first : first + self._settings.batch_size]
        return nodes.tensor_split(self._workers)[self._rank], len(nodes)

    def sample(self, epoch: int, number: int) -> Batch:
        """Return this worker's share of a batch with its blocks."""
        seeds, size = self.share(epoch, number)
        step = epoch * self.steps + number
        return Batch(step, size, seeds, self._blocks(seeds, step))

    def _blocks(self, targets: Tensor, step: int) -> tuple[Block, ...]:
        blocks: list[Block] = []
        for layer in reversed(range(len(self._settings.fanouts))):
            fanout = self._settings.fanouts[layer]
            drawn = {"seed": self._seed, "step": step, "layer": layer}
            indptr, neighbours = sample_neighbours(self._graph, targets, fanout, **drawn)
            sources, places = self._frontier.number(targets, neighbours)
            blocks.append(self._weights.block(indptr, places, sources))
            targets = sources
        return tuple(reversed(blocks))
