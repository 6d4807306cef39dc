"""Saved bytes by layer: by formula, in total as many as autograd's graph holds, at most those of the memory tracker."""

from __future__ import annotations

from functools import cache

import pytest

from gnnqlab.compute.float32 import PLAIN
from gnnqlab.course.experiments.kept_by_layer import KINDS, saved_bytes_by_layer
from gnnqlab.course.experiments.kept_bytes import saved_bytes_by_purpose
from gnnqlab.graph.generate import sbm
from gnnqlab.nn import ModelSettings
from tests.cases import each

NODES, HIDDEN = 200, 16
GRAPH = sbm(NODES, 4, 6, features=HIDDEN)
MATRIX = NODES * HIDDEN * 4
STATS = NODES * 2 * 4
"""Mean and deviation of each row."""


@cache
def saved_bytes(model: str, keep: str = "none", workers: int = 1) -> dict[tuple[int, str], int]:
    shape = ModelSettings(name=model, layers=3, hidden=HIDDEN)
    found = saved_bytes_by_layer(GRAPH, shape, keep, workers=workers)
    return {place: count for place, count in found.items() if place[1] != "loss"}


def test_gcn_saves_sums_and_inputs_of_norms():
    """Its last layer projects to classes before it aggregates, so its weights' gradient needs rows."""
    norms = MATRIX + STATS
    assert saved_bytes("gcn") == {
        (0, "sums"): MATRIX, (0, "norms"): norms, (1, "sums"): MATRIX, (1, "norms"): norms, (2, "rows"): MATRIX,
    }  # fmt: skip
    assert saved_bytes("gcn", "selective") == {
        (0, "sums"): MATRIX, (0, "norms"): STATS, (1, "sums"): MATRIX, (1, "norms"): STATS,
    }  # fmt: skip
    assert saved_bytes("gcn", "full") == {(0, "norms"): STATS, (1, "rows"): MATRIX, (1, "norms"): STATS}


def test_a_graphsage_keeps_its_own_rows_too():
    """The rows of the first layer are the features, which are in memory in any case."""
    assert saved_bytes("graphsage") == saved_bytes("gcn") | {(1, "rows"): MATRIX}


@each("model", ["gcn", "gcnii", "graphsage", "jknet"])
def test_saved_bytes_of_products_and_norms_equal_those_of_autograd(model):
    """Compare with an independent count along autograd's graph, by the kind of node, from the loss back.

    Rows that both an activation and a product save are counted there as those of the product.
    """
    shape = ModelSettings(name=model, layers=3, hidden=HIDDEN)
    held = saved_bytes_by_purpose(GRAPH, shape, PLAIN)
    of_kind = {kind: sum(count for (_, of), count in saved_bytes(model).items() if of == kind) for kind in KINDS}
    assert sum(of_kind.values()) == held["inputs of products"] + held["norms"] > 0
    assert of_kind["attention"] == of_kind["others"] == 0


def test_attention_keeps_projected_rows_logits_and_sums():
    """Saved are z and the attended rows, and for its one head two logits, the largest one and the sum."""
    found, alone = saved_bytes("gat"), NODES * 4 * 4
    assert found[0, "attention"] == found[1, "attention"] == 2 * MATRIX + alone
    assert found[1, "rows"] == MATRIX


def test_sums_without_weights_are_counted_as_sums():
    assert {kind for _, kind in saved_bytes("gcnii", "selective")} == {"sums"}
    assert saved_bytes("sgc", "full") == {}


def test_two_workers_keep_of_their_own_rows():
    found, one = saved_bytes("gcn", workers=2), saved_bytes("gcn")
    assert found.keys() == one.keys()
    assert all(found[place] == pytest.approx(one[place] / 2, rel=0.1) for place in one)
    with pytest.raises(ValueError, match="2 workers would have to send their rows twice"):
        saved_bytes("gcn", "full", workers=2)
