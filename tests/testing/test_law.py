"""The test kit for a user's own models: right models pass, and violations of the law are named."""

from __future__ import annotations

import os

import pytest
import torch
import torch.distributed as dist

import gnnqlab as gq
from gnnqlab.nn import ModelSettings
from gnnqlab.nn.models.registry import _KINDS, MODELS
from gnnqlab.testing.edge_cases import cases
from tests.cases import each
from tests.testing import own_models

OWN = "tests.testing.own_models"


def broken_by(name: str, **settings) -> gq.testing.LawBroken | None:
    """Return the violation that the check finds in a model, or None."""
    try:
        gq.testing.check_law(f"{OWN}:{name}", **settings)
    except gq.testing.LawBroken as broken:
        return broken
    return None


def test_every_model_of_the_package_keeps_it():
    for name in sorted(MODELS):
        report = gq.testing.check_law(name, workers=(3,))
        assert 0 < report.max_difference <= 1e-5, name
        assert [(row["workers"], row["graph"]) for row in report.rows] == [
            (3, "undirected graph"),
            (3, "directed graph, a worker without halo"),
        ]


def test_a_builder_by_name_need_not_be_registered():
    before = dict(MODELS)
    report = gq.testing.check_law(f"{OWN}:keeps_the_law")
    assert [row["workers"] for row in report.rows] == [1, 2, 3, 4, 4]
    assert report.max_difference == max(
        max(row[kind] for kind in ("losses", "gradients", "logits")) for row in report.rows
    )
    first = f"{OWN}:keeps_the_law: workers agree with one process within 1e-05 of the largest value"
    assert str(report).splitlines()[0] == first
    assert str(report).splitlines()[-1].startswith("  4 worker(s), directed graph, a worker without halo: losses ")
    assert before == MODELS and set(_KINDS) == set(MODELS)
    shape = ModelSettings(name="gat", layers=2, hidden=8, heads=2)
    assert gq.testing.check_law(shape, workers=(2,), dropout=0.0).model == "gat"
    assert gq.testing.check_law("gnnqlab.nn.models.gcn:gcn", workers=(1,)).max_difference == 0.0


@each(
    ("name", "workers", "tensor"),
    [
        ("standardised", 2, "the loss of epoch 0"),
        ("forgets_halos", 2, "the gradient of first in epoch 0"),
        ("infinite", 1, "the loss of epoch 0"),
        ("drops_by_chance", 1, "the loss of epoch 0"),
        ("starts_by_chance", 2, "last, drawn twice from one seed,"),
        ("scaled_by_workers", 2, "the loss of epoch 0"),
        ("scaled_by_rank", 2, "the loss of epoch 0"),
        ("scaled_by_environment", 2, "the loss of epoch 0"),
    ],
)
def test_error_for_broken_law_names_workers_and_tensor(name, workers, tensor):
    broken = broken_by(name, workers=(workers,))
    assert broken is not None and (broken.workers, broken.tensor) == (workers, tensor)
    assert not broken.difference <= broken.tolerance
    assert isinstance(broken, AssertionError)
    assert f"model '{OWN}:{name}', {workers} worker(s), " in str(broken) and f": {tensor} differs by " in str(broken)


def test_simulated_group_ends_with_the_check():
    before = own_models.get_rank
    assert broken_by("scaled_by_rank", workers=(3,)) is not None
    assert not dist.is_initialized() and own_models.get_rank is before is dist.get_rank
    assert "WORLD_SIZE" not in os.environ


def test_the_tolerance_counts():
    assert broken_by("keeps_the_law", tolerance=0.0, workers=(4,)) is not None
    broken = broken_by("standardised", workers=(2,), tolerance=1e-5)
    assert broken_by("standardised", workers=(2,), tolerance=1e9) is None and broken.difference < 1e9


def test_its_graphs_are_awkward():
    found = cases([1, 2, 3, 4], seed=0)
    assert {case.workers for case in found} == {1, 2, 3, 4}
    assert {case.graph.is_symmetric for case in found} == {True, False}
    assert {int(case.graph.in_degrees.min()) for case in found} == {0, 1}  # isolated nodes, with and without a loop
    alone = found[-1].cut.shard(found[-1].graph, found[-1].workers - 1)
    assert alone.num_owned > 0 and alone.num_halo == 0 and alone.boundary.numel() == 0
    others = [found[-1].cut.shard(found[-1].graph, rank).num_halo for rank in range(found[-1].workers - 1)]
    assert min(others) > 0
    assert all(
        torch.equal(one.graph.indices, other.graph.indices) for one, other in zip(found, cases([1, 2, 3, 4], seed=0))
    )


@each(
    ("model", "settings", "error", "text"),
    [
        ("gcnn", {}, ValueError, "model must be one of .*, got 'gcnn'; did you mean gcn"),
        ("gcn", {"heads": 2}, ValueError, "heads is a setting of"),
        ("gcn", {"workers": ()}, ValueError, r"workers must hold at least one number, each from 1 to 44, got \(\)"),
        (
            "gcn",
            {"workers": (2, 0)},
            ValueError,
            r"workers must hold at least one number, each from 1 to 44, got \(2, 0\)",
        ),
        ("nowhere_to_be:found", {}, ImportError, "nowhere_to_be"),
    ],
)
def test_mistakes_are_refused(model, settings, error, text):
    with pytest.raises(error, match=text):
        gq.testing.check_law(model, **settings)
