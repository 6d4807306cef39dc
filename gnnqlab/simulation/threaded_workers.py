"""All workers of a system as threads of this process, for measurements of their internal tensors.

The shards, exchanges, channels and codecs are those of launched workers; only the bytes pass through queues instead of
sockets. Threads instead of processes, because a measurement needs the rows and gradients of *every* worker, hundreds of
times, also in a notebook cell. A pass takes longer than in launched workers.
"""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._python_dispatch import _disable_current_modes

from gnnqlab.adaptive import Adaptive, Training, adaptives_of
from gnnqlab.bits.policy import BitPolicy, Rows, in_force
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.exchange.schedules.schedule import Synchronous
from gnnqlab.graph.graph import Graph
from gnnqlab.message.caches.row_cache_state import at_work
from gnnqlab.message.codecs.codec import Codec, Float32, Noise
from gnnqlab.message.direction import ByDirection, by_direction, of_direction
from gnnqlab.message.layout import Layout
from gnnqlab.message.transport.transport import Transfer
from gnnqlab.nn.message_passing import WorkerGraph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.observe import Observers
from gnnqlab.partition.cut import Cut
from gnnqlab.simulation.joined_threads import PATIENCE_S, PeerError, ThreadGroup
from gnnqlab.simulation.simulated_group import worker_thread
from gnnqlab.simulation.whole_graph import SmoothStack, build_network, exact_trainer
from gnnqlab.systems.join import join
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.own_objective import node_objective
from gnnqlab.train.loop.phase_timer import PhaseTimer, include_parts
from gnnqlab.train.loop.trainer import Trainer, worker_components, worker_context

__all__ = [
    "FrozenBits", "LoopbackTransport", "Mailbox", "AllowFloat32", "PeerError", "SmoothStack", "ThreadedWorkers",
    "exact_trainer", "one_thread",
]  # fmt: skip

Result = TypeVar("Result")


class Mailbox:
    """Queues between every pair of workers, in order of posting."""

    def __init__(self, workers: int) -> None:
        # Created before the threads start: created on demand, two threads could each create the queue of a pair.
        pairs = itertools.product(range(workers), range(workers))
        self._boxes: dict[tuple[int, int], queue.SimpleQueue[Tensor | None]] = {p: queue.SimpleQueue() for p in pairs}

    def put(self, sender: int, receiver: int, message: Tensor | None) -> None:
        self._boxes[sender, receiver].put(message)

    def get(self, sender: int, receiver: int) -> Tensor:
        """Wait for the next message and return it.

        Raises:
            PeerError: if the sender failed, or has sent nothing for a minute.
        """
        try:
            message = self._boxes[sender, receiver].get(timeout=PATIENCE_S)
        except queue.Empty:
            message = None
        if message is None:
            raise PeerError(f"worker {receiver} needs a message of worker {sender}, got none; see the error there")
        return message


class LoopbackTransport:
    """Transport between threads: a message is a copy in a queue."""

    def __init__(self, mail: Mailbox, rank: int) -> None:
        self.mail, self.rank = mail, rank
        self._last_expected: Counter[int] = Counter()
        self._last_received: Counter[int] = Counter()
        self._buffered: dict[tuple[int, int], Tensor] = {}

    def take(self, peer: int, number: int) -> Tensor:
        """Return a peer's message by its number in posting order; transfers may be finished in another order."""
        while (peer, number) not in self._buffered:
            self._last_received[peer] += 1
            self._buffered[peer, self._last_received[peer]] = self.mail.get(peer, self.rank)
        return self._buffered.pop((peer, number))

    def await_from(self, peer: int) -> int:
        """Return the number of the next expected message from a peer."""
        self._last_expected[peer] += 1
        return self._last_expected[peer]

    def post(
        self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor], headers: Any = None, *, bounded: bool = False
    ) -> Transfer:
        for peer, buffer in send.items():
            with _disable_current_modes():  # the memory tracker of a worker must not count messages in transit
                message = buffer.clone()  # a copy, because senders reuse their buffers
            self.mail.put(self.rank, peer, message)
        return _LoopBackTransfer(self, send, receive)


class _LoopBackTransfer(Transfer):
    def __init__(self, transport: LoopbackTransport, send: Mapping[int, Tensor], receive: Mapping[int, Tensor]) -> None:
        super().__init__()
        self._transport, self._receive = transport, receive
        self._send = send  # keeps the buffers alive during the transfer, as a real transport does
        # Numbers are drawn at posting, because transfers may be finished in another order.
        self._numbers = {peer: transport.await_from(peer) for peer in receive}

    def _finish(self) -> None:
        for peer, buffer in self._receive.items():
            message = self._transport.take(peer, self._numbers[peer])
            buffer[: message.numel()].copy_(message)  # a message may be shorter than its buffer
            self.seconds[peer] = time.perf_counter() - self.started


