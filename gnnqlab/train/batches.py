"""Mini-batches: training nodes of a step, one worker's share of them, and the sampled blocks of its layers.

Everything is a function of (seed, epoch, node): order, sampled neighbours and dropout masks do not depend on the
number of workers. So P workers take the same steps as one process that trains on whole batches.
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
"""Types in which the weight gradients of a step are sent."""


@dataclass(frozen=True, kw_only=True)
class MiniBatchSettings:
    """Size and fanouts of batches, and the precision of the features and gradients sent for them."""

    fanouts: tuple[int, ...] = (10, 10)
    """In-neighbours sampled per node, one number per layer, starting at the input."""
    batch_size: Annotated[int, POSITIVE] = 1024
    """Training nodes of one step, summed over all workers."""
    feature_bits: Annotated[int, OneOf(USUAL)] = 32
    """Bits per element of a feature row that is sent: 32 unchanged, 8 as int8 codes (TANGO), or another bit-width."""
    gradients: Annotated[str, OneOf(GRADIENTS)] = "float32"
    """``float32``: one all-reduce; ``int8``: sums sent as int8 codes (``gradient_codes.py``)."""
    overlap: bool = True
    """Sample the next batch and fetch its features in a thread during the current step."""

    def __post_init__(self) -> None:
        check(self)
        if not self.fanouts or min(self.fanouts) < 1:
            raise ValueError(f"fanouts must be at least 1, one for each layer, got {self.fanouts}")


@dataclass(frozen=True, eq=False)
class Batch:
    """One worker's share of a step."""

    step: int
    """Number of the step since training began."""
    size: int
    """Training nodes of all workers."""
    seeds: Tensor
    """Training nodes of this worker, int64."""
    blocks: tuple[Block, ...]
    """One per layer, from the input layer (most nodes) to that of the seeds."""

    @property
    def inputs(self) -> Tensor:
        """Nodes whose features are needed, int64."""
        return self.blocks[0].sources


class Batches:
    """Batches of one worker; used by one thread at a time.

    Args:
        graph: the whole structure and split; its features are not used.
        settings: fanouts and size.
        seed: seed of the order of nodes and of the sampled neighbours.
        rank: number of this worker.
        workers: number of workers, which share each batch.

    Raises:
        ValueError: if the graph has no training node.

    Example:
        >>> from gnnqlab.graph import load
        >>> batches = Batches(load("digits"), MiniBatchSettings(batch_size=500), seed=0, rank=0, workers=2)
        >>> batches.steps, [batches.sample(epoch=0, number=number).seeds.numel() for number in range(3)]
        (3, [250, 250, 39])
    """

    def __init__(
        self, graph: Graph, settings: MiniBatchSettings, *, seed: int, rank: int = 0, workers: int = 1
    ) -> None:
        # Each worker stores the features of its own nodes only; drop those of the whole graph to free their memory.
        self._graph = replace(graph, features=torch.empty(graph.num_nodes, 0))
        self._settings, self._seed, self._rank, self._workers = settings, seed, rank, workers
        self._train = graph.train_mask.nonzero().flatten()  # (T,) int64: all training nodes, ascending
        if not len(self._train):
            raise ValueError("mini-batches need at least one training node, this graph has none; pass train_idx=")
        # One frontier for all batches: it has N entries, of which a batch touches and resets only its own.
        self._weights, self._frontier = BlockWeights(graph), Frontier(graph.num_nodes)
        self._order = (-1, self._train)  # no epoch is -1, so the first call shuffles

    @property
    def steps(self) -> int:
        """Number of batches per epoch."""
        return -(-len(self._train) // self._settings.batch_size)

    @property
    def num_train(self) -> int:
        return len(self._train)

    def share(self, epoch: int, number: int) -> tuple[Tensor, int]:
        """Return this worker's nodes of a batch, none if it is very small, and the number of nodes in the batch."""
        if self._order[0] != epoch:  # shuffle once per epoch
            self._order = epoch, shuffled(self._train, seed=self._seed, epoch=epoch)
        start = number * self._settings.batch_size
        nodes = self._order[1][start : start + self._settings.batch_size]  # the last batch may have fewer
        return nodes.tensor_split(self._workers)[self._rank], len(nodes)  # shares differ by one node at most

    def sample(self, epoch: int, number: int) -> Batch:
        """Return this worker's share of a batch with its blocks."""
        seeds, size = self.share(epoch, number)
        # Counted over all epochs: no two steps use the same random numbers.
        step = epoch * self.steps + number
        return Batch(step, size, seeds, self._blocks(seeds, step))

    def _blocks(self, targets: Tensor, step: int) -> tuple[Block, ...]:
        blocks: list[Block] = []
        # From the last layer to the first: the sources of a layer are the targets of the layer below.
        for layer in reversed(range(len(self._settings.fanouts))):
            fanout = self._settings.fanouts[layer]
            key = {"seed": self._seed, "step": step, "layer": layer}
            # (targets + 1,), (sampled edges,) of global ids -> (sources,), (sampled edges,) of positions in sources
            indptr, neighbours = sample_neighbours(self._graph, targets, fanout, **key)
            # Targets come first among the sources, so that a layer finds its own nodes' rows at the start of its input.
            sources, places = self._frontier.number(targets, neighbours)
            blocks.append(self._weights.block(indptr, places, sources))
            targets = sources
        return tuple(reversed(blocks))
