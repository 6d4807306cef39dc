"""One worker's training: an epoch and an evaluation, nothing of launching, files or graphs on disk."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Protocol

import torch
import torch.distributed as dist
from torch import Tensor, nn

from gnnqlab.adaptive import Adaptive, Training, adaptives_of
from gnnqlab.bits.policy import Fixed, in_force
from gnnqlab.bits.row import EXACT
from gnnqlab.compute.recompute import RecomputeContext
from gnnqlab.exchange.protocol import Exchange
from gnnqlab.graph.edge_data import refuse_attention
from gnnqlab.kernels.codec.rows import raise_refused
from gnnqlab.message.caches.cache import at_work
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.channels.incoming import MessageRecord
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.direction import by_direction, of_direction
from gnnqlab.message.transport.header import run_number
from gnnqlab.message.transport.links import sizes_up_to, time_transfers
from gnnqlab.message.transport.paced import Paced, Pacer
from gnnqlab.message.transport.transport import Transport, make_transport
from gnnqlab.nn.message_passing import ModelGraph, WorkerGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.nn.timed import timed
from gnnqlab.observe import Observers, TensorSaved
from gnnqlab.partition.link_share import LinkShare
from gnnqlab.partition.shard import Shard
from gnnqlab.systems.join import join
from gnnqlab.systems.system import System
from gnnqlab.train.config.edges import require_edges
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.link_prediction.decoder import attach_decoder
from gnnqlab.train.link_prediction.objective import LinkObjective
from gnnqlab.train.link_prediction.settings import TaskSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.objective import Objective, Scores
from gnnqlab.train.loop.parameters import Adam, FlatParameters
from gnnqlab.train.loop.phase_timer import PhaseTimer
from gnnqlab.train.loop.reduction import Facts, Reduction, Slots, make_reduction
from gnnqlab.train.loop.scalar_reduction import ScalarReduction
from gnnqlab.worker_context import WorkerContext

__all__ = ["Joined", "Controller", "Trainer", "parts_at_work", "worker_context", "worker_trainer"]


class Controller(Protocol):
    """Brings settings from outside to what adapts; itself one of these. See ``control.py``."""

    def steers(self, adaptives: Mapping[str, Sequence[Adaptive]]) -> Adaptive:
        """Take whom it tells of new settings, by axis; return what is asked for news."""


class Joined(Protocol):
    """Another way than a process group to sum what the workers found; `gnnqlab.simulation` has threads."""

    workers: int

    def reduction(self, parameters: FlatParameters, slots: Slots) -> Reduction:
        """Return what sums gradients and facts on one worker."""


class Trainer:
    """Trains one replica of a model on the rows of one graph or shard."""

    def __init__(
        self,
        graph: ModelGraph,
        objective: Objective,
        model: nn.Module,
        settings: TrainSettings,
        *,
        exchange: Exchange | None = None,
        distributed: bool = False,
        clock: PhaseTimer | None = None,
        adaptives: Sequence[Adaptive] = (),
        observers: Observers | None = None,
        joined: Joined | None = None,
    ) -> None:
        self.adaptives = {adaptive.name: adaptive for adaptive in adaptives}
        """What adapts between epochs, by name, in the order in which it does; the same on every worker."""
        if len(self.adaptives) != len(adaptives):
            raise ValueError(f"what adapts needs a name of its own, got {[each.name for each in adaptives]}")
        self._deciding = any(adaptive.decides for adaptive in adaptives)
        workers = joined.workers if joined is not None else dist.get_world_size() if distributed else 1
        self._wanted = ScalarReduction(adaptives, workers)
        self._news = False
        self._epochs_here = 0
        self._evaluated = self._rested = False
        self._epoch_s: float | None = None
        self._told: list[Mapping[str, float | None]] = []
        self.graph, self.objective, self.model, self.settings = graph, objective, model.to(graph.device), settings
        self.exchange, self.distributed = exchange, distributed
        self.clock = clock or PhaseTimer()
        self.observers = graph.observers = observers or Observers()
        if not getattr(model, "takes_sparse_input", False):
            graph.densify_features()
        slots = self._wanted.slots
        self.parameters = FlatParameters(self.model, num_facts=slots.count)
        if distributed:
            self.parameters.spread()
        if joined is not None:
            self.reduction = joined.reduction(self.parameters, slots)
        else:
            self.reduction = make_reduction(
                self.parameters, slots, gradients=settings.gradients, distributed=distributed
            )
        self.optimizer = Adam(self.parameters, lr=settings.lr, weight_decay=settings.weight_decay)

    def gradients(self, epoch: int) -> float:
        """Run one training pass; leave the summed gradients in ``parameters`` and return the loss.

        Raises:
            NonFiniteMessage: if a row to send holds NaN or Inf (NonFiniteRow on CUDA).
        """
        if self.observers.all:
            self.observers.epoch = epoch
        with self.clock("optimizer"):
            self.parameters.zero()
        with self._remakes() as remakes:
            graph = self.graph.at(epoch, training=True, clock=self.clock, remakes=remakes)
            logits = self.model(graph, self.graph.features)
            loss = timed(self.clock, "loss", self.objective.loss, logits, graph.next_aggregation(logits))
        self._count(logits)
        news = any([adaptive.news() for adaptive in self.adaptives.values()])  # noqa: C419  # all are asked
        with self.clock("reduce"):
            self.reduction.begin(Facts(loss, news, *self._wanted.say(self._epoch_s)))
        with self.clock("other"):  # what the backward pass opens last ends with it
            loss.backward()
        with self.clock("reduce"):
            summed = self.reduction.finish()
        self._news, self._told = summed.flag, self._wanted.told(summed)
        if self.exchange is not None:
            self.exchange.release()
        if self.graph.device.type == "cuda":
            raise_refused(self.graph.device)  # kernels there cannot stop a training themselves
        return summed.loss

    def epoch(self, epoch: int) -> float:
        """Train one epoch; return its loss (before the step)."""
        begun = time.perf_counter()
        loss = self.gradients(epoch)
        with self.clock("optimizer"):
            self.optimizer.step()
        self._epoch_s = time.perf_counter() - begun if self._is_usual() else None
        if self._news:
            for adaptive in self.adaptives.values():
                adaptive.follow(epoch)
        if self._deciding:
            with self.clock.whole("assign"):
                for adaptive, told in zip(self.adaptives.values(), self._told, strict=True):
                    adaptive.after_epoch(epoch, loss, told)
        return loss

    def _remakes(self) -> AbstractContextManager[RecomputeContext | None]:
        """Return what is open around a forward pass and decides what it keeps."""
        keep, to = self.settings.keep_for_backward, self.observers

        def report(tensor: Tensor) -> Tensor:
            to.emit(to.tensor_saved, TensorSaved(to.rank, to.epoch, tensor))
            return tensor.detach()

        if keep != "all":
            return RecomputeContext(keep, report if to.tensor_saved else None)
        return _reported_to(report) if to.tensor_saved else nullcontext()

    def _count(self, logits: Tensor) -> None:
        """Tell who wants to know how many rows the training pass got right."""
        wanting = [adaptive for adaptive in self.adaptives.values() if adaptive.wants_accuracy]
        if not wanting:
            return
        with self.clock("loss"):
            right, rows = self.objective.train_counts(logits.detach())
        for adaptive in wanting:
            adaptive.counted(right, rows)

    def _is_usual(self) -> bool:
        """Whether an epoch's seconds can be compared; evaluation, steering and checkpoints are not among them.

        The first epoch of a process also sets things up, and rows under way travel on during an evaluation, so that the
        epoch after it is shorter, unless each epoch is.
        """
        rested_before, self._rested, self._evaluated = self._rested, self._evaluated, False
        self._epochs_here += 1
        return self._epochs_here > 1 and (rested_before or not self._rested)

    @property
    def channels(self) -> list[Channel]:
        """Return the channels of the exchange and those of the objective."""
        return [*(self.exchange.channels if self.exchange else []), *self.objective.channels]

    def take_arrivals(self) -> list[MessageRecord]:
        """Return the messages that this worker received since the last call."""
        taken = [arrival for channel in self.channels for arrival in channel.arrivals]
        for channel in self.channels:
            channel.arrivals.clear()
        return taken

    def close(self) -> None:
        """Return when nothing of this training is under way any more."""
        if self.exchange is not None:
            self.exchange.drain()
        for adaptive in self.adaptives.values():
            adaptive.close()

    @torch.no_grad()
    def evaluate(self, epoch: int) -> Scores:
        """Return the scores of the current weights; rows are exchanged exactly, in float32."""
        self._evaluated = True
        with self.clock.whole("evaluate"):
            self.model.eval()
            graph = self.graph.at(epoch, training=False)
            logits = self.model(graph, self.graph.features)
            self.model.train()
            return self.objective.scores(logits, graph.next_aggregation(logits), distributed=self.distributed)


@contextmanager
def _reported_to(report: Callable[[Tensor], Tensor]) -> Iterator[None]:
    with torch.autograd.graph.saved_tensors_hooks(report, lambda saved: saved):
        yield


def worker_context(shard: Shard, settings: TrainSettings, device: torch.device | str = "cpu") -> WorkerContext:
    """Return where a worker's parts run: who it is, and what it knows of its nodes."""
    return WorkerContext(
        rank=shard.rank,
        workers=shard.workers,
        seed=settings.seed,
        ids=torch.cat([shard.owned, shard.halo]),
        importance=shard.importance,
        device=torch.device(device),
    )


