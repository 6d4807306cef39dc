"""Inductive protocol: train on the subgraph induced by the training nodes, evaluate on the whole graph.

PipeGCN and BNS-GCN train Reddit and Yelp in this way. One partition of the whole graph serves both: each worker has a
shard of the subgraph for training, whose halo is smaller, and one of the whole graph for evaluation in float32.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from gnnqlab.graph.sources import load
from gnnqlab.message.transport.header import run_number, sends_headers
from gnnqlab.message.transport.paced import Paced, Pacer
from gnnqlab.message.transport.transport import Transport, make_transport
from gnnqlab.nn.message_passing import WorkerGraph
from gnnqlab.partition.parts import owner_of
from gnnqlab.partition.shard import Shard
from gnnqlab.partition.training_shard import build_training_shard
from gnnqlab.systems.join import join
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.evaluation import Evaluation
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.shard_cache import is_first_on_machine, shards_on_machine

__all__ = ["evaluate_on_whole_graph", "own_training_shard"]

_LONG_S = 24 * 3600.0
"""Limit reported to the guard: loading a large graph and building its shards may take hours."""


def own_training_shard(source: str, *, rank: int, workers: int, run: Path, heartbeat: Heartbeat) -> Shard:
    """Return one worker's shard of the training subgraph, stored in the folder of the whole graph's shards.

    On each machine one worker loads the graph and builds the shards unless they are stored; the others wait for it.
    Call :func:`gnnqlab.train.shard_cache.own_shard` before, which records the folder.
    """
    folder = shards_on_machine(run)
    if is_first_on_machine(rank):
        if not all(_path(folder, each).exists() for each in range(workers)):
            heartbeat.phase("load", limit_s=_LONG_S)
            graph = load(source)
            heartbeat.phase("partition", limit_s=_LONG_S)
            owner = owner_of(folder, workers, graph.num_nodes)
            for each in range(workers):
                build_training_shard(graph, owner, each, workers).save(_path(folder, each))
    else:
        heartbeat.phase("partition", limit_s=_LONG_S)
        # A file, not a collective, as for the shards of the whole graph; files are complete when they appear.
        while not _path(folder, rank).exists():
            time.sleep(0.02)
    heartbeat.phase("load", limit_s=600.0)
    return Shard.load(_path(folder, rank))


def _path(folder: Path, rank: int) -> Path:
    return folder / f"training-rank{rank}.npz"


def evaluate_on_whole_graph(
    trainer: Trainer,
    shard: Shard,
    *,
    run: str = "",
    pacer: Pacer | None = None,
    transports: Callable[[str, int, int], Transport] = make_transport,
) -> None:
    """Let a trainer of the training subgraph evaluate on a worker's shard of the whole graph.

    Args:
        trainer: trainer on the worker's shard of the training subgraph.
        shard: this worker's shard of the whole graph.
        run: identifier of the run in message headers; the same on every worker.
        pacer: throttles messages to the rate of a simulated link.
        transports: creates a transport from a name, a rank and a number of workers.
    """
    settings, system, device = trainer.settings, vanilla(), trainer.graph.device
    transport = transports("direct", shard.rank, shard.workers)
    if pacer is not None:
        transport = Paced(transport, pacer)
    # Vanilla: float32, and no state between passes, so checkpoints need nothing of it.
    exchange = join(
        system,
        shard,
        bits=system.bits,
        transport=transport,
        seed=settings.seed,
        run=run_number(run) if sends_headers(settings.verify_messages) else None,
        device=device,
    )
    graph = WorkerGraph(shard, exchange, seed=settings.seed, device=device)
    if not getattr(trainer.model, "takes_sparse_input", False):
        graph.densify_features()
    trainer.evaluation = Evaluation(graph, label_objective(shard, device))
