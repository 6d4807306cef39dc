"""A whole epoch: ours on one worker beside the same model in ``dgl.nn``, and where two workers' time goes.

All train the same 3-layer model of width 256 with the same dropout, LayerNorm and Adam on the same graph, epoch by
epoch in turn, each in a process of its own. The rival gets the features as DGL takes them, dense; a second one also
gets what ours tells the C library about memory.
"""

from __future__ import annotations

import importlib.util
import itertools
import multiprocessing
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

from gnnqlab.bench.environ import environ
from gnnqlab.bench.graphs import find_graph
from gnnqlab.bench.link import over_link
from gnnqlab.bench.registry import row

__all__ = ["epoch"]

GRAPHS = ("coauthor_physics", "sbm:200000,16,50")
GOAL = 1.8

Prepare = Callable[[str, str], Callable[[int], object]]
"""Sets up (graph, model) and returns what trains one epoch."""


def epoch(
    repeats: int | None = None,
    *,
    link: str | None = None,
    comm_share: float | None = None,
    hosts: int | None = None,
    workers: tuple[int, ...] | None = None,
    graph: str | None = None,
    epochs: int | None = None,
    seeds: int | None = None,
) -> list[dict[str, Any]]:
    """Measure epochs; ``coauthor_physics`` is looked for among downloaded data and in ``shared/data``.

    Args:
        repeats: interleaved repeats; 5 by default, 3 over a link.
        link, comm_share: with one of them systems are measured side by side over a link between emulated hosts
            (:func:`gnnqlab.bench.link.over_link`), where the other options belong.
        hosts, workers, graph, epochs, seeds: see there.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them.

    Raises:
        ValueError: if an option that belongs to a link comes without one.
    """
    own = {"hosts": hosts, "workers": workers, "graph": graph, "epochs": epochs, "seeds": seeds}
    given: dict[str, Any] = {name: value for name, value in own.items() if value is not None}
    if link is not None or comm_share is not None:
        return over_link(repeats or 3, link=link, comm_share=comm_share, **given)
    if given:
        raise ValueError(f"bench epoch takes {sorted(given)} together with a link only; add --link or --comm-share")
    repeats = 5 if repeats is None else repeats
    rows = []
    for name in GRAPHS:
        path = find_graph(name)
        if path is None:
            print(f"bench epoch: {name}.npz is not here, so its rows are left out", flush=True)
            continue
        rows += _one_worker(name, path, repeats)
        rows += _two_workers(name, path)
    return rows


def _one_worker(name: str, path: str, repeats: int) -> list[dict[str, Any]]:
    rows = []
    for model in ("gcn", "graphsage"):
        contestants: dict[str, Prepare] = {"ours": _ours}
        if importlib.util.find_spec("dgl") is not None:
            contestants |= {"dgl.nn": _dgl, "dgl.nn, pages kept": _dgl_with_pages_kept}
        seconds = _in_turn(contestants, path, model, repeats)
        ours = statistics.median(seconds["ours"])
        rivals: list[str | None] = [name for name in seconds if name != "ours"]
        for rival in rivals or [None]:
            other = None if rival is None else statistics.median(seconds[rival])
            rows.append(
                row(
                    f"{name}, {model}, one worker, {len(os.sched_getaffinity(0))} thread(s)",
                    f"epoch ({min(seconds['ours']):.3g} to {max(seconds['ours']):.3g} s)",
                    ours,
                    "s",
                    rival or "DGL is not installed",
                    other,
                    None if other is None else other / ours,
                    GOAL if rival == "dgl.nn" else None,
                )
            )
    return rows