def parts_at_work(system: System, exchange: Exchange, *, bits: object, cache: object) -> dict[str, object]:
    """Return the components of one worker by axis, in the order of the axes."""
    return {
        "exchange": exchange,
        "sampler": system.sampler,
        "cache": cache,
        "codec": system.codec,
        "bits": bits,
        "schedule": exchange.schedule,
        "compute": exchange.products,
    }


def worker_trainer(
    shard: Shard,
    system: System,
    model: ModelSettings,
    settings: TrainSettings,
    *,
    device: torch.device | str = "cpu",
    clock: PhaseTimer | None = None,
    run: str = "",
    pacer: Pacer | None = None,
    control: Controller | None = None,
    counting: Counting | None = None,
    observers: Observers | None = None,
    task: TaskSettings | None = None,
    links: LinkShare | None = None,
    transports: Callable[[str, int, int], Transport] = make_transport,
) -> Trainer:
    """Return the trainer of one worker; ``torch.distributed`` must be initialised if there are several.

    Args:
        shard: its share of the graph.
        system, model, settings: the same on every worker.
        device: where it trains.
        clock: measures its epochs.
        run: tells the run's messages from those of others; the same on every worker.
        pacer: slows messages down to the rate of a link that is not there.
        control: brings settings from outside while it trains.
        counting: says whether the codes of messages that come are counted; by default they are not.
        observers: receive events of its messages, aggregations and epochs; those of phases are the clock's.
        task: what is learnt; by default classes of nodes.
        links: this worker's, where they are learnt.
        transports: makes a transport of a name, a rank and a number of workers.

    Raises:
        ValueError: if the shard has nothing to learn from, so many workers cannot do what the settings ask, or the
            model attends and edges have weights, or they have features that somebody would not look at.
    """
    settings.require_workers(shard.workers)
    edge_features = 0 if shard.edge_features is None else int(shard.edge_features.shape[1])
    require_edges(model, system, edge_features)
    if model.attends and shard.edge_weights is not None:
        refuse_attention(f"model {model.name}")
    clock, observers = clock or PhaseTimer(), observers or Observers(rank=shard.rank)
    distributed = shard.workers > 1 and dist.is_initialized()
    worker = worker_context(shard, settings, device)
    bits = by_direction(system.bits, lambda part: in_force(part, worker))
    cache = at_work(system.cache)
    transport = transports(settings.transport, shard.rank, shard.workers)
    exact = transports("direct", shard.rank, shard.workers)
    if pacer is not None:
        transport, exact = Paced(transport, pacer), Paced(exact, pacer)
    number = run_number(run) if _with_headers(settings.headers) else None
    exchange = join(
        system,
        shard,
        bits=bits,
        cache=cache,
        transport=transport,
        exact_transport=exact,
        seed=settings.seed,
        run=number,
        keep_static=settings.layer0 == "once",
        device=device,
        phases=clock,
        counting=counting,
        observers=observers,
    )
    training = Training(
        worker=worker,
        parts=parts_at_work(system, exchange, bits=bits, cache=cache),
        of_direction=of_direction,
        shard=shard,
        distributed=distributed,
        transport=settings.transport,
        time_links=lambda largest: time_transfers(
            shard.rank, shard.workers, transport=exact, sizes=sizes_up_to(largest)
        ),
        phases=clock,
    )
    adaptives = adaptives_of(training)
    steering = [] if control is None else [control.steers(adaptives)]
    graph = WorkerGraph(shard, exchange, seed=settings.seed, device=device)
    task = task or TaskSettings()
    columns = task.columns(model.hidden, shard.num_classes)
    sizes = graph.features.shape[1], columns
    network = build_model(model, *sizes, seed=settings.seed, edge_features=edge_features)
    objective: Objective
    if links is None:
        objective = label_objective(shard, device)
    else:
        # Its rows are those of this epoch whatever the schedule, and in its own bits whatever the system's.
        wires = ChannelFactory(
            transport=transport,
            exact_transport=exact,
            seed=settings.seed,
            run=number,
            codec=Float32() if task.link_bits == EXACT else Stochastic(),
            bits=Fixed(bits=task.link_bits),
            counting=counting or Counting(),
        )
        objective = LinkObjective(
            links,
            shard.row_ids,
            attach_decoder(network, task.decoder, columns, seed=settings.seed),
            task,
            wires,
            rank=shard.rank,
            workers=shard.workers,
            seed=settings.seed,
            device=device,
            timeline=exchange.timeline,
        )
    return Trainer(
        graph,
        objective,
        network,
        settings,
        exchange=exchange,
        distributed=distributed,
        clock=clock,
        adaptives=[*steering, *itertools.chain(*adaptives.values())],
        observers=observers,
    )


def _with_headers(setting: str) -> bool:
    over_nccl = dist.is_initialized() and dist.get_backend() == "nccl"
    return setting == "on" or (setting == "auto" and not over_nccl)
