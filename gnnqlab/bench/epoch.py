"""A whole epoch: ours on one worker beside the same model in ``dgl.nn``, and where two workers' time goes.

Both train the same 3-layer model of width 256 with the same dropout, LayerNorm and Adam on the same graph in the
same process, epoch by epoch in turn. The rival gets the features as DGL takes them, dense.
"""

from __future__ import annotations

import itertools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnnqlab.bench.registry import row

__all__ = ["epoch"]

GRAPHS = ("coauthor_physics", "sbm:200000,16,50")
GOAL = 1.8


def epoch(repeats: int = 5, graphs: tuple[str, ...] = GRAPHS) -> list[dict[str, Any]]:
    """Measure epochs; ``coauthor_physics`` is looked for among downloaded data and in ``shared/data``.

    Returns:
        Rows as :func:`gnnqlab.bench.registry.measure` describes them.
    """
    rows = []
    for name in graphs:
        path = _find(name)
        if path is None:
            print(f"bench epoch: {name}.npz is not here, so its rows are left out", flush=True)
            continue
        rows += _one_worker(name, path, repeats)
        rows += _two_workers(name, path)
    return rows


def _one_worker(name: str, path: str, repeats: int) -> list[dict[str, Any]]:
    import torch

    from gnnqlab.graph import load
    from gnnqlab.nn import LocalGraph, ModelSettings, build_model
    from gnnqlab.train.config import TrainSettings
    from gnnqlab.train.objective import Objective
    from gnnqlab.train.trainer import Trainer

    graph = load(path)
    rows = []
    for model in ("gcn", "graphsage"):
        settings = ModelSettings(name=model)
        local = LocalGraph(graph)
        network = build_model(settings, graph.num_features, graph.num_classes, seed=0)
        trainer = Trainer(local, Objective.of(graph), network, TrainSettings())
        contestants: dict[str, Callable[[int], object]] = {"ours": trainer.epoch}
        try:
            contestants["dgl"] = _dgl_epoch(graph, settings, trainer.objective)
        except ImportError as error:
            print(f"bench epoch: DGL does not import ({error}); ours stands alone", flush=True)
        seconds = _interleaved(contestants, repeats)
        ours, rival = statistics.median(seconds["ours"]), None
        if "dgl" in seconds:
            rival = statistics.median(seconds["dgl"])
        rows.append(
            row(
                f"{name}, {model}, one worker, {torch.get_num_threads()} thread(s)",
                f"epoch ({min(seconds['ours']):.3g} to {max(seconds['ours']):.3g} s)",
                ours,
                "s",
                "dgl.nn, one process",
                rival,
                None if rival is None else rival / ours,
                GOAL,
            )
        )
    return rows


def _dgl_epoch(graph: Any, settings: Any, objective: Any) -> Callable[[int], object]:
    import dgl
    import torch
    from dgl.nn.pytorch import GraphConv, SAGEConv
    from torch import nn
    from torch.nn import functional

    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    structure = dgl.graph((graph.indices.long(), destination), num_nodes=graph.num_nodes)
    structure.create_formats_()
    features = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
    widths = settings.widths(graph.num_features, graph.num_classes)

    class Rival(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            pairs = list(itertools.pairwise(widths))
            if settings.name == "gcn":
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

    model = Rival()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

    def train(_: int) -> None:
        optimizer.zero_grad()
        objective.loss(model(features)).backward()
        optimizer.step()

    return train


def _interleaved(contestants: dict[str, Callable[[int], object]], repeats: int) -> dict[str, list[float]]:
    """Return seconds of each contestant's epochs, taken in turn after one warm-up each."""
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(repeats + 1):
        for name, run in contestants.items():
            begun = time.perf_counter()
            run(number)
            if number:
                seconds[name].append(time.perf_counter() - begun)
    return seconds


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


def _find(name: str) -> str | None:
    from gnnqlab.graph.sources.where import data_root

    if ":" in name:
        return name
    places = [Path(data_root()), Path("shared/data"), Path("../shared/data")]
    return next((str(path) for place in places if (path := place / f"{name}.npz").exists()), None)
