"""One worker's training: an epoch and an evaluation, nothing of launching, files or graphs on disk."""

from __future__ import annotations

import time
from typing import Protocol

import torch
import torch.distributed as dist
from torch import nn

from gnnqlab.bits.assigned import Assigned, AssignedWidths
from gnnqlab.bits.orchestrator import Orchestrated, OrchestratedWidths
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.steered import Steered
from gnnqlab.exchange.halo import HaloExchange
from gnnqlab.kernels.codec import raise_refused
from gnnqlab.message.header import run_number
from gnnqlab.message.paced import Paced, Pacer
from gnnqlab.message.transport import Direct, Transport, make_transport
from gnnqlab.nn.message_passing import ModelGraph, WorkerGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.partition.shard import Shard
from gnnqlab.systems.system import System
from gnnqlab.train.assignment import Assigner
from gnnqlab.train.clock import Clock
from gnnqlab.train.config import TrainSettings
from gnnqlab.train.coordinator import Coordinator
from gnnqlab.train.objective import Objective, Scores
from gnnqlab.train.parameters import Adam, FlatParameters
from gnnqlab.train.reduction import Facts, make_reduction, num_facts

__all__ = ["Trainer", "worker_trainer"]


class _Steering(Protocol):
    """Brings settings from outside into a training; see ``control.py``."""

    def look(self) -> bool: ...

    def follow(self, epoch: int) -> None: ...


class Trainer:
    """Trains one replica of a model on the rows of one graph or shard."""

    def __init__(
        self,
        graph: ModelGraph,
        objective: Objective,
        model: nn.Module,
        settings: TrainSettings,
        *,
        exchange: HaloExchange | None = None,
        distributed: bool = False,
        clock: Clock | None = None,
        assigner: Assigner | None = None,
        policy: AssignedWidths | OrchestratedWidths | Steered | None = None,
        coordinator: Coordinator | None = None,
    ) -> None:
        self.assigner = assigner
        self.coordinator = coordinator
        self.policy = policy
        """The widths in force, where they can be steered."""
        self.control: _Steering | None = None
        """Who brings news from outside, if anybody does."""
        self._news = False
        self._epochs_here = 0
        self._evaluated = self._rested = False
        self._epoch_s: float | None = None
        self._longest_s: float | None = None
        self.graph, self.objective, self.model, self.settings = graph, objective, model.to(graph.device), settings
        self.exchange, self.distributed = exchange, distributed
        self.clock = clock or Clock()
        if not getattr(model, "takes_sparse_input", False):
            graph.densify_features()
        timed = 0 if coordinator is None else dist.get_world_size() if distributed else 1
        self.parameters = FlatParameters(self.model, num_facts=num_facts(timed=timed))
        if distributed:
            self.parameters.spread()
        self.reduction = make_reduction(self.parameters, gradients=settings.gradients, distributed=distributed)
        self.optimizer = Adam(self.parameters, lr=settings.lr, weight_decay=settings.weight_decay)

    def gradients(self, epoch: int) -> float:
        """Run one training pass; leave the summed gradients in ``parameters`` and return the loss.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf (NonFiniteRow on CUDA).
        """
        self.parameters.zero()
        with self.clock("dense"):
            logits = self.model(self.graph.at(epoch, training=True), self.graph.features)
            loss = self.objective.loss(logits)
            news = self.control is not None and self.control.look()
            self.reduction.begin(Facts(loss, news, self._epoch_s))
            loss.backward()
        with self.clock("reduce"):
            total, self._news, self._longest_s = self.reduction.finish()
        if self.exchange is not None:
            self.exchange.release()
        if self.graph.device.type == "cuda":
            raise_refused(self.graph.device)  # kernels there cannot stop a training themselves
        return total

    def epoch(self, epoch: int) -> float:
        """Train one epoch; return its loss (before the step)."""
        begun = time.perf_counter()
        loss = self.gradients(epoch)
        with self.clock("optimizer"):
            self.optimizer.step()
        self._epoch_s = time.perf_counter() - begun if self._is_usual() else None
        if self._news and self.control is not None:
            self.control.follow(epoch)
        if self.assigner is not None:
            with self.clock.whole("assign"):
                self.assigner.after_epoch(epoch)
        if self.coordinator is not None:
            with self.clock.whole("assign"):
                self.coordinator.after_epoch(epoch, loss, self._longest_s)
        return loss

    def _is_usual(self) -> bool:
        """Whether an epoch's seconds can be compared; evaluation, steering and checkpoints are not among them.

        The first epoch of a process also sets things up, and rows under way travel on during an evaluation, so that the
        epoch after it is shorter, unless each epoch is.
        """
        rested_before, self._rested, self._evaluated = self._rested, self._evaluated, False
        self._epochs_here += 1
        return self._epochs_here > 1 and (rested_before or not self._rested)

    def close(self) -> None:
        """Return when nothing of this training is under way any more."""
        if self.exchange is not None:
            self.exchange.schedule.drain()
        if self.assigner is not None:
            self.assigner.close()

    @torch.no_grad()
    def evaluate(self, epoch: int) -> Scores:
        """Return the scores of the current weights; rows are exchanged exactly, in float32."""
        self._evaluated = True
        with self.clock.whole("evaluate"):
            logits = self.model(self.graph.at(epoch, training=False), self.graph.features)
            return self.objective.scores(logits, distributed=self.distributed)


