"""Training of one worker: epochs and evaluations, independent of launching, files and graphs on disk."""

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
from gnnqlab.message.caches.row_cache_state import at_work
from gnnqlab.message.channels.channel import Channel
from gnnqlab.message.channels.channel_factory import ChannelFactory
from gnnqlab.message.channels.incoming import MessageRecord
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.codecs.entropy import Counting
from gnnqlab.message.direction import by_direction, of_direction
from gnnqlab.message.transport.header import run_number, sends_headers
from gnnqlab.message.transport.links import sizes_up_to, time_transfers
from gnnqlab.message.transport.paced import Paced, Pacer
from gnnqlab.message.transport.transport import Transport, make_transport
from gnnqlab.nn.message_passing import ModelGraph, WorkerGraph
from gnnqlab.nn.models.registry import ModelSettings, build_model
from gnnqlab.nn.pass_clock import run_in_phase
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
from gnnqlab.train.loop.evaluation import Evaluation
from gnnqlab.train.loop.gradient_check import GradientCheck
from gnnqlab.train.loop.node_embeddings import NodeEmbeddings
from gnnqlab.train.loop.objective import Objective, Scores
from gnnqlab.train.loop.optimizers import make_optimizer
from gnnqlab.train.loop.own_objective import node_objective
from gnnqlab.train.loop.parameters import FlatParameters
from gnnqlab.train.loop.phase_timer import PhaseTimer
from gnnqlab.train.loop.reduction import Facts, Reduction, Slots, make_reduction
from gnnqlab.train.loop.scalar_reduction import ScalarReduction
from gnnqlab.worker_context import WorkerContext

__all__ = [
    "Controller", "Trainer", "WorkerGroup", "worker_components", "worker_context", "worker_trainer",
]  # fmt: skip


class Controller(Protocol):
    """Callback that applies external settings to other callbacks; see ``control.py``."""

    def register_callbacks(self, adaptives: Mapping[str, Sequence[Adaptive]]) -> Adaptive:
        """Register the callbacks that receive new settings, by axis; return the one that polls for them."""


class WorkerGroup(Protocol):
    """Alternative to a process group for sums over workers; `gnnqlab.simulation` uses threads."""

    workers: int

    def reduction(self, parameters: FlatParameters, slots: Slots) -> Reduction:
        """Return the reduction of gradients and facts on one worker."""


