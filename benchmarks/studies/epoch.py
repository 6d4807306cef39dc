"""A whole epoch: ours on one worker compared with the same model in ``dgl.nn``, and the phases of two workers' time.

All train the same 3-layer model of 256 columns with the same dropout, LayerNorm and Adam on the same graph, in
interleaved epochs, each in its own process. With sparse features there are two lines: sparse input for both, and dense
input for both, because mixed input would compare a product over zeros with one without. A second rival also gets our
memory settings of the C library.
"""

from __future__ import annotations

import importlib.util
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import row
from benchmarks.studies.link import over_link

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["epoch"]

GRAPHS = ("coauthor_physics", "sbm:200000,16,50")
MODELS = ("gcn", "graphsage")
# (rival, input) -> least speed-up.
GOALS = {("dgl.nn", "sparse input"): 1.8, ("dgl.nn", "dense input"): 1.8, ("dgl.nn, pages kept", "dense input"): 3.0}

EXPLAINED = "share of the epoch that named phases explain"


class Contender(NamedTuple):
    """Contestant of the measurement, in its own process."""

    dgl: bool = False
    """True for ``dgl.nn``, False for this package."""
    sparse: bool = False
    """True for sparse input features."""
    pages: bool = True
    """True to apply our memory settings of the C library."""

    def prepare(self, path: str, model: str) -> Callable[[int], object]:
        """Set up a graph and a model and return a call that trains one epoch."""
        from gnnqlab.graph import load
        from gnnqlab.nn import ModelSettings
        from gnnqlab.simulation.whole_graph import exact_trainer

        if self.dgl:
            return _dgl(path, model, sparse=self.sparse)
        return exact_trainer(load(path), ModelSettings(name=model), dense=not self.sparse).epoch


