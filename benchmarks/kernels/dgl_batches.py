"""DGL's mini-batch loop on several workers: its sampler, its layers on blocks, gradients all-reduced by PyTorch's DDP.

The loop of DGL's examples for several devices, in float32. It trains on the same nodes as ours, batch by batch, so
steps are comparable. Only the remote feature store is ours, in float32: DGL's own runs in server processes in addition
to the workers, and their time would be compared instead.
"""

from __future__ import annotations

import warnings
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.kernels.dgl_rival import Rival, structure_of
from gnnqlab.train.batches import Batches, MiniBatchSettings

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.channels.remote_rows import RemoteRows
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.config.run_config import TrainSettings

__all__ = ["DglLoop"]


class DglLoop:
    """Worker of DGL's loop; ``torch.distributed`` must be initialized if there are several.

    Args:
        graph: the whole structure, labels and split.
        features: remote store of feature rows.
        model: ``gcn``, ``graphsage``, or ``gat`` of one head.
        settings: seed, learning rate and weight decay.
        batches: fan-outs and batch size.
        rank: number of this worker, of ``workers``.
    """

    def __init__(
        self,
        graph: Graph,
        features: RemoteRows,
        model: ModelSettings,
        settings: TrainSettings,
        batches: MiniBatchSettings,
        *,
        rank: int,
        workers: int,
    ) -> None:
        import dgl

        torch.manual_seed(settings.seed)  # the same weights on every worker
        dgl.seed(settings.seed + rank)  # different samples on every worker
        with suppress(AttributeError):  # missing in some DGL versions
            dgl.utils.set_num_threads(torch.get_num_threads())
        self.features, self._labels, self._multi_label = features, graph.labels, graph.multi_label
        self.structure, self._workers = structure_of(graph), workers
        # our batches, so that steps are comparable
        self.batches = Batches(graph, batches, seed=settings.seed, rank=rank, workers=workers)
        self._sampler = dgl.dataloading.NeighborSampler(list(batches.fanouts))
        self.model = Rival(self.structure, model.name, model, features.columns, graph.num_classes, sparse=False)
        self._summing: torch.nn.Module = self.model
        if workers > 1:
            self._summing = torch.nn.parallel.DistributedDataParallel(self.model)  # DDP averages gradients over workers
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=settings.lr, weight_decay=settings.weight_decay)

    def epoch(self, epoch: int) -> float:
        """Take one step for every batch with a node per worker; return this worker's part of the mean loss."""
        total = 0.0
        self.model.train()
        for number in range(self.batches.steps):
            seeds, size = self.batches.share(epoch, number)
            if size < self._workers:
                continue  # DDP needs a gradient of every worker, so all skip the step
            inputs, _, blocks = self._sampler.sample_blocks(self.structure, seeds)
            # the number of the step keys the request
            x = self.features.fetch(inputs, epoch * self.batches.steps + number)
            self._optimizer.zero_grad()
            with warnings.catch_warnings():  # DGL uses deprecated storage types of PyTorch
                warnings.simplefilter("ignore")
                loss = self._loss(self._summing(x, blocks), self._labels[seeds])
            (loss * (self._workers / size)).backward()  # type: ignore[no-untyped-call]  # DDP averages over workers
            self._optimizer.step()
            total += float(loss.detach())
        return total / self.batches.num_train  # mean loss over all training nodes

    @property
    def gradient_bytes(self) -> int:
        """Bytes that every worker adds to the gradient all-reduce in a step."""
        return 4 * sum(each.numel() for each in self.model.parameters())  # float32

    @torch.no_grad()
    def logits(self, whole: Any) -> Tensor:
        """Return the logits of all nodes, with all their neighbours."""
        self.model.eval()
        logits: Tensor = self.model(whole.features)
        return logits

    def close(self) -> None:
        """Do nothing: there are no background threads."""

    def _loss(self, logits: Tensor, labels: Tensor) -> Tensor:
        if self._multi_label:
            # summed; divided by the size of the batch later
            return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")
        return functional.cross_entropy(logits, labels, reduction="sum")