def worker_trainer(
    shard: Shard,
    system: System,
    model: ModelSettings,
    settings: TrainSettings,
    *,
    device: torch.device | str = "cpu",
    clock: Clock | None = None,
    run: str = "",
    pacer: Pacer | None = None,
) -> Trainer:
    """Return the trainer of one worker; ``torch.distributed`` must be initialised if there are several.

    Args:
        shard: its share of the graph.
        system, model, settings: the same on every worker.
        device: where it trains.
        clock: measures its epochs.
        run: tells the run's messages from those of others; the same on every worker.
        pacer: slows messages down to the rate of a link that is not there.

    Raises:
        ValueError: if the shard has nothing to learn from.
    """
    clock = clock or Clock()
    distributed = shard.workers > 1 and dist.is_initialized()
    bits = _policy(system.bits, shard)
    transport = make_transport(settings.transport, shard.rank, shard.workers)
    exact: Transport = Direct(shard.rank, shard.workers)
    if pacer is not None:
        transport, exact = Paced(transport, pacer), Paced(exact, pacer)
    exchange = HaloExchange(
        shard,
        codec=system.codec,
        bits=bits,
        sampler=system.sampler,
        schedule=system.schedule,
        transport=transport,
        exact_transport=exact,
        seed=settings.seed,
        run=run_number(run) if _with_headers(settings.headers) else None,
        keep_static=settings.layer0 == "once",
        device=device,
        phases=clock,
    )
    assigner = None
    if isinstance(bits, AssignedWidths) and distributed:
        per_parameter = system.codec.layout(bits.choices[0], 1, 1).param_bytes // 2
        assigner = Assigner(
            bits,
            shard,
            exchange,
            bytes_per_parameter=per_parameter,
            transport=settings.transport,
            wire=exact,
            phases=clock,
        )
    graph = WorkerGraph(shard, exchange, seed=settings.seed, device=device)
    network = build_model(model, graph.features.shape[1], shard.num_classes, seed=settings.seed)
    return Trainer(
        graph,
        Objective.of(shard, device),
        network,
        settings,
        exchange=exchange,
        distributed=distributed,
        clock=clock,
        assigner=assigner,
        policy=bits,
        coordinator=Coordinator.of(bits, system.schedule, exchange.schedule),
    )


def _with_headers(setting: str) -> bool:
    over_nccl = dist.is_initialized() and dist.get_backend() == "nccl"
    return setting == "on" or (setting == "auto" and not over_nccl)


def _policy(settings: BitPolicy, shard: Shard) -> AssignedWidths | OrchestratedWidths | Steered:
    """Return the policy in force on one worker: settings, and what they need to know of it."""
    if isinstance(settings, Assigned):
        return AssignedWidths(settings)
    if isinstance(settings, Orchestrated):
        return OrchestratedWidths(settings, torch.cat([shard.owned, shard.halo]), shard.importance)
    return Steered(settings)
