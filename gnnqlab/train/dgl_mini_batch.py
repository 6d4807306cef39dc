"""Mini-batch training with neighbours sampled by DGL, in one process: a reference for full-graph training.

Equal to full-graph runs: model, initial weights, graph, seed, optimizer and number of epochs; DGL samples the batches,
gnnqlab's kernels compute the products. Different: it is not distributed, has one compute thread and no link, takes one
step per batch instead of one per epoch, and needs the whole graph in one memory. Scores are computed on the whole
graph with all neighbours, and their time does not count, as elsewhere.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from gnnqlab.graph.graph import Graph
from gnnqlab.nn.blocks import MODELS, Block, BlockWeights, forward
from gnnqlab.nn.message_passing import LocalGraph
from gnnqlab.nn.models.registry import build_model
from gnnqlab.nn.models.stack import ConvolutionStack
from gnnqlab.train.config.run_config import RunConfig, TrainSettings
from gnnqlab.train.loop.node_labels import NodeLabels, label_objective
from gnnqlab.train.records.record import RECORD_COLUMNS, TRAFFIC_COLUMNS

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["MiniBatch", "unavailable_reason"]


@dataclass(frozen=True, kw_only=True)
class MiniBatch:
    """Size and fanout of the batches of the reference."""

    fanout: int = 10
    """In-neighbours sampled per node and layer, without replacement; all of a node with fewer."""
    batch_size: int = 1024
    """Training nodes in a batch."""

    def __post_init__(self) -> None:
        if self.fanout < 1 or self.batch_size < 1:
            raise ValueError(f"fanout and batch_size must be at least 1, got {self.fanout} and {self.batch_size}")

    def train(self, graph: Graph, config: RunConfig) -> BaselineRun:
        """Train in this process.

        Args:
            graph: the one that ``config`` names.
            config: of a run of the comparison, for its model, seed, epochs and learning rate.

        Raises:
            RuntimeError: if DGL is not installed or mini-batches do not support the model; see
                :func:`unavailable_reason`.
        """
        reason = unavailable_reason(config)
        if reason:
            raise RuntimeError(f"no mini-batch reference: {reason}")
        # The caller's generator and threads are restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.train.seed)  # for dropout; DGL has its own generator
            threads = torch.get_num_threads()
            torch.set_num_threads(1)  # torch and DGL each load an OpenMP: threads of both would wait for each other
            try:
                return BaselineRun(*_train(graph, config, self))
            finally:
                torch.set_num_threads(threads)


@dataclass(frozen=True)
class BaselineRun:
    """Measurements in the form of a run, so that comparisons and reports can show them next to real runs."""

    records: DataFrame
    traffic: DataFrame
    config: dict[str, Any]
    summary: dict[str, Any]


def unavailable_reason(config: RunConfig) -> str:
    """Return the reason why this reference is not available; empty if it is."""
    if config.model.name not in MODELS:
        return f"it supports the models {', '.join(MODELS)}, got {config.model.name}"
    if importlib.util.find_spec("dgl") is None:
        return "DGL, which samples the neighbours, is not installed"
    settings, defaults = asdict(config.train), asdict(TrainSettings())
    for name in ("lr_schedule", "warmup_epochs", "max_gradient_norm", "patience"):
        if settings[name] != defaults[name]:
            return f"its training has no {name}, got {settings[name]!r}"
    for name, setting in (("class_weights", config.task.class_weights), ("objective", config.task.objective)):
        if setting:
            return f"its loss has no {name}, got {setting!r}"
    return ""


def _train(
    graph: Graph, config: RunConfig, settings: MiniBatch
) -> tuple[DataFrame, DataFrame, dict[str, Any], dict[str, Any]]:
    import pandas as pd

    local_graph = LocalGraph(graph, seed=config.train.seed)
    local_graph.densify_features()
    assert isinstance(local_graph.features, Tensor)
    if graph.is_regression:
        raise ValueError(
            f"mini-batches train classes, got numbers to predict in graph {graph.name!r}; use full-graph runs"
        )
    objective = label_objective(graph)
    assert isinstance(objective, NodeLabels)
    network = build_model(config.model, graph.num_features, graph.num_classes, seed=config.train.seed)
    assert isinstance(network, ConvolutionStack)
    optimizer = torch.optim.Adam(network.parameters(), lr=config.train.lr, weight_decay=config.train.weight_decay)
    batches = _Batches(graph, layers=config.model.layers, settings=settings, seed=config.train.seed)
    rows, run_start = [], time.perf_counter()
    for epoch in range(config.train.epochs):
        epoch_start, loss = time.perf_counter(), 0.0
        network.train()
        for seeds, inputs, blocks in batches:
            optimizer.zero_grad()
            # (inputs, F) -> (seeds, C)
            logits = forward(
                network, blocks, local_graph.features[inputs], drop=lambda h, p, *_: functional.dropout(h, p)
            )
            batch_loss = _loss(logits, objective.labels[seeds], multi_label=graph.multi_label)
            # The gradient is a mean over the batch, the reported loss a mean over all training nodes.
            (batch_loss / len(seeds)).backward()
            optimizer.step()
            loss += float(batch_loss.detach()) / objective.global_train
        epoch_s = time.perf_counter() - epoch_start
        scores = None
        period = config.train.evaluate_every
        if epoch == config.train.epochs - 1 or (period and epoch % period == 0):
            with torch.no_grad():
                evaluation_logits = network(local_graph.open_pass(epoch, training=False), local_graph.features)
            scores = objective.scores(evaluation_logits, distributed=False)
        rows.append(
            {
                **dict.fromkeys(RECORD_COLUMNS, 0.0),  # without exchange, most columns are 0
                "energy_j": float("nan"),  # not measured
                "epoch": epoch,
                "rank": 0,
                "time_s": time.perf_counter() - run_start,
                "loss": loss,
                "train_score": scores.train if scores else float("nan"),
                "val_score": scores.val if scores else float("nan"),
                "test_score": scores.test if scores else float("nan"),
                "epoch_s": epoch_s,
                "dense_s": epoch_s,
            }
        )
    records = pd.DataFrame(rows, columns=list(RECORD_COLUMNS))
    config_json = config.to_json()
    config_json["system"]["name"], config_json["workers"] = "mini-batch", 1
    summary = _summary(records, config_json, metric="test_f1_micro" if graph.multi_label else "test_accuracy")
    return records, pd.DataFrame(columns=list(TRAFFIC_COLUMNS)), config_json, {**summary, **vars(settings)}


def _summary(records: DataFrame, config: dict[str, Any], *, metric: str) -> dict[str, Any]:
    # Medians omit the first epoch, which includes set-up.
    steady_records = records[records["epoch"] > 0] if len(records) > 1 else records
    evaluated_records = records.dropna(subset=["val_score"])
    best_record = evaluated_records.loc[evaluated_records["val_score"].idxmax()] if len(evaluated_records) else None
    return {
        "run": None,
        "system": "mini-batch",
        "model": config["model"]["name"],
        "graph": config["graph"],
        "workers": 1,
        "epochs": len(records),
        metric: None if best_record is None else float(best_record["test_score"]),
        "best_val": None if best_record is None else float(best_record["val_score"]),
        "best_epoch": None if best_record is None else int(best_record["epoch"]),
        "train_s": float(records["epoch_s"].sum()),
        "epoch_s": float(steady_records["epoch_s"].median()),
        "comm_s": 0.0,
        "comp_s": float(steady_records["dense_s"].median()),
        "quant_s": 0.0,
        "assign_s": 0.0,
        "bytes_sent": 0,
        "bytes_payload": 0,
        "bytes_params": 0,
        "final_loss": float(records["loss"].iloc[-1]),
        "wall_s": float(records["time_s"].max()),
        "peak_memory_bytes": None,
        "link": "none: one process",
    }


class _Batches:
    """Iterable over one epoch's batches; every iteration shuffles the training nodes and samples neighbours again."""

    def __init__(self, graph: Graph, *, layers: int, settings: MiniBatch, seed: int) -> None:
        import dgl

        dgl.seed(seed)
        # DGL needs one dtype for both arrays, and indptr is int64.
        self._graph = dgl.graph(("csc", (graph.indptr, graph.indices.long(), [])), num_nodes=graph.num_nodes)
        self._sampler = dgl.dataloading.NeighborSampler([settings.fanout] * layers)
        self._train = graph.train_mask.nonzero().flatten()  # (T,) int64: training nodes
        self._size = settings.batch_size
        self._generator = torch.Generator().manual_seed(seed)
        self._weights = BlockWeights(graph)

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor, list[Block]]]:
        order = self._train[torch.randperm(len(self._train), generator=self._generator)]  # (T,) int64
        for seeds in order.split(self._size):
            inputs, _, blocks = self._sampler.sample_blocks(self._graph, seeds)
            yield seeds, inputs, [self._block(block) for block in blocks]

    def _block(self, block: Any) -> Block:
        import dgl

        indptr, indices, _ = block.adj_tensors("csc")
        indptr = indptr[: block.num_dst_nodes() + 1].contiguous()  # (num_dst + 1,)
        return self._weights.block(indptr, indices, block.srcdata[dgl.NID])


def _loss(logits: Tensor, labels: Tensor, *, multi_label: bool) -> Tensor:
    if multi_label:
        return functional.binary_cross_entropy_with_logits(logits, labels.to(logits.dtype), reduction="sum")
    return functional.cross_entropy(logits, labels, reduction="sum")
