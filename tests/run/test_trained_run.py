"""The result of a run: its model, its predictions, and the errors where there is none."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import nn

import gnnqlab as gq
from gnnqlab.launch.run_history import carry_over
from gnnqlab.nn.models import registry
from gnnqlab.run import folder as files
from gnnqlab.train.checkpoints.model_file import MODEL, ModelFile, read_model
from gnnqlab.train.checkpoints.tensor_file import read_tensors, write_tensors
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from tests.graphs import random_graph
from tests.launch.fakes import UNHURRIED
from tests.ranks import run_ranks
from tests.run.folders import run_folder, wait_for
from tests.slow_down import HANG_S

EPOCHS = 3
SHAPE = {"layers": 2, "hidden": 8, "epochs": EPOCHS, "lr": 0.05}
CASES = {
    "gcn": ({"seed": 1}, {"model": "gcn"}),
    "directed": ({"seed": 2, "directed": True, "self_loops": "keep"}, {"model": "graphsage"}),
    "multi-label": ({"seed": 3, "multi_label": True}, {"model": "gat", "heads": 2}),
    "two bits": ({"seed": 4, "features": 5}, {"model": "gcn", "system": "fixed-bits", "bits": 2}),
}


def made(root: Path, name: str, graph: gq.Graph | str, **settings: object) -> gq.Run:
    """Make the folder of a run that has not been trained."""
    config = gq.configure(graph, **{"partition": "random", **SHAPE, **settings})
    return run_folder(root, name, config)


def train(run: gq.Run, rank: int = 0) -> None:
    """Train as a launched worker does."""
    fit(run.config, run.folder, rank, run.config.workers, Heartbeat(None))


def train_all(rank: int, workers: int, root: str) -> None:
    for name in CASES:
        train(gq.Run(Path(root) / name), rank)


def score(logits: torch.Tensor, graph: gq.Graph, mask: torch.Tensor) -> float:
    """Compute accuracy, or micro-F1, of the nodes of a mask."""
    labels, chosen = graph.labels[mask], logits[mask]
    if not graph.multi_label:
        return float((chosen.argmax(1) == labels).double().mean())
    hits = int(((chosen > 0) & (labels > 0)).sum())
    return 2 * hits / (int((chosen > 0).sum()) + int((labels > 0).sum()))


def recorded_score(run: gq.Run, epoch: int, split: str = "test") -> float:
    return float(run.records.query("rank == 0").set_index("epoch")[f"{split}_score"][epoch])


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_predictions_have_the_scores_of_the_summary_in_the_order_of_the_graph(tmp_path: Path, workers: int) -> None:
    graphs = {name: random_graph(**shape) for name, (shape, _) in CASES.items()}  # type: ignore[arg-type]
    runs = {name: made(tmp_path, name, graphs[name], workers=workers, **CASES[name][1]) for name in CASES}
    run_ranks(train_all, workers, str(tmp_path))
    for name, run in runs.items():
        graph, logits = graphs[name], run.predict()
        assert logits.shape == (graph.num_nodes, graph.num_classes) and logits.dtype == torch.float32
        assert torch.equal(logits, run.predict(graph)) and not logits.requires_grad
        for split in ("train", "val", "test"):
            mask, best_epoch = getattr(graph, f"{split}_mask"), run.summary["best_epoch"]
            for output, epoch in ((logits, best_epoch), (run.predict(epoch="last"), EPOCHS - 1)):
                assert score(output, graph, mask) == pytest.approx(recorded_score(run, epoch, split), abs=1e-6), name
        assert run.embeddings().shape == (graph.num_nodes, 8)
        assert torch.equal(run.embeddings(0), graph.features)
        assert read_model(run.folder).epoch == run.summary["best_epoch"]
    assert_is_a_gcn(runs["gcn"], graphs["gcn"])


def assert_is_a_gcn(run: gq.Run, graph: gq.Graph) -> None:
    """Logits and embeddings are those of a dense GCN in float64 with the weights under their names."""
    adjacency = torch.zeros(graph.num_nodes, graph.num_nodes, dtype=torch.float64)
    src, dst = graph.edge_list()
    adjacency[dst.long(), src.long()] = 1.0
    scale = adjacency.sum(1).clamp(min=1).rsqrt()
    p = scale[:, None] * adjacency * scale
    w = {name: value.double() for name, value in run.model().state_dict().items()}
    hidden = p @ graph.features.double() @ w["convolutions.0.weight"] + w["convolutions.0.bias"]
    hidden = nn.functional.layer_norm(hidden, (8,), w["norms.0.weight"], w["norms.0.bias"]).relu()
    logits = p @ hidden @ w["convolutions.1.weight"] + w["convolutions.1.bias"]
    torch.testing.assert_close(run.embeddings().double(), hidden, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(run.predict().double(), logits, rtol=1e-5, atol=1e-5)


def test_resumed_run_has_the_same_model_as_an_uninterrupted_run(tmp_path: Path) -> None:
    graph = random_graph(seed=5)
    straight = made(tmp_path, "straight", graph, workers=1, checkpoint_every=2, epochs=4)
    first = made(tmp_path, "first", graph, workers=1, checkpoint_every=2, epochs=2)
    train(straight), train(first)
    resumed = made(tmp_path, "resumed", graph, workers=1, checkpoint_every=2, epochs=4)
    carry_over(first.folder, resumed.folder, 2)
    train(resumed)
    assert torch.equal(resumed.predict(), straight.predict())
    last_logits = resumed.predict(epoch="last")
    assert torch.equal(last_logits, straight.predict(epoch="last"))
    assert not torch.equal(last_logits, first.predict(epoch="last"))
    assert score(last_logits, graph, graph.test_mask) == pytest.approx(recorded_score(resumed, 3), abs=1e-6)


class Plain(nn.Module):
    """A model of torch's own modules, whose dropout depends on the mode of the module."""

    def __init__(self, in_features: int, num_classes: int) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(in_features, 6), nn.Linear(6, num_classes)
        self.dropout = nn.Dropout(0.9)
        self.register_buffer("calls", torch.zeros(2, dtype=torch.int64))

    def forward(self, g: object, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.dropout(g.aggregate(self.first(x)).relu()))  # type: ignore[attr-defined, no-any-return]