class Trainer:
    """Training of one replica of a model on the nodes of one graph or shard."""

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
        joined: WorkerGroup | None = None,
    ) -> None:
        # Names are the keys of the callbacks' states in checkpoints, so they must be unique.
        self.adaptives = {callback.name: callback for callback in adaptives}
        """Callbacks by name, in the order in which they run; the same on every worker."""
        if len(self.adaptives) != len(adaptives):
            raise ValueError(f"callbacks must have unique names, got {[each.name for each in adaptives]}")
        self._deciding = any(callback.decides for callback in adaptives)
        workers = joined.workers if joined is not None else dist.get_world_size() if distributed else 1
        self._scalars = ScalarReduction(adaptives, workers)
        self._has_update = False
        self._epochs_here = 0
        self._evaluated = self._evaluated_before = False
        self._epoch_s: float | None = None
        self._reduced: list[Mapping[str, float | None]] = []
        self.graph, self.objective, self.model, self.settings = graph, objective, model.to(graph.device), settings
        self.exchange, self.distributed = exchange, distributed
        self.clock = clock or PhaseTimer()
        self.observers = graph.observers = observers or Observers()
        if not getattr(model, "takes_sparse_input", False):
            graph.densify_features()
        self.evaluation = Evaluation(graph, objective)  # replaced under the inductive protocol
        self.embeddings: NodeEmbeddings | None = None  # rows of nodes to train, if the run has some
        slots = self._scalars.slots
        self.parameters = FlatParameters(self.model, num_facts=slots.count)
        if distributed:
            self.parameters.broadcast()  # identical replicas, also for models that ignore the seed
        if joined is not None:
            self.reduction = joined.reduction(self.parameters, slots)
        else:
            self.reduction = make_reduction(
                self.parameters, slots, gradients=settings.gradients, distributed=distributed
            )
        self._check_gradients = GradientCheck(self.model, distributed=distributed)
        self.optimizer = make_optimizer(self.parameters, **settings.optimizer_arguments)

    def gradients(self, epoch: int) -> float:
        """Run forward and backward pass; store the summed gradients in ``parameters`` and return the loss.

        Raises:
            NonFiniteMessage: if a row to send has NaN or Inf (NonFiniteRow on CUDA).
        """
        if self.observers.all:
            self.observers.epoch = epoch
        with self.clock("optimizer"):
            self.parameters.zero()
            if self.embeddings is not None:
                self.embeddings.zero()
        with self._recompute_context() as remakes:
            graph = self.graph.open_pass(epoch, training=True, clock=self.clock, remakes=remakes)
            logits = self.model(graph, self.graph.features)  # (N, F) -> (N, C)
            loss = run_in_phase(self.clock, "loss", self.objective.loss, logits, graph.next_aggregation(logits))
        self._count(logits)
        # A list, not a generator: every callback must be polled in every epoch.
        has_update = any([callback.has_update() for callback in self.adaptives.values()])  # noqa: C419
        with self.clock("reduce"):  # before the backward pass, whose hooks post the gradients behind the facts
            self._check_gradients(loss)
            self.reduction.begin(Facts(loss, has_update, *self._scalars.collect_local(self._epoch_s)))
        with self.clock("other"):  # hooks of the backward pass open phases; the last one ends with this block
            loss.backward()
        with self.clock("reduce"):
            reduced_facts = self.reduction.finish()
        self._has_update, self._reduced = reduced_facts.flag, self._scalars.unpack(reduced_facts)
        if self.exchange is not None:
            self.exchange.release()  # post pipelined messages, which would have delayed the all-reduce
        if self.graph.device.type == "cuda":
            raise_refused(self.graph.device)  # CUDA kernels only record an error; raise it here
        return reduced_facts.loss

    def epoch(self, epoch: int) -> float:
        """Train one epoch; return its loss before the optimizer step."""
        start = time.perf_counter()
        loss = self.gradients(epoch)
        with self.clock("optimizer"):
            if self.embeddings is not None:  # first, because it clips the gradients of the weights, too
                self.embeddings.step(epoch)
            self.optimizer.step(epoch)
        self._epoch_s = time.perf_counter() - start if self._is_usual() else None
        if self._has_update:  # on all workers or on none: the flag was summed
            for callback in self.adaptives.values():
                callback.share_updates(epoch)
        # Decisions follow from values that are equal on all workers, so they need no further communication.
        if self._deciding:
            with self.clock.open_inclusive("assign"):
                for callback, values in zip(self.adaptives.values(), self._reduced, strict=True):
                    callback.after_epoch(epoch, loss, values)
        return loss

    def _recompute_context(self) -> AbstractContextManager[RecomputeContext | None]:
        """Return the context of a forward pass that selects the tensors saved for backward, and reports them."""
        recompute, observers = self.settings.recompute, self.observers

        def report(tensor: Tensor) -> Tensor:
            observers.emit(observers.tensor_saved, TensorSaved(observers.rank, observers.epoch, tensor))
            return tensor.detach()

        if recompute != "none":
            return RecomputeContext(recompute, report if observers.tensor_saved else None)
        return _report_saved_tensors(report) if observers.tensor_saved else nullcontext()

    def _count(self, logits: Tensor) -> None:
        """Pass the counts of the training score to the callbacks that request it."""
        receivers = [callback for callback in self.adaptives.values() if callback.wants_accuracy]
        if not receivers:
            return
        with self.clock("loss"):
            num_correct, rows = self.objective.train_counts(logits.detach())
        for callback in receivers:
            callback.receive_score_counts(num_correct, rows)

    def _is_usual(self) -> bool:
        """Return True if the seconds of this epoch are comparable; they exclude evaluation, control and checkpoints.

        Not comparable are the first epoch of a process, which includes set-up, and an epoch after an evaluation, during
        which pending messages arrive, so that it is shorter; unless every epoch follows an evaluation.
        """
        evaluated_two_before, self._evaluated_before, self._evaluated = self._evaluated_before, self._evaluated, False
        self._epochs_here += 1
        return self._epochs_here > 1 and (evaluated_two_before or not self._evaluated_before)

    @property
    def channels(self) -> list[Channel]:
        """Return the channels of the exchange and those of the objective."""
        return [*(self.exchange.channels if self.exchange else []), *self.objective.channels]

    def take_arrivals(self) -> list[MessageRecord]:
        """Return the messages that this worker received since the last call."""
        arrivals = [arrival for channel in self.channels for arrival in channel.arrivals]
        for channel in self.channels:
            channel.arrivals.clear()
        return arrivals

    def close(self) -> None:
        """Wait until no message or task of this training is pending."""
        if self.exchange is not None:
            self.exchange.drain()
        for callback in self.adaptives.values():
            callback.close()

    def evaluate(self, epoch: int) -> Scores:
        """Return the scores of the current weights; embeddings are exchanged in float32."""
        self._evaluated = True
        with self.clock.open_inclusive("evaluate"):
            return self.evaluation.scores(self.model, epoch, distributed=self.distributed)


