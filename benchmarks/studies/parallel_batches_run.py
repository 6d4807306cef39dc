"""Mini-batch loops of several contestants in one launch, in interleaved epochs: seconds, bytes and scores."""

from __future__ import annotations

import dataclasses
import json
import statistics
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gnnqlab.train.batches import MiniBatchSettings
    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.heartbeat import Heartbeat

__all__ = ["Found", "fit_in_turn", "read_found", "run_in_turn", "write_plan"]

_PLAN, _FOUND = "batches-plan.json", "batches-found.json"
_EPOCH_S = 600.0
"""Time limit of an epoch, over a slow link, after which the guard reports a worker as hung."""


@dataclass(frozen=True, kw_only=True)
class Found:
    """Result of one contestant's training with one seed."""

    name: str
    seed: int
    epochs_s: tuple[float, ...]
    """Seconds of every epoch, including the first, on the slowest worker."""
    sent_bytes: float
    """Bytes sent by all workers in an epoch: ids, rows, and gradients of a ring all-reduce."""
    score: float | None
    """Test score at the best validation score; ``None`` without evaluation."""
    link: str = ""

    @property
    def epoch_s(self) -> float:
        """Median of all epochs but the first."""
        return statistics.median(self.epochs_s[1:] or self.epochs_s)


def run_in_turn(
    config: RunConfig,
    contestants: Mapping[str, MiniBatchSettings],
    dgl: Sequence[str] = (),
    *,
    seeds: Sequence[int],
    evaluate_every: int = 0,
) -> list[Found]:
    """Launch workers that train every contestant with every seed, and return the results.

    Args:
        config: configuration of the run: graph, model, epochs, learning rate, workers and link.
        contestants: name -> settings of batches, rows and gradients.
        dgl: names of contestants that use DGL's loop.
        seeds: seeds, one after another; contestants are interleaved epoch by epoch.
        evaluate_every: epochs between evaluations on the whole graph, whose time does not count; 0 for none.
    """
    from gnnqlab.launch.local import launch
    from gnnqlab.train.link import Link

    def prepare(folder: Path) -> None:
        write_plan(folder, contestants, dgl, seeds=seeds, evaluate_every=evaluate_every)

    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        with launch(config, root=root, prepare=prepare, fit=f"{__name__}:fit_in_turn") as run:
            run.wait()
            return read_found(run.folder, Link.from_folder(run.folder, config.workers).label)


def write_plan(
    folder: Path,
    contestants: Mapping[str, MiniBatchSettings],
    dgl: Sequence[str],
    *,
    seeds: Sequence[int],
    evaluate_every: int,
) -> None:
    """Write the plan that the workers read; for the arguments see :func:`run_in_turn`."""
    plan = {
        "contestants": {name: dataclasses.asdict(settings) for name, settings in contestants.items()},
        "dgl": list(dgl),
        "seeds": list(seeds),
        "evaluate_every": evaluate_every,
    }
    (folder / _PLAN).write_text(json.dumps(plan))


def read_found(folder: Path, link: str) -> list[Found]:
    """Read the results of the workers."""
    entries = json.loads((folder / _FOUND).read_text())
    return [Found(**{**entry, "epochs_s": tuple(entry["epochs_s"]), "link": link}) for entry in entries]


# -- in the workers -------------------------------------------------------------------------------------------------