@dataclass(frozen=True)
class FrozenBits(BitPolicy):
    """Bit-widths of one epoch of a policy, used in every epoch, so that only the noise changes."""

    policy: BitPolicy
    """Policy of the system."""
    epoch: int = 0
    """Epoch whose bit-widths are used."""
    only: Collection[tuple[str, int]] | None = None
    """``(direction, layer)`` of the messages to quantize, others have 32 bits; by default all messages."""

    @property
    def choices(self) -> tuple[int, ...]:
        return self.policy.choices

    def version(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if self.only is not None and (rows.direction, rows.layer) not in self.only:
            return 32
        widths: int | Tensor = of_direction(self.policy, rows.direction).widths(rows, self.epoch)
        return widths


@dataclass(frozen=True)
class AllowFloat32(Codec):
    """Wrapper of a codec that also supports messages with 32 bits in all rows."""

    codec: Codec

    same_at_receivers = property(lambda self: self.codec.same_at_receivers)

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple({*self.codec.widths, 32})

    def param_bytes(self, bits: int, columns: int) -> int:
        return self.codec.param_bytes(bits, columns)

    def row_variance(self, columns: int) -> RowVariance:
        """Return the formula of the wrapped codec; if it has none, no policy of the system uses the result."""
        return self.codec.row_variance(columns) or min_max(columns)

    def rows(self, num_rows: int, columns: int, device: torch.device) -> Tensor:
        return self.codec.rows(num_rows, columns, device)

    def layout(self, widths: int | Tensor, num_rows: int, columns: int) -> Layout:
        is_exact = isinstance(widths, int) and widths == 32
        return (_EXACT if is_exact else self.codec).layout(widths, num_rows, columns)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        return self._for(layout).encode(x, rows, ids, layout, segment, noise)

    def decode(
        self,
        segment: Tensor,
        layout: Layout,
        out: Tensor,
        rows: Tensor,
        *,
        accumulate: bool,
        ids: Tensor | None = None,
        noise: Noise | None = None,
    ) -> None:
        self._for(layout).decode(segment, layout, out, rows, accumulate=accumulate, ids=ids, noise=noise)

    def receive_view(self, out: Tensor) -> Tensor | None:
        return None

    def _for(self, layout: Layout) -> Codec:
        return _EXACT if isinstance(layout.bits, int) and layout.bits == 32 else self.codec


_EXACT = Float32()


class ThreadedWorkers:
    """One trainer per worker, connected by queues.

    After a pass the parameters of each worker contain *its part* of the gradients, and the parts sum to those of the
    graph. Workers that are ``joined`` contain the sums.

    Args:
        graph: the whole graph.
        cut: partition of the graph, with one shard per worker.
        system: gives codec and bits; the schedule is synchronous, because no time is measured.
        bits: bit policy instead of the system's own.
        smooth: replace ReLU by GELU.
        as_launched: use the codec, schedule and policies of a launched worker, which measurements of memory need.
        joined: all-reduce gradients and facts in every pass, and run adaptive components, like launched workers.
        observers: one for each worker; by default none.
        objective: class of the user as ``module:Class``; by default cross-entropy.

    Raises:
        ValueError: if the settings do not support this number of workers.
    """

    def __init__(
        self,
        graph: Graph,
        cut: Cut,
        system: System,
        model: ModelSettings,
        settings: TrainSettings,
        *,
        bits: BitPolicy | None = None,
        smooth: bool = False,
        as_launched: bool = False,
        joined: bool = False,
        observers: Sequence[Observers] = (),
        objective: str = "",
    ) -> None:
        settings.require_workers(cut.workers)
        self._mail = Mailbox(cut.workers)
        self._group = ThreadGroup(cut.workers)
        self._joined = self._group if joined else None
        of_worker = list(observers) or [Observers(rank=rank) for rank in range(cut.workers)]
        # Processor time: elapsed time of a thread would include its waits for the cores of this process.
        self._clocks = [PhaseTimer(timer=time.thread_time, observers=observer) for observer in of_worker]
        self.seconds: list[dict[str, float]] = []
        """Processor time of each worker in the last pass, by phase: about that of launched workers."""
        self.trainers: list[Trainer] = []
        self.shards = list(cut.build_shards(graph))
        self.caches: list[Any] = [at_work(system.cache) for _ in self.shards]
        """Cache of each worker."""
        self.adaptives: dict[str, list[Adaptive]] = {}
        """Adaptive components of the last worker, by axis; empty unless the workers are joined."""
        # Measurements can quantize some messages only (`FrozenBits.only`), so each codec must support 32 bits too.
        codec: Any = ByDirection(
            *(AllowFloat32(of_direction(system.codec, direction)) for direction in ("forward", "backward"))
        )
        variant = system if as_launched else replace(system, codec=codec, schedule=Synchronous())
        for shard, cache in zip(self.shards, self.caches, strict=True):
            bit_policy: Any = variant.bits if bits is None else bits
            if as_launched and bits is None:
                bit_policy = by_direction(variant.bits, partial(in_force, worker=worker_context(shard, settings)))
            codec = by_direction(variant.codec, lambda part: part.at_work())
            running = {"bits": bit_policy, "cache": cache, "codec": codec}
            exchange = join(
                variant,
                shard,
                **running,
                transport=LoopbackTransport(self._mail, shard.rank),
                seed=settings.seed,
                keep_static=settings.input_features == "cache",
                phases=self._clocks[shard.rank],
                observers=of_worker[shard.rank],
            )
            if cut.workers > 1:  # the same columns as with stale rows, though the synchronous schedule has none
                exchange.uses_stale_rows = system.uses_stale_rows
                exchange.aggregates_before_projection = system.aggregates_before_projection
            view = WorkerGraph(shard, exchange, seed=settings.seed)
            view.node_sums.all_reduce = partial(self._group.add, shard.rank)
            network = build_network(model, graph, settings.seed, smooth)
            clock = self._clocks[shard.rank]
            if joined:
                training = Training(
                    worker=worker_context(shard, settings),
                    parts=worker_components(variant, exchange, **running),
                    of_direction=of_direction,
                    shard=shard,
                    phases=clock,
                )
                self.adaptives = adaptives_of(training)  # of the last worker after the loop
            self.trainers.append(
                Trainer(
                    view,
                    node_objective(shard, own=objective),
                    network,
                    settings,
                    exchange=exchange,
                    clock=clock,
                    adaptives=[*itertools.chain(*self.adaptives.values())],
                    observers=of_worker[shard.rank],
                    joined=self._joined,
                )
            )

    def run(self, work: Callable[[Trainer], Result]) -> list[Result]:
        """Return ``[work(trainer) for every worker]``, run in parallel with one thread per worker.

        Raises:
            Exception: error of the first worker that did not fail because of another worker.
        """
        with one_thread(), ThreadPoolExecutor(len(self.trainers)) as pool:
            futures = [pool.submit(self._run_one, rank, work) for rank in range(len(self.trainers))]
        # The end of the block has waited for all threads.
        errors = [error for future in futures if (error := future.exception()) is not None]
        if errors:
            raise next((error for error in errors if not isinstance(error, PeerError)), errors[0])
        return [future.result() for future in futures]

    def gradients(self, epoch: int) -> tuple[float, Tensor]:
        """Run one training pass; return the loss and the flat gradient of the whole graph."""
        losses = self._run_timed(lambda trainer: trainer.gradients(epoch))
        if self._joined is not None:
            return losses[0], self.trainers[0].parameters.gradients.clone()
        gradients = torch.stack([trainer.parameters.gradients for trainer in self.trainers])  # (P, n)
        return sum(losses), gradients.sum(0)

    def step(self, epoch: int) -> float:
        """Train one epoch with the gradient of the whole graph on every worker; return its loss (before the step)."""
        if self._joined is not None:
            return self._run_timed(lambda trainer: trainer.epoch(epoch))[0]
        loss, gradient = self.gradients(epoch)
        for trainer in self.trainers:
            trainer.parameters.gradients.copy_(gradient)  # the sum, so that replicas remain equal
            trainer.optimizer.step(epoch)
        return loss

    def set_weights(self, weights: Tensor) -> None:
        """Set the same flat weights on every worker.

        Raises:
            ValueError: if their shape does not match the model.
        """
        for trainer in self.trainers:
            values = trainer.parameters.values
            if weights.shape != values.shape:
                raise ValueError(
                    f"weights must be flat, one for each of {values.numel()} parameters, got shape "
                    f"{tuple(weights.shape)}; take them from trainer.parameters.values"
                )
            values.copy_(weights)  # in place: parameters are views of this buffer

    def _run_timed(self, work: Callable[[Trainer], float]) -> list[float]:
        def one(trainer: Trainer) -> tuple[float, dict[str, float]]:
            trainer.clock.take()  # reset: each pass runs in a new thread, whose processor time starts at 0
            return work(trainer), include_parts(trainer.clock.take())

        results = self.run(one)
        self.seconds = [seconds for _, seconds in results]
        return [loss for loss, _ in results]

    def _run_one(self, rank: int, work: Callable[[Trainer], Result]) -> Result:
        try:
            with worker_thread(rank):
                return work(self.trainers[rank])
        except BaseException:
            self._group.abort()  # ends their waits at the barrier
            for peer in range(len(self.trainers)):
                self._mail.put(rank, peer, None)  # ends the wait of other workers for this one
            raise


_COUNTING = threading.Lock()
_inside, _threads = 0, 1
"""Number of callers inside `one_thread`, and the number of threads before the first of them entered."""


@contextmanager
def one_thread() -> Iterator[None]:
    """Run products in the calling thread only: small products gain nothing from nested threads.

    PyTorch's number of threads is partly global, and callers may overlap: each restores that from before the first.
    """
    global _inside, _threads
    with _COUNTING:
        if not _inside:
            _threads = torch.get_num_threads()
        _inside += 1
    torch.set_num_threads(1)  # OpenMP's number is per thread, so every caller sets it
    try:
        yield
    finally:
        with _COUNTING:
            _inside -= 1
            torch.set_num_threads(_threads)
