"""Peak memory of a system by purpose, measured by a trial of two epochs on workers in this process.

Each worker is a thread with its own memory tracker, like a launched worker; codec, cache, bits and schedule are the
system's. Nothing is launched. The trial takes about the memory of all workers together. Links between threads are not
timed; the buffers for a policy that times links are added by formula.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass

from gnnqlab.bits.assigner.assignment import ChannelTrace, largest_sent, traces_of
from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.graph.sources import load
from gnnqlab.message.direction import of_direction
from gnnqlab.message.transport.links import held_bytes, sizes_up_to
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import ThreadedWorkers
from gnnqlab.systems.system import System
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.memory_tracker import PURPOSES, MemoryTracker, counting

__all__ = ["predict_memory"]


def predict_memory(
    graph: GraphLike,
    model: ModelSettings,
    system: System,
    *,
    workers: int,
    settings: TrainSettings | None = None,
) -> dict[str, int]:
    """Return bytes by purpose of the worker that needs the most, at the peak of an epoch and its evaluation.

    As in ``run.memory``, memory of the background thread that solves assignments is not counted.

    Args:
        graph: the whole graph, or its name or path.
        model: its settings.
        system: all its parts are used; bit-widths are those of the first epochs.
        workers: number of partitions.
        settings: seed and learning rate.

    Raises:
        ValueError: if a name or a value is wrong.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.partition import Random
        >>> from gnnqlab.systems import vanilla
        >>> recipe = replace(vanilla(), partition=Random())
        >>> found = predict_memory("sbm:60,3,6", ModelSettings(layers=2, hidden=8), recipe, workers=2)
        >>> list(found)
        ['weights', 'adjacency', 'kept', 'rows', 'halo', 'buffers']
    """
    loaded_graph = load(graph)
    cut = cut_graph(loaded_graph, system.partition, workers)
    threads = ThreadedWorkers(loaded_graph, cut, system, model, settings or TrainSettings(), as_launched=True)
    threads.step(0)  # allocates buffers and the optimizer's moments
    threads.run(lambda trainer: trainer.evaluate(0))  # allocates the buffers of evaluation, before counting
    memories = threads.run(_measure)
    timed_bytes = max(
        _timed_bytes(system, direction, [memory.traces for memory in memories]) for direction in ("forward", "backward")
    )
    # Links are timed after the step of an epoch, when its activations are already freed.
    moments = [
        moment for memory in memories for moment in (memory.at_peak, _add_buffers(memory.after_step, timed_bytes))
    ]
    return max(moments, key=lambda moment: sum(moment.values()))


@dataclass(frozen=True, eq=False)
class _WorkerMemory:
    """Memory of one worker in a trial."""

    at_peak: dict[str, int]
    after_step: dict[str, int]
    """Bytes after the step of an epoch, when links are timed."""
    traces: list[ChannelTrace]
    """Statistics of the messages that it sent."""


def _measure(trainer: Trainer) -> _WorkerMemory:
    stack_and_tracker: tuple[ExitStack, MemoryTracker] = counting(trainer)
    stack, tracker = stack_and_tracker
    with stack:
        trainer.gradients(1)
        trainer.optimizer.step(1)
        after_step = dict(tracker.live)  # a copy, because the evaluation below changes it
        assert trainer.exchange is not None
        traces = traces_of(trainer.exchange.channels)
        trainer.evaluate(1)  # part of an epoch with evaluation, whose peak may be higher
    return _WorkerMemory({purpose: tracker.at_peak[purpose] for purpose in PURPOSES}, after_step, traces)


def _timed_bytes(system: System, direction: str, traces: list[list[ChannelTrace]]) -> int:
    """Return the bytes of the buffers that time links for a policy of one direction, or of both."""
    policy = of_direction(system.bits, direction)
    if len(traces) == 1 or not policy.times_links:  # one worker has no links
        return 0
    has_one_policy = policy is system.bits  # one policy for both directions times the larger of their messages
    param_bytes = of_direction(system.codec, "forward" if has_one_policy else direction).param_bytes
    sent_traces = [
        trace for worker_traces in traces for trace in worker_traces if has_one_policy or trace.place[1] == direction
    ]
    return held_bytes(sizes_up_to(largest_sent(sent_traces, policy.start, param_bytes)))


def _add_buffers(moment: dict[str, int], num_bytes: int) -> dict[str, int]:
    return {**moment, "buffers": moment["buffers"] + num_bytes}
