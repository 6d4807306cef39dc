"""Early stopping: the same epoch on all workers, its event and checkpoint, and no validation nodes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.train.checkpoints.checkpoint import newest_checkpoint
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import run_folder
from tests.train.test_learning_rate import train

PATIENCE, EPOCHS = 6, 300
SETTINGS = {"partition": "random", "layers": 2, "hidden": 8, "epochs": EPOCHS, "evaluate_every": 2}


def new_run(root: Path, graph: gq.Graph, **settings: object) -> gq.Run:
    return run_folder(root, "run", gq.configure(graph, **{**SETTINGS, **settings}))


@pytest.mark.parametrize("workers", [1, 3])
def test_training_ends_after_the_patience_on_all_workers(tmp_path: Path, workers: int) -> None:
    graph = random_graph(seed=3)  # random labels, so that validation scores do not grow for long
    run = new_run(tmp_path, graph, workers=workers, patience=PATIENCE, checkpoint_every=EPOCHS)
    run_ranks(train, workers, str(run.folder))
    (last_epoch,) = set(run.records.groupby("rank")["epoch"].max())
    best_epoch = run.summary["best_epoch"]
    # The first evaluation that is at least so many epochs after the best one.
    assert last_epoch == best_epoch + PATIENCE < EPOCHS - 1
    (event,) = [event for event in run.events if event["event"] == "stopped early"]
    assert event["epoch"] == last_epoch and f"for {PATIENCE} epochs" in event["text"]
    assert newest_checkpoint(run.folder).epoch == last_epoch + 1
    scores = run.records.query("rank == 0").set_index("epoch")["test_score"]
    for name, epoch in (("best", best_epoch), ("last", last_epoch)):
        right = (run.predict(epoch=name).argmax(1) == graph.labels)[graph.test_mask].double().mean()  # type: ignore[arg-type]
        assert abs(float(right) - scores[epoch]) < 1e-6, name


@pytest.mark.parametrize(
    ("settings", "name"),
    [({"patience": PATIENCE}, "patience 6"), ({"lr_schedule": "plateau"}, "lr_schedule 'plateau'")],
)
def test_settings_of_validation_scores_are_refused_without_them(
    tmp_path: Path, settings: dict[str, object], name: str
) -> None:
    run = new_run(tmp_path, random_graph(seed=3).with_split(torch.arange(10)), workers=1, **settings)
    with pytest.raises(RuntimeError, match=f"{name} compares validation scores, got a graph without validation"):
        train(0, 1, str(run.folder))