def _in_turn(contestants: Mapping[str, Prepare], path: str, model: str, repeats: int) -> dict[str, list[float]]:
    """Return seconds of each contestant's epochs, taken in turn, each in a process of its own, after two warm-ups."""
    from gnnqlab.train.memory import large_pages

    context = multiprocessing.get_context("spawn")
    lines, processes = {}, []
    for name, prepare in contestants.items():
        lines[name], theirs = context.Pipe()
        processes.append(context.Process(target=_contest, args=(prepare, path, model, theirs), daemon=True))
        with environ({} if prepare is _dgl else large_pages(os.environ)):
            processes[-1].start()
        lines[name].recv()  # one sets up at a time, so that none is measured while another loads
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(repeats + 2):
        for name, line in lines.items():
            line.send(number)
            taken = line.recv()
            if number > 1:
                seconds[name].append(taken)
    for line, process in zip(lines.values(), processes, strict=True):
        line.send(None)
        process.join()
    return seconds


def _contest(prepare: Prepare, path: str, model: str, line: Any) -> None:
    from gnnqlab.train.memory import keep_pages

    if prepare is not _dgl:
        keep_pages()
    import torch

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    run = prepare(path, model)
    line.send("ready")
    while (number := line.recv()) is not None:
        begun = time.perf_counter()
        run(number)
        line.send(time.perf_counter() - begun)


def _ours(path: str, model: str) -> Callable[[int], object]:
    from gnnqlab.graph import load
    from gnnqlab.nn import LocalGraph, ModelSettings, build_model
    from gnnqlab.train.config import TrainSettings
    from gnnqlab.train.objective import Objective
    from gnnqlab.train.trainer import Trainer

    graph = load(path)
    network = build_model(ModelSettings(name=model), graph.num_features, graph.num_classes, seed=0)
    return Trainer(LocalGraph(graph), Objective.of(graph), network, TrainSettings()).epoch


def _dgl_with_pages_kept(path: str, model: str) -> Callable[[int], object]:
    """DGL with the C library told what ours tells it."""
    return _dgl(path, model)


def _dgl(path: str, model: str) -> Callable[[int], object]:
    import dgl
    import torch
    from dgl.nn.pytorch import GraphConv, SAGEConv
    from torch import nn
    from torch.nn import functional

    from gnnqlab.graph import load
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.objective import Objective

    graph, settings = load(path), ModelSettings(name=model)
    objective = Objective.of(graph)
    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    structure = dgl.graph((graph.indices.long(), destination), num_nodes=graph.num_nodes)
    structure.create_formats_()
    features = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
    widths = settings.widths(graph.num_features, graph.num_classes)

    class Rival(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise(widths))
            if model == "gcn":
                self.convolutions = nn.ModuleList(GraphConv(*pair, norm="both") for pair in pairs)
            else:
                self.convolutions = nn.ModuleList(SAGEConv(*pair, "mean") for pair in pairs)
            self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:-1])

        def forward(self, h: torch.Tensor) -> torch.Tensor:
            for index, convolution in enumerate(self.convolutions):
                if index > 0:
                    h = functional.dropout(h, settings.dropout)
                h = convolution(structure, h)
                if index < len(self.norms):
                    h = functional.relu(self.norms[index](h))
            return h

    network = Rival()
    optimizer = torch.optim.Adam(network.parameters(), lr=0.01)

    def train(_: int) -> None:
        optimizer.zero_grad()
        objective.loss(network(features)).backward()
        optimizer.step()

    return train


def _two_workers(name: str, path: str) -> list[dict[str, Any]]:
    from gnnqlab.launch.local import launch
    from gnnqlab.train.configure import configure

    with tempfile.TemporaryDirectory() as root:
        run = launch(configure(path, workers=2, epochs=6, evaluate_every=0), root=root, wait=True)
        frame = run.records
    settled = frame[frame["epoch"] > 0]
    phases = [
        column
        for column in settled.columns
        if column.endswith("_s") and column not in ("time_s", "epoch_s", "wire_s", "evaluate_s", "other_s")
    ]
    named = settled[phases].sum(axis=1).sum()
    whole = settled["epoch_s"].sum()
    share = float(named / whole)
    return [
        row(
            f"{name}, gcn, vanilla, two workers",
            "share of the epoch that named phases explain",
            share,
            "",
            "the epoch by the wall clock",
            1.0,
            share,
            0.95,
        )
    ]
