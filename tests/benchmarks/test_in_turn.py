"""Trainings in the same workers are the trainings that workers of their own would have made."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnnqlab as gq
from benchmarks.engine.in_turn import train_in_turn
from gnnqlab.train.config.configure import configure

SHAPE = {"model": "gcn", "hidden": 8, "layers": 2, "epochs": 3, "workers": 2}


@pytest.mark.slow
def test_losses_are_those_of_a_run_of_its_own(tmp_path: Path) -> None:
    systems = (gq.systems.fixed_bits(bits=1), gq.systems.pipegcn(), gq.systems.vanilla())
    configs = [configure("digits", system=system, seed=seed, **SHAPE) for seed, system in enumerate(systems)]
    losses = [list(run.records["loss"]) for run in train_in_turn(configs)]
    alone = gq.launch("digits", system=systems[1], seed=1, out=tmp_path, wait=True, **SHAPE)
    assert losses[1] == list(alone.records["loss"])
    assert len({tuple(loss) for loss in losses}) == 3


@pytest.mark.slow
def test_a_training_that_fails_is_no_silent_end() -> None:
    fine = configure("digits", **SHAPE)
    wild = configure("digits", lr=1e30, **{**SHAPE, "epochs": 30})
    runs = train_in_turn([fine, wild, fine])
    assert len(next(runs).records) == 6
    with pytest.raises(gq.errors.WorkerFailed, match="training has diverged"):
        next(runs)


def test_workers_cannot_change_between_turns() -> None:
    with pytest.raises(ValueError, match="must have the same workers and launch settings"):
        next(train_in_turn([configure("digits", workers=2), configure("digits", workers=3)]))