def epoch(
    repeats: int | None = None,
    *,
    link: str | None = None,
    comm_share: float | None = None,
    hosts: int | None = None,
    workers: tuple[int, ...] | None = None,
    graph: str | None = None,
    models: tuple[str, ...] | None = None,
    epochs: int | None = None,
    seeds: int | None = None,
    first_seed: int | None = None,
) -> list[dict[str, Any]]:
    """Measure epochs; ``coauthor_physics`` must be in the data root or in ``shared/data``.

    Args:
        repeats: interleaved repeats; 5 by default, 1 over a link.
        link, comm_share: with one of them, compare systems over a link between emulated hosts
            (:func:`benchmarks.studies.link.over_link`); ``hosts`` to ``first_seed`` apply only then.
        graph: over a link its name or path, see there; without one several, separated by semicolons, by default
            `GRAPHS`, without missing ones.
        models: names of models; over a link any, without one those of `MODELS`, which have a rival here.
        hosts, workers, epochs, seeds, first_seed: see there.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.

    Raises:
        ValueError: if an option of a link is used without one, or a model has no rival here.
    """
    link_options = {"hosts": hosts, "workers": workers, "epochs": epochs, "seeds": seeds, "first_seed": first_seed}
    options: dict[str, Any] = {name: value for name, value in link_options.items() if value is not None}
    if link is not None or comm_share is not None:
        selections = {"graph": graph, "models": models}
        options |= {name: value for name, value in selections.items() if value is not None}
        return over_link(repeats or 1, link=link, comm_share=comm_share, **options)
    if options:
        raise ValueError(f"bench epoch takes {sorted(options)} together with a link only; add --link or --comm-share")
    if unknown_models := set(models or ()) - set(MODELS):
        raise ValueError(
            f"models of bench epoch must be of {', '.join(MODELS)}, got {', '.join(sorted(unknown_models))}"
        )
    repeats = 5 if repeats is None else repeats
    rows = []
    for name in graph.split(";") if graph else GRAPHS:
        path = find_graph(name) or (name if graph else None)
        if path is None:
            print(f"bench epoch: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        rows += _one_worker(name, path, repeats, models or MODELS)  # rows of one worker, then of two
        rows += _two_workers(name, path)
    return rows


def _one_worker(name: str, path: str, repeats: int, models: tuple[str, ...] = MODELS) -> list[dict[str, Any]]:
    """Return a line for sparse input of both contestants, if the graph has it, and one for dense input of both."""
    from gnnqlab.graph import load
    from gnnqlab.graph.features import SparseRows

    inputs = ["dense input"]
    if isinstance(load(path).features, SparseRows):  # a sparse graph is measured with both inputs
        inputs.insert(0, "sparse input")
    rows = []
    for model in models:
        for input_kind in inputs:
            rows += _compare_with_dgl(name, path, model, input_kind, repeats)
    return rows


def _compare_with_dgl(name: str, path: str, model: str, input_kind: str, repeats: int) -> list[dict[str, Any]]:
    is_sparse = input_kind == "sparse input"
    contestants = {"ours": Contender(sparse=is_sparse)}
    if importlib.util.find_spec("dgl") is not None:
        # DGL with the usual settings of the C library
        contestants["dgl.nn"] = Contender(dgl=True, sparse=is_sparse, pages=False)
        contestants["dgl.nn, pages kept"] = Contender(dgl=True, sparse=is_sparse)  # DGL with ours
    seconds = _time_epochs(contestants, path, model, repeats)
    case = f"{name}, {model}, {input_kind}, one worker, {len(os.sched_getaffinity(0))} thread(s)"
    epoch_s, rows = statistics.median(seconds["ours"]), []
    for rival in [name for name in seconds if name != "ours"] or [""]:  # without DGL one row without a rival
        span = _span(seconds["ours"])
        rival_columns: tuple[Any, ...] = ("DGL is not installed", None, None)
        if rival:
            rival_s, span = statistics.median(seconds[rival]), f"{span}; rival {_span(seconds[rival])}"
            rival_columns = (rival, rival_s, rival_s / epoch_s, GOALS.get((rival, input_kind)))
        rows.append(row(case, "epoch", epoch_s, "s", *rival_columns, detail=f" ({span})"))
    return rows


def _span(seconds: list[float]) -> str:
    return f"{min(seconds):.3g} to {max(seconds):.3g} s"


def _time_epochs(contestants: Mapping[str, Contender], path: str, model: str, repeats: int) -> dict[str, list[float]]:
    """Return seconds of each contestant's interleaved epochs, each in its own process, after two warm-ups."""
    from gnnqlab.train.memory import large_pages

    context = multiprocessing.get_context("spawn")
    lines, processes = {}, []
    for name, contestant in contestants.items():
        lines[name], child_line = context.Pipe()
        # a process of its own: settings of the C library apply to the whole process
        processes.append(context.Process(target=_contest, args=(contestant, path, model, child_line), daemon=True))
        with mock.patch.dict(os.environ, large_pages(os.environ) if contestant.pages else {}):
            processes[-1].start()
        lines[name].recv()  # set up one after another, so that none is measured while another loads
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(repeats + 2):
        for name, line in lines.items():
            line.send(number)
            epoch_s = line.recv()  # wait for the epoch before the next contestant begins
            if number > 1:  # two warm-ups
                seconds[name].append(epoch_s)
    for line, process in zip(lines.values(), processes, strict=True):
        line.send(None)  # None ends the process
        process.join()
    return seconds


def _contest(contestant: Contender, path: str, model: str, line: Any) -> None:
    from gnnqlab.train.memory import keep_pages

    if contestant.pages:  # before PyTorch allocates
        keep_pages()
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    run = contestant.prepare(path, model)
    line.send("ready")
    while (number := line.recv()) is not None:
        start = time.perf_counter()
        run(number)
        line.send(time.perf_counter() - start)


def _dgl(path: str, model: str, *, sparse: bool) -> Callable[[int], object]:
    import torch

    from benchmarks.kernels.dgl_rival import Rival, as_csr, structure_of
    from gnnqlab.graph import load
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.loop.node_labels import label_objective

    graph = load(path)
    objective, shape = label_objective(graph), (graph.num_features, graph.num_classes)
    network = Rival(structure_of(graph), model, ModelSettings(name=model), *shape, sparse=sparse)
    if sparse:
        features = as_csr(graph)
    else:
        features = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)

    def train(_: int) -> None:
        optimizer.zero_grad()
        objective.loss(network(features)).backward()
        optimizer.step()

    return train


def _two_workers(name: str, path: str) -> list[dict[str, Any]]:
    from gnnqlab.launch.local import launch
    from gnnqlab.train.config.configure import configure

    with tempfile.TemporaryDirectory() as root:
        run = launch(configure(path, workers=2, epochs=6, evaluate_every=0), root=root, wait=True)  # without evaluation
        frame = run.records
    return _phase_shares(f"{name}, gcn, vanilla, two workers", frame[frame["epoch"] > 0])


def _phase_shares(case: str, records: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the share of every named phase in the epoch, and the sum of these shares."""
    from gnnqlab.train.loop.phase_timer import PARTS, PHASES

    # phases that are split count by their parts
    names = [part for phase in PHASES for part in PARTS.get(phase, (phase,)) if part not in ("evaluate", "other")]
    total_s = float(records["epoch_s"].sum())
    shares = {phase: float(records[f"{phase}_s"].sum()) / total_s for phase in names}  # share of the epoch's seconds
    share_sum = sum(shares.values())
    return [
        *(row(case, f"share of the epoch: {phase}", share, "", "", None, None) for phase, share in shares.items()),
        row(case, EXPLAINED, share_sum, "", "the epoch by the wall clock", 1.0, share_sum, 0.95),
    ]