def fit_in_turn(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train the contestants of a plan, instead of ``gnnqlab.train.loop.fit.fit``."""
    from gnnqlab.graph.sources import load
    from gnnqlab.message.transport.paced import Paced
    from gnnqlab.message.transport.transport import make_transport
    from gnnqlab.train.link import Link
    from gnnqlab.train.loop.fit import link_pacer

    heartbeat.phase("load", limit_s=_EPOCH_S)
    plan, graph = json.loads((folder / _PLAN).read_text()), load(config.graph)
    transport, pacer = (
        make_transport("direct", rank, workers),
        link_pacer(Link.from_folder(folder, workers), rank, workers, folder),
    )
    if pacer is not None:
        transport = Paced(transport, pacer)
    results = []
    for seed in plan["seeds"]:
        settings = dataclasses.replace(config.train, seed=seed)
        seed_config = dataclasses.replace(config, train=settings)
        loops = {name: _loop(plan, name, seed_config, graph, transport, rank, workers) for name in plan["contestants"]}
        results += _trained(loops, seed_config, graph, plan["evaluate_every"], rank, workers, heartbeat)
        for loop in loops.values():
            loop.close()
    if rank == 0:
        (folder / _FOUND).write_text(json.dumps([dataclasses.asdict(each) for each in results]))


def _loop(
    plan: Mapping[str, Any], name: str, config: RunConfig, graph: Any, transport: Any, rank: int, workers: int
) -> Any:
    """Return a contestant's loop on this worker; the seed also determines the random owners of nodes."""
    from gnnqlab.message.channels.remote_rows import RemoteRows
    from gnnqlab.message.codecs.codec import Float32
    from gnnqlab.partition.edge_cut import Random
    from gnnqlab.train.batches import MiniBatchSettings
    from gnnqlab.train.mini_batch import MiniBatchTrainer, own_rows

    settings = plan["contestants"][name]
    batches = MiniBatchSettings(**{**settings, "fanouts": tuple(settings["fanouts"])})
    owner = Random(seed=config.train.seed).assign(graph, workers)
    rows, place = own_rows(graph, owner, rank), {"rank": rank, "workers": workers}
    if name not in plan["dgl"]:
        return MiniBatchTrainer(graph, rows, owner, config.model, config.train, batches, transport=transport, **place)
    from benchmarks.kernels.dgl_batches import DglLoop

    features = RemoteRows(rows, owner, codec=Float32(), bits=32, transport=transport, **place)
    return DglLoop(graph, features, config.model, config.train, batches, **place)


def _trained(
    loops: Mapping[str, Any], config: RunConfig, graph: Any, evaluate_every: int, rank: int, workers: int,
    heartbeat: Heartbeat,
) -> list[Found]:  # fmt: skip
    import torch
    import torch.distributed as dist

    from gnnqlab.nn import LocalGraph
    from gnnqlab.train.loop.node_labels import label_objective
    from gnnqlab.train.loop.objective import Scores

    def max_seconds(seconds: float) -> float:
        maximum = torch.tensor(seconds, dtype=torch.float64)
        if workers > 1:
            dist.all_reduce(maximum, dist.ReduceOp.MAX)
        return float(maximum)

    epochs_s: dict[str, list[float]] = {name: [] for name in loops}
    scores: dict[str, list[Scores]] = {name: [] for name in loops}
    local_graph = LocalGraph(graph)
    local_graph.densify_features()
    objective = label_objective(graph)
    for epoch in range(config.train.epochs):
        heartbeat.phase("compute", epoch=epoch, limit_s=len(loops) * _EPOCH_S)
        for name, loop in loops.items():
            if workers > 1:
                dist.barrier()  # begin together, so that no worker's time includes another's previous contestant
            start = time.perf_counter()
            loop.epoch(epoch)
            epochs_s[name].append(max_seconds(time.perf_counter() - start))
        is_last = epoch == config.train.epochs - 1
        if rank == 0 and evaluate_every and (is_last or epoch % evaluate_every == 0):
            for name, loop in loops.items():
                scores[name].append(objective.scores(loop.logits(local_graph), distributed=False))
    results = []
    for name, loop in loops.items():
        sent_bytes = torch.tensor(
            (loop.features.sent.request_bytes + loop.features.sent.row_bytes) / config.train.epochs
        ).double()
        if workers > 1:
            dist.all_reduce(sent_bytes)
        best_scores = max(scores[name], key=lambda each: each.val, default=None)
        # Ring all-reduce: each worker sends 2 (P - 1) / P of the gradient, so all send 2 (P - 1) times its size.
        gradients = 2 * (workers - 1) * loop.gradient_bytes * loop.batches.steps
        results.append(
            Found(
                name=name,
                seed=config.train.seed,
                epochs_s=tuple(epochs_s[name]),
                sent_bytes=float(sent_bytes) + gradients,
                score=None if best_scores is None else best_scores.test,
            )
        )
    return results