def plain(settings: object, in_features: int, num_classes: int, seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return Plain(in_features, num_classes)


def test_a_model_of_torch_modules_is_evaluated_as_it_predicts(tmp_path: Path) -> None:
    gq.models.register_model(plain)
    try:
        graph = random_graph(nodes=301, edges=900, seed=6)
        run = made(tmp_path, "plain", graph, model="plain", workers=1)
        train(run)
        del registry.MODELS["plain"], registry._KINDS["plain"]
        model, logits = run.model(), run.predict()
        assert registry.MODELS["plain"] is plain  # found again by the name of its builder
        assert not model.training and model.calls.dtype == torch.int64
        assert score(logits, graph, graph.test_mask) == pytest.approx(run.summary["test_accuracy"], abs=1e-6)
        assert torch.equal(logits, model.last(run.embeddings()))
        model.first = nn.Linear(3, 3)
        strange = ModelFile(run.folder, run.config.model, model, num_nodes=301, num_features=12, num_classes=4)
        assert strange.write(run.summary["best_epoch"]) is None
        with pytest.raises(ValueError, match=r"weights must fit the model .* size mismatch for first\.weight"):
            run.model()
    finally:
        registry.MODELS.pop("plain", None), registry._KINDS.pop("plain", None)


def test_another_graph_is_predicted_and_one_of_other_features_refused(tmp_path: Path) -> None:
    run = made(tmp_path, "one", random_graph(seed=7), workers=1)
    train(run)
    other = random_graph(nodes=33, edges=70, seed=8, classes=2)
    path = other.save(tmp_path / "other")
    assert run.predict(other).shape == (33, 4)  # the classes it was trained for
    assert torch.equal(run.predict(path), run.predict(other))
    for rows in (run.embeddings(graph=other), run.embeddings(other), run.embeddings(path, layer=-1)):
        assert torch.equal(rows, run.embeddings(-1, graph=other)) and rows.shape == (33, 8)
    with pytest.raises(TypeError, match="layer must be passed once, got 0 and 1"):
        run.embeddings(0, layer=1)
    text = r"must have the 12 features per node that the model of run one takes, got 5 of random; compute the same"
    with pytest.raises(ValueError, match=text):
        run.predict(random_graph(features=5))
    with pytest.raises(ValueError, match=r"a layer of this model must be one of -2 to 1, got 2"):
        run.embeddings(2)


def test_predict_with_a_missing_or_changed_graph_raises_value_error(tmp_path: Path) -> None:
    graph, path = random_graph(seed=9), tmp_path / "graph"
    graph.save(path)
    run = made(tmp_path, "one", str(path), workers=1)
    train(run)
    shutil.rmtree(path)
    with pytest.raises(ValueError, match=r"the graph of run one must be found to predict on it, got .*; pass it"):
        run.predict()
    random_graph(nodes=61).save(path)
    with pytest.raises(ValueError, match=r"the graph of run one must have the 60 nodes it was trained on, got 61 in"):
        run.predict()
    assert run.predict(graph).shape == (60, 4)


@pytest.mark.parametrize(
    ("state", "checkpoint", "text"),
    [
        ("running", False, "run old must have ended to have a model, got status (running|starting); wait for it or"),
        ("finished", False, "got finished run old: an earlier version of gnnqlab trained it, .*; launch it again$"),
        (
            "finished",
            True,
            r", or resume it from its checkpoint with gq\.resume\(run, epochs=\.\.\.\), which writes the model$",
        ),
        ("failed", False, "got failed run old: it ended before the model was written; launch it again$"),
    ],
)
def test_run_without_a_model_raises_runtime_error_with_the_reason(
    tmp_path: Path, state: str, checkpoint: bool, text: str
) -> None:
    run = made(tmp_path, "old", "digits", workers=1)
    if checkpoint:
        (run.folder / "checkpoints").mkdir()
        (run.folder / "checkpoints" / "epoch-000003.safetensors").touch()
    status = {"state": state, "epoch": 2, "errors": [], "time": time.time()}
    files.write_json(run.folder / "status.json", status)
    for ask in (run.model, run.predict, run.embeddings):
        with pytest.raises(RuntimeError, match=text):
            ask()


def test_a_run_that_is_stopped_has_a_model(tmp_path: Path) -> None:
    graph = random_graph(seed=10)
    run = gq.launch(graph, **{**SHAPE, "epochs": 1_000_000}, workers=2, out=tmp_path, observers=UNHURRIED)
    wait_for(run, lambda: run.status == "running" and run.epoch >= 3, what="the third epoch")
    with pytest.raises(RuntimeError, match="must have ended to have a model, got status running"):
        run.model()
    run.stop(timeout=HANG_S)
    assert run.status == "stopped" and not (run.folder / "checkpoints").exists()
    epoch = read_model(run.folder).epoch
    recorded = run.records.query("rank == 0").set_index("epoch")
    assert epoch == recorded.val_score.idxmax()  # the first of equal ones
    assert score(run.predict(), graph, graph.test_mask) == pytest.approx(recorded.test_score[epoch], abs=1e-6)


def test_model_of_another_epoch_than_that_of_the_summary_gives_a_warning(tmp_path: Path) -> None:
    run = made(tmp_path, "older", random_graph(seed=12), workers=1)
    train(run)
    last_epoch = EPOCHS - 1 if run.summary["best_epoch"] != EPOCHS - 1 else 0
    path = run.folder / MODEL
    tensors = read_tensors(path)
    write_tensors(path, tensors.tensors, {**tensors.metadata, "epoch": str(last_epoch)})  # as version 0.9
    with pytest.warns(UserWarning, match=f"is of epoch {last_epoch}, and its summary has the scores of epoch"):
        run.model()
    with pytest.raises(ValueError, match="must be 'best' or 'last', got 'first'"):
        run.model("first")  # type: ignore[arg-type]


def test_failure_to_write_the_model_is_reported_and_the_run_finishes(tmp_path: Path) -> None:
    run = made(tmp_path, "full", random_graph(seed=11), workers=1)
    (run.folder / MODEL).mkdir()
    (run.folder / MODEL / "in the way").touch()
    config = run.config
    fit(replace(config, train=replace(config.train, epochs=1)), run.folder, 0, 1, Heartbeat(None))
    (told,) = [event for event in run.events if event["event"] == "model failed"]
    assert told["cause"].startswith("writing the model failed: ")
    with pytest.raises(RuntimeError, match=r"writing the model failed \(see run\.events\)"):
        run.model()
