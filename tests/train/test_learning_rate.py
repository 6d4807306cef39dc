"""Schedules of the learning rate: their rates, a plateau, resuming, a user's function, and refused ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.launch.run_history import carry_over
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.dgl_mini_batch import unavailable_reason
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from tests.graphs import random_graph
from tests.ranks import run_ranks
from tests.run.folders import run_folder


def rates(epochs: int = 8, **settings: object) -> list[float]:
    schedule = TrainSettings(lr=0.1, epochs=epochs, **settings).learning_rate()  # type: ignore[arg-type]
    return [schedule.value(epoch) for epoch in range(epochs)]


@pytest.mark.parametrize(
    ("settings", "scheduler"),
    [
        ({"lr_schedule": "cosine"}, lambda sgd: torch.optim.lr_scheduler.CosineAnnealingLR(sgd, T_max=8)),
        (
            {"lr_schedule": "step", "lr_period": 3, "lr_factor": 0.2},
            lambda sgd: torch.optim.lr_scheduler.StepLR(sgd, step_size=3, gamma=0.2),
        ),
        (
            {"warmup_epochs": 4},
            lambda sgd: torch.optim.lr_scheduler.LinearLR(sgd, start_factor=0.25, total_iters=3),
        ),
    ],
)
def test_rates_equal_those_of_torch(settings: dict[str, object], scheduler: object) -> None:
    sgd = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)
    reference, expected = scheduler(sgd), []  # type: ignore[operator]
    for _ in range(8):
        expected.append(sgd.param_groups[0]["lr"])
        sgd.step()
        reference.step()
    assert rates(**settings) == pytest.approx(expected, rel=1e-12)


def test_a_plateau_decreases_the_rate_and_begins_a_new_period() -> None:
    settings = TrainSettings(lr=0.1, lr_schedule="plateau", lr_period=3, lr_factor=0.1)
    schedule = settings.learning_rate()
    found = []
    for epoch in range(11):
        found.append(schedule.value(epoch))
        schedule.evaluated(epoch, waited_epochs=epoch - (2 if epoch < 9 else 9))  # the best epochs are 2 and 9
        if epoch == 6:  # as a resumed run does
            state, schedule = schedule.state(), settings.learning_rate()
            schedule.load(state)
    assert found == pytest.approx([0.1] * 6 + [0.01] * 3 + [0.001] * 2)


def halved(epoch: int, epochs: int) -> float:
    return 0.5 ** (epoch * 4 / epochs)


def refused(epoch: int, epochs: int) -> float:
    return -1.0


def test_a_function_of_ones_own_is_a_schedule() -> None:
    assert rates(lr_schedule=f"{__name__}:halved") == pytest.approx([0.1 * 0.5 ** (epoch / 2) for epoch in range(8)])
    with pytest.raises(ValueError, match=r"a finite factor of at least 0, got -1\.0 of .*refused in epoch 0"):
        rates(lr_schedule=f"{__name__}:refused")
    for name in ("linear", "no_such_module:f", f"{__name__}:absent"):
        with pytest.raises(ValueError, match=f"lr_schedule must be one of constant, .* got '{name}'"):
            TrainSettings(lr_schedule=name)


def test_a_setting_of_another_schedule_is_refused() -> None:
    for settings in ({"lr_factor": 0.1}, {"lr_period": 9, "lr_schedule": "cosine"}):
        with pytest.raises(ValueError, match="lr_period and lr_factor need lr_schedule 'step' or 'plateau'"):
            TrainSettings(**settings)  # type: ignore[arg-type]


SETTINGS = {"layers": 2, "hidden": 8, "lr": 0.1, "dropout": 0.0, "partition": "random", "checkpoint_every": 4}
PLATEAU = {"lr_schedule": "plateau", "lr_period": 2, "lr_factor": 0.1, "warmup_epochs": 2}


def train(rank: int, workers: int, folder: str) -> None:
    run = gq.Run(folder)
    fit(run.config, run.folder, rank, workers, Heartbeat(None))


def test_schedules_are_recorded_and_equal_for_any_number_of_workers_and_after_resuming(tmp_path: Path) -> None:
    graph, losses = random_graph(seed=2), {}
    for name, workers in (("one", 1), ("three", 3)):
        run = run_folder(tmp_path, name, gq.configure(graph, workers=workers, epochs=12, **SETTINGS, **PLATEAU))
        run_ranks(train, workers, str(run.folder))
        losses[name] = run.records.query("rank == 0")[["loss", "lr"]].to_numpy()
    assert losses["one"] == pytest.approx(losses["three"], rel=1e-5)
    rates_of_run = losses["one"][:, 1]
    assert rates_of_run[:2].tolist() == [0.05, 0.1] and rates_of_run[-1] < 0.02
    resumed = run_folder(tmp_path, "resumed", gq.configure(graph, workers=1, epochs=12, **SETTINGS, **PLATEAU))
    carry_over(tmp_path / "one", resumed.folder, 12)
    (resumed.folder / "checkpoints" / "epoch-000012.safetensors").unlink()  # go on after 8 epochs
    for records in resumed.folder.glob("records-*.jsonl"):
        records.write_text("".join(records.read_text().splitlines(keepends=True)[:8]))
    train(0, 1, str(resumed.folder))
    assert (resumed.records[["loss", "lr"]].to_numpy() == losses["one"]).all()


def only_first(epoch: int, epochs: int) -> float:
    return float(epoch == 0)


def test_steps_use_the_rate_of_their_epoch(tmp_path: Path) -> None:
    settings = {**SETTINGS, "checkpoint_every": 0, "lr_schedule": f"{__name__}:only_first"}
    run = run_folder(tmp_path, "run", gq.configure(random_graph(seed=2), workers=1, epochs=4, **settings))
    train(0, 1, str(run.folder))
    losses = run.records["loss"].tolist()
    assert losses[0] != losses[1] == losses[2] == losses[3]


def test_the_reference_of_mini_batches_names_a_setting_that_it_lacks() -> None:
    pytest.importorskip("dgl", reason="the package dgl is not installed")
    config = gq.configure("digits", model="graphsage", lr_schedule="cosine")
    assert unavailable_reason(config) == "its training has no lr_schedule, got 'cosine'"
