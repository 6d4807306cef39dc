"""Data-parallel training on sampled blocks: the multi-worker mini-batch loop (TANGO, SC 2023, section 4, Fig. 9).

Each of P workers has the structure of the whole graph and the features of its own nodes. In a step every worker samples
the blocks of its share of the batch, fetches the features of sampled nodes from their owners and computes gradients;
their sum over workers updates identical replicas of the model. Features are sent in float32 or as int8 codes, and so
are gradients (``gradient_codes.py``).

A thread samples the next batch and fetches its features during the current step. TANGO overlaps the quantization of
features with the sampling of subgraphs; here both, and the transfer, overlap with the computation. The thread's random
numbers do not depend on timing: results with and without it are identical to the bit.

Differs: TANGO moves all features over the bus between host and GPU, with one scale per tensor. Here features are sent
over a link between workers, those of a worker's own nodes are not sent, and each row has its own range, as in all
messages of this package.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor
from torch.nn import functional

from gnnqlab.graph.features import SparseRows
from gnnqlab.graph.graph import Graph
from gnnqlab.kernels.noise import dropout, stream
from gnnqlab.message.channels.remote_rows import RemoteRows
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.transport.transport import Transport, make_transport
from gnnqlab.nn.blocks import MODELS, forward
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.nn.models.stack import ConvolutionStack
from gnnqlab.train.batches import Batch, Batches, MiniBatchSettings
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.gradient_codes import AsCodes
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.reduction import Facts, Reduction, Slots, SynchronousReduction

__all__ = ["MiniBatchTrainer", "own_rows"]


class MiniBatchTrainer:
    """One worker of the loop; ``torch.distributed`` must be initialised if there are several.

    Args:
        graph: the whole structure, labels and split; its features are not used.
        rows: features of this worker's nodes, from :func:`own_rows`.
        owner: rank of every node's owner, int64 ``(N,)``.
        model: one of ``gnnqlab.nn.blocks.MODELS``, with one layer per fanout.
        settings: seed, learning rate and weight decay.
        batches: size and fanouts of batches, and precision of messages.
        rank: this worker, of ``workers``.
        transport: sends feature rows; by default over ``torch.distributed``, between each pair of workers.

    Raises:
        ValueError: if the model has no forward pass over blocks, or its layers do not match the fanouts.

    Example:
        >>> from gnnqlab.graph import load
        >>> graph, owner, model = load("digits"), torch.zeros(1797).long(), ModelSettings(layers=2, hidden=16)
        >>> rows, batches = own_rows(graph, owner, 0), MiniBatchSettings(batch_size=128)
        >>> trainer = MiniBatchTrainer(graph, rows, owner, model, TrainSettings(), batches)
        >>> trainer.epoch(0) > trainer.epoch(1) > trainer.epoch(2)
        True
        >>> trainer.close()
    """

    def __init__(
        self,
        graph: Graph,
        rows: Tensor,
        owner: Tensor,
        model: ModelSettings,
        settings: TrainSettings,
        batches: MiniBatchSettings,
        *,
        rank: int = 0,
        workers: int = 1,
        transport: Transport | None = None,
    ) -> None:
        if model.name not in MODELS:
            raise ValueError(f"mini-batches support the models {', '.join(MODELS)}, got {model.name}")
        if model.layers != len(batches.fanouts):
            raise ValueError(f"fanouts must have one number for each of {model.layers} layers, got {batches.fanouts}")
        if settings.recompute != "none":
            raise ValueError(
                f"mini-batches do not recompute activations in the backward pass, got recompute "
                f"{settings.recompute!r}; choose 'none' and smaller batches"
            )
        if settings.protocol != "transductive":
            raise ValueError(
                f"mini-batches sample neighbours from the whole graph, got protocol {settings.protocol!r}; choose "
                "'transductive', or full-graph runs"
            )
        network = build_model(model, rows.shape[1], graph.num_classes, seed=settings.seed)
        assert isinstance(network, ConvolutionStack)
        self.model: ConvolutionStack = network
        self.batches = Batches(graph, batches, seed=settings.seed, rank=rank, workers=workers)
        self.features = RemoteRows(
            rows,
            owner,
            rank=rank,
            workers=workers,
            codec=Float32() if batches.feature_bits == 32 else Stochastic(),
            bits=batches.feature_bits,
            # Point-to-point: the thread fetches features while gradients are reduced, and collectives of one process
            # group must have the same order on all workers.
            transport=transport or make_transport("direct", rank, workers),
            seed=settings.seed,
        )
        slots = Slots()
        self.parameters = FlatParameters(network, num_facts=slots.count)
        self.reduction: Reduction = (
            AsCodes(self.parameters, slots, seed=settings.seed)
            if batches.gradients == "int8" and workers > 1
            else SynchronousReduction(self.parameters, slots, distributed=workers > 1)
        )
        self._optimizer = make_optimizer(self.parameters, **settings.optimizer_arguments)
        if graph.is_regression:
            raise ValueError(
                f"mini-batches train classes, got numbers to predict in graph {graph.name!r}; use full-graph runs"
            )
        self._labels, self._multi_label = graph.labels, graph.multi_label
        self._seed, self._overlap = settings.seed, batches.overlap
        threads = torch.get_num_threads()  # by default a new thread would use all cores
        self._ahead = ThreadPoolExecutor(1, "batches", initializer=torch.set_num_threads, initargs=(threads,))
        self.waited_s = 0.0
        """Seconds in which training waited for a batch, since it began."""

    def epoch(self, epoch: int) -> float:
        """Train on every batch; return the mean loss of the training nodes, each before the step of its batch.

        Raises:
            RuntimeError: if the loss is not finite.
            NonFiniteMessage: if a feature row to send is not finite.
        """
        loss = 0.0
        for batch, x in self._prepared(epoch):
            loss += self._step(epoch, batch, x) * batch.size  # a mean over the batch, weighted by its size
        if not math.isfinite(loss):
            raise RuntimeError(f"the loss must be finite, got {loss} in epoch {epoch}; lower the learning rate (--lr)")
        return loss / self.batches.num_train

    def gradients(self, batch: Batch, x: Tensor) -> float:
        """Store the gradient of a batch, summed over workers, in ``parameters``; return the mean loss of its nodes."""
        self.parameters.zero()
        loss = torch.zeros(())
        if len(batch.seeds):  # a worker without nodes in a small batch still takes part in the reduction

            def drop(h: Tensor, p: float, layer: int, ids: Tensor) -> Tensor:
                key = stream("dropout", layer)
                return dropout(h, ids, p=p, seed=self._seed, epoch=batch.step, stream=key)

            logits = forward(self.model, batch.blocks, x, drop=drop)  # (inputs, F) -> (seeds, C)
            # By the size of all workers' shares, so that summed gradients are those of the batch mean.
            loss = self._loss(logits, self._labels[batch.seeds]) / batch.size
        self.reduction.begin(Facts(loss))
        if loss.requires_grad:  # False for a worker without nodes
            loss.backward()
        return self.reduction.finish().loss

    @property
    def gradient_bytes(self) -> int:
        """Bytes that every worker contributes to the sum of gradients in a step."""
        return self.reduction.sent_bytes

    @torch.no_grad()
    def logits(self, whole: LocalGraph) -> Tensor:
        """Return the logits of all nodes, computed with all neighbours."""
        logits: Tensor = self.model(whole.open_pass(0, training=False), whole.features)
        return logits

    def close(self) -> None:
        """End the thread."""
        self._ahead.shutdown()

    def _step(self, epoch: int, batch: Batch, x: Tensor) -> float:
        loss = self.gradients(batch, x)
        self._optimizer.step(epoch)
        return loss

    def _prepared(self, epoch: int) -> Iterator[tuple[Batch, Tensor]]:
        """Yield the batches of an epoch with the features of their inputs."""
        if not self._overlap:
            for number in range(self.batches.steps):
                start = time.perf_counter()
                prepared_batch = self._prepare(epoch, number)
                self.waited_s += time.perf_counter() - start
                yield prepared_batch
            return
        # One batch ahead, not more: each holds the features of all its inputs.
        future = self._ahead.submit(self._prepare, epoch, 0)
        for number in range(1, self.batches.steps + 1):
            start = time.perf_counter()
            prepared_batch = future.result()
            self.waited_s += time.perf_counter() - start
            if number < self.batches.steps:  # before the yield: the thread works while the caller takes its step
                future = self._ahead.submit(self._prepare, epoch, number)
            yield prepared_batch

    def _prepare(self, epoch: int, number: int) -> tuple[Batch, Tensor]:
        batch = self.batches.sample(epoch, number)
        return batch, self.features.fetch(batch.inputs, batch.step)  # x: (inputs, F)

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self._multi_label:
            return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")
        return functional.cross_entropy(logits, labels, reduction="sum")


def own_rows(graph: Graph, owner: Tensor, rank: int) -> Tensor:
    """Return the features of the nodes that a worker owns, dense, float32 ``(n, D)``, in ascending order of nodes.

    Example:
        >>> from gnnqlab.graph import load
        >>> own_rows(load("digits"), torch.arange(1797) % 2, 1).shape
        torch.Size([898, 64])
    """
    owned_ids = (owner == rank).nonzero().flatten()  # ascending
    if isinstance(graph.features, SparseRows):
        return graph.features.index_rows(owned_ids).to_dense()
    return graph.features[owned_ids]
