"""METIS compared with other partitioners of edge-cuts: rows sent, cut edges, balance, time and memory.

KaMinPar (Gottesbüren et al., ESA 2021) and Mt-KaHyPar (Gottesbüren et al., 2024) take part where their packages import.
Mt-KaHyPar minimises cut edges in one row, and in another the rows sent, as partition ``mt-kahypar`` does. All have
METIS's limit of imbalance, and one thread. "METIS, quick" is the cut of estimates.

Every cut is made in a new process, so that its peak memory is its own. For four and more workers, half of them on each
of two hosts, an epoch of GCN with METIS's cut is trained with rows that are sent once to each other host, and without:
the bytes between hosts are counted from the messages of all workers, and compared with the rows of the cut.
"""

from __future__ import annotations

import multiprocessing
import resource
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graphs
from benchmarks.engine.rows import row

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["PARTITIONERS", "partitioners"]

GRAPHS = ("amazon_computers", "coauthor_physics", "tolokers", "sbm:20000,8,20")
WORKERS = (2, 4, 8)
IMBALANCE = 0.03
"""Largest part over the mean, less 1, as in METIS."""
METIS_CUT = "METIS, cut"
"""Rival in every row: the partitioner of most systems."""
ONCE = "METIS, rows; once to each host"
APART = "METIS, rows; to each worker"
"""Rival of `ONCE`: the same cut, and a copy of a row for each of its receivers."""


def _metis(graph: Graph, workers: int, objective: str) -> Any:
    from gnnqlab.partition import METIS

    return METIS(objective=objective).assign(graph, workers)


def _metis_quick(graph: Graph, workers: int) -> Any:
    from gnnqlab.partition import METIS

    return METIS().quick_cut(graph, workers).owner


def _neighbours(graph: Graph) -> Any:
    """Return the undirected graph without self loops as CSR, int32."""
    import torch

    from gnnqlab.partition.metis import MetisEdges

    source, destination = graph.indices, torch.repeat_interleave(graph.in_degrees).int()
    no_loop = source != destination
    return MetisEdges(source[no_loop], destination[no_loop], graph.num_nodes).both_ways()


def _kaminpar(graph: Graph, workers: int) -> Any:
    import kaminpar
    import numpy as np

    indptr, indices = _neighbours(graph)
    kaminpar.reseed(0)
    with tempfile.TemporaryDirectory() as folder:
        # The package reads graphs from files only: a line per node with its neighbours, from 1.
        path = Path(folder) / "graph.metis"
        lines = (" ".join(map(str, part)) for part in np.split(indices + 1, indptr[1:-1]))
        path.write_text("\n".join([f"{graph.num_nodes} {len(indices) // 2}", *lines]) + "\n", encoding="ascii")
        loaded_graph = kaminpar.load_graph(str(path), kaminpar.GraphFileFormat.METIS)
    return kaminpar.KaMinPar(1, kaminpar.default_context()).compute_partition(loaded_graph, workers, IMBALANCE)


def _kahypar_cut(graph: Graph, workers: int) -> Any:
    import mtkahypar
    import numpy as np

    library = mtkahypar.initialize(1, False)
    mtkahypar.set_seed(0)
    context = library.context_from_preset(mtkahypar.PresetType.DETERMINISTIC)
    context.set_partitioning_parameters(workers, IMBALANCE, mtkahypar.Objective.CUT)
    context.logging = False
    indptr, indices = _neighbours(graph)
    source = np.repeat(np.arange(graph.num_nodes), np.diff(indptr))
    once = source < indices
    edges = list(zip(source[once].tolist(), indices[once].tolist(), strict=True))
    return library.create_graph(context, graph.num_nodes, len(edges), edges).partition(context).get_partition()


def _kahypar_rows(graph: Graph, workers: int) -> Any:
    from gnnqlab.partition.mt_kahypar import MtKaHyPar

    return MtKaHyPar().cut(graph, workers).owner


def _random(graph: Graph, workers: int) -> Any:
    from gnnqlab.partition import Random

    return Random().assign(graph, workers)


PARTITIONERS: dict[str, tuple[str, Callable[..., Any], tuple[str, ...]]] = {
    METIS_CUT: ("pymetis", _metis, ("cut",)),
    "METIS, rows": ("pymetis", _metis, ("vol",)),
    "METIS, quick": ("pymetis", _metis_quick, ()),
    "KaMinPar": ("kaminpar", _kaminpar, ()),
    "Mt-KaHyPar, cut": ("mtkahypar", _kahypar_cut, ()),
    "Mt-KaHyPar, rows": ("mtkahypar", _kahypar_rows, ()),
    "random": ("torch", _random, ()),
}
"""Name -> package that must import, function ``(graph, workers, *arguments)`` of the owners, and its arguments."""