@contextmanager
def _report_saved_tensors(report: Callable[[Tensor], Tensor]) -> Iterator[None]:
    with torch.autograd.graph.saved_tensors_hooks(report, lambda tensor: tensor):
        yield


def worker_context(shard: Shard, settings: TrainSettings, device: torch.device | str = "cpu") -> WorkerContext:
    """Return the worker context of a shard: rank, seed, node ids and their importance."""
    return WorkerContext(
        rank=shard.rank,
        workers=shard.workers,
        seed=settings.seed,
        ids=torch.cat([shard.owned, shard.halo]),  # (N + H,): owned, then halo nodes
        importance=shard.importance,
        device=torch.device(device),
    )


def worker_components(system: System, exchange: Exchange, **running: object) -> dict[str, object]:
    """Return the components of one worker in the order of the axes; ``running`` has ``bits``, ``cache``, ``codec``."""
    return {
        "exchange": exchange,
        "sampler": system.sampler,
        **{axis: running[axis] for axis in ("cache", "codec", "bits")},
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
        shard: this worker's share of the graph.
        system, model, settings: the same on every worker.
        device: of the training.
        clock: timer of the phases.
        run: identifier of the run in message headers; the same on every worker.
        pacer: throttles messages to the rate of a simulated link.
        control: applies external settings during training.
        counting: switch for counting the codes of received messages; off by default.
        observers: receive events of messages, aggregations and epochs; the clock has its own for phases.
        task: learning task; node classification by default.
        links: this worker's links, for link prediction.
        transports: creates a transport from a name, a rank and a number of workers.

    Raises:
        ValueError: if the shard has no training data, the settings do not support this number of workers, the edges
            have weights under an attention model, or edge features would be ignored.
    """
    # Refuse unsupported combinations before anything is built.
    settings.require_workers(shard.workers)
    edge_features = 0 if shard.edge_features is None else int(shard.edge_features.shape[1])
    require_edges(model, system, edge_features)
    if model.attends and shard.edge_weights is not None:
        refuse_attention(f"model {model.name}")
    # Components of this worker: bit policy, cache and transports.
    clock, observers = clock or PhaseTimer(), observers or Observers(rank=shard.rank)
    distributed = shard.workers > 1 and dist.is_initialized()
    worker = worker_context(shard, settings, device)
    running = {
        "bits": by_direction(system.bits, lambda part: in_force(part, worker)),
        "cache": at_work(system.cache),
        "codec": by_direction(system.codec, lambda part: part.at_work()),
    }
    transport = transports(settings.transport, shard.rank, shard.workers)
    # Rows of evaluation and cached rows go directly from sender to receiver, whatever the transport of training.
    exact_transport = transports("direct", shard.rank, shard.workers)
    if pacer is not None:
        transport, exact_transport = Paced(transport, pacer), Paced(exact_transport, pacer)
    number = run_number(run) if sends_headers(settings.verify_messages) else None  # None: messages without headers
    # The exchange between workers, composed from the parts of the system.
    exchange = join(
        system,
        shard,
        **running,
        transport=transport,
        exact_transport=exact_transport,
        seed=settings.seed,
        run=number,
        keep_static=settings.input_features == "cache",
        device=device,
        phases=clock,
        counting=counting,
        observers=observers,
    )
    # Callbacks of the parts, which act between epochs.
    training = Training(
        worker=worker,
        parts=worker_components(system, exchange, **running),
        of_direction=of_direction,
        shard=shard,
        distributed=distributed,
        transport=settings.transport,
        time_links=lambda largest_bytes: time_transfers(
            shard.rank, shard.workers, transport=exact_transport, sizes=sizes_up_to(largest_bytes)
        ),
        phases=clock,
    )
    callbacks = adaptives_of(training)
    controls = [] if control is None else [control.register_callbacks(callbacks)]
    # Graph, model and objective.
    graph = WorkerGraph(shard, exchange, seed=settings.seed, device=device)
    task = task or TaskSettings()
    columns = task.columns(model.hidden, shard.num_classes)
    network = build_model(model, graph.features.shape[1], columns, seed=settings.seed, edge_features=edge_features)
    objective: Objective
    if links is None:
        objective = node_objective(shard, device, class_weights=task.class_weights, own=task.objective)
    else:
        # The objective always uses embeddings of this epoch, in its own bit-width, independent of the system's schedule
        # and bit policy.
        wires = ChannelFactory(
            transport=transport,
            exact_transport=exact_transport,
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
        # Control comes first, so that the other callbacks use new settings in the same epoch.
        adaptives=[*controls, *itertools.chain(*callbacks.values())],
        observers=observers,
    )