def partitioners(*, graph: str | None = None, workers: Sequence[int] = WORKERS) -> list[dict[str, Any]]:
    """Partition every graph with every partitioner.

    Args:
        graph: names or paths, separated by semicolons; by default those of `GRAPHS` that exist here.
        workers: numbers of parts.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`; a ratio above 1 means less than METIS, or faster.
    """
    rows: list[dict[str, Any]] = []
    names = [name for name, (package, _, _) in PARTITIONERS.items() if find_spec(package)]
    if missing := sorted({package for package, _, _ in PARTITIONERS.values() if not find_spec(package)}):
        print(f"bench partitioners: {', '.join(missing)} cannot be imported, so their rows are omitted", flush=True)
    for source in find_graphs(graph, GRAPHS, between=";"):
        name = Path(source).stem if source.endswith(".npz") else source
        for count in workers:
            figures = {each: _in_new_process(each, source, count) for each in names}
            for contestant, measured in figures.items():
                for metric, (value, unit) in measured.items():
                    rival = figures[METIS_CUT][metric][0]
                    ratio = rival / value if value else None
                    place = f"{name}, {count} workers"
                    rows.append(row(place, metric, value, unit, METIS_CUT, rival, ratio, contestant=contestant))
            if count >= 4 and count % 2 == 0:
                rows += relay_rows(name, source, count)
            print(f"bench partitioners: {name}, {count} workers done", flush=True)
    return rows


def relay_rows(name: str, source: str, workers: int) -> list[dict[str, Any]]:
    """Count the bytes of one epoch between two hosts, with rows that are sent once to each host and without.

    Args:
        name: name of the graph in the rows.
        source: name or path of the graph.
        workers: P, even.

    Returns:
        Bytes forward, in both directions, and rows of the cut that are saved in each exchange forward.

    Example:
        >>> once = relay_rows("small", "sbm:60,3,6", 4)
        >>> [(one["metric"], one["value"] < one["rival_value"]) for one in once]
        [('bytes between hosts, forward', True), ('bytes between hosts', True), ('rows between hosts', True)]
    """
    from dataclasses import replace

    from gnnqlab.exchange.halo.exchange import Halo
    from gnnqlab.graph.sources import load
    from gnnqlab.nn import ModelSettings
    from gnnqlab.partition.parts import partition
    from gnnqlab.simulation.threaded_workers import ThreadedWorkers
    from gnnqlab.systems import vanilla
    from gnnqlab.train.config.run_config import TrainSettings

    graph, per_host = load(source), workers // 2
    parts = partition(graph, hosts=2, per_host=per_host)
    sent_bytes: dict[str, dict[str, int]] = {}
    for contestant, exchange in ((ONCE, Halo(hierarchical=True, hosts=2)), (APART, Halo())):
        system = replace(vanilla(), exchange=exchange)
        threads = ThreadedWorkers(graph, parts.cut, system, ModelSettings(layers=3, hidden=64), TrainSettings())
        threads.step(0)
        counts = dict.fromkeys(("forward", "backward"), 0)
        for message in (each for one in threads.trainers for each in one.take_arrivals()):
            is_outer = message.sender // per_host != message.receiver // per_host
            counts[message.direction] += is_outer * message.layout.num_bytes
        sent_bytes[contestant] = counts
    (once, apart), quality = sent_bytes.values(), parts.quality
    figures = {
        "bytes between hosts, forward": (once["forward"], apart["forward"], "B"),
        "bytes between hosts": (sum(once.values()), sum(apart.values()), "B"),
        "rows between hosts": (quality.outer - quality.repeated_outer, quality.outer, ""),
    }
    place = f"{name}, {workers} workers on 2 hosts"
    return [
        row(place, metric, value, unit, APART, rival, rival / value if value else None, contestant=ONCE)
        for metric, (value, rival, unit) in figures.items()
    ]


def _in_new_process(name: str, source: str, workers: int) -> dict[str, tuple[float, str]]:
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        return pool.submit(measure_cut, name, source, workers).result()


def measure_cut(name: str, source: str, workers: int) -> dict[str, tuple[float, str]]:
    """Return the figures of one cut, metric -> value and unit.

    Args:
        name: a key of `PARTITIONERS`.
        source: name or path of a graph.
        workers: P.

    Example:
        >>> figures = measure_cut("random", "sbm:60,3,6", 2)
        >>> figures["rows sent per exchange"][0] <= 60, figures["largest part / mean"][0] < 1.1
        (True, True)
    """
    import torch

    from gnnqlab.graph.sources import load
    from gnnqlab.partition.cut import NodeCut
    from gnnqlab.partition.quality import measure_quality

    graph = load(source)
    _, run, arguments = PARTITIONERS[name]
    memory, start = _peak_bytes(), time.process_time()
    owner = torch.as_tensor(run(graph, workers, *arguments), dtype=torch.int64)
    seconds, memory = time.process_time() - start, _peak_bytes() - memory
    cut = NodeCut(owner=owner, workers=workers)
    quality = measure_quality(list(cut.build_shards(graph)))
    return {
        "rows sent per exchange": (quality.inner + quality.outer, ""),
        "edges between workers": (quality.edge_cut, ""),
        "largest part / mean": (quality.node_imbalance, ""),
        "processor time": (seconds, "s"),
        "further memory": (memory, "B"),
    }


def _peak_bytes() -> int:
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # Linux counts in KiB
