"""Bytes by the number of workers are those of each system's own cut; memory is predicted by a trial on request."""

from __future__ import annotations

from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.exchange.traffic_model import PartitionSizes
from gnnqlab.nn import ModelSettings
from gnnqlab.tune import by_workers as place
from gnnqlab.tune.by_workers import by_workers
from gnnqlab.tune.predicted_volume import epoch_bytes

SHAPE = ModelSettings(layers=2, hidden=16)


def test_systems_of_one_cut_share_it_and_halo_rows_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    cuts: list[tuple[Any, int]] = []
    cut_graph = place.cut_graph
    monkeypatch.setattr(place, "cut_graph", lambda *cut: (cuts.append(cut[1:]), cut_graph(*cut))[1])
    graph = gq.load("sbm:60,3,6")
    systems = {
        "Vanilla": gq.systems.vanilla(), "SAR": gq.systems.sar(), "CAGNET": gq.systems.cagnet(),
        "Columns": gq.systems.feature_parallel(),
    }  # fmt: skip
    found = by_workers(graph, systems, SHAPE, workers=(1, 3), tried_up_to=1).set_index(["system", "workers"])
    assert [type(cut).__name__ for cut, workers in cuts if workers == 3] == ["METIS", "Contiguous", "WholeGraph"]
    halo = sum(shard.num_halo for shard in gq.partition(graph, gq.partitioners.METIS(), workers=3).shards)
    sent = found["bytes"]
    sizes = PartitionSizes(num_nodes=60, workers=3, copies=halo)
    expected = epoch_bytes(gq.systems.vanilla(), SHAPE, sizes, features=graph.num_features, classes=3)
    assert sent["Vanilla", 3] == sent["SAR", 3] == expected > 0
    assert sent["CAGNET", 3] == 2 * 60 * 4 * (16 + 16 + 3 + 3) and sent["Vanilla", 1] == 0
    # A split and a join of 2 / 3 of the rows and columns; one of 3 classes on each worker.
    assert sent["Columns", 3] == 2 * 2 * 60 * 4 * (16 + 16 + 3 + 3) / 3
    assert found["memory_bytes"].notna().tolist() == [True, False] * 4


def test_empty_systems_and_systems_without_a_formula_raise_value_error() -> None:
    graph = gq.load("sbm:60,3,6")
    with pytest.raises(ValueError, match="must have at least one entry each, got 0 and 7"):
        by_workers(graph, {}, SHAPE)
    with pytest.raises(ValueError, match="bits must be one bit-width for a formula, got Assigned"):
        by_workers(graph, {"AdaQP": gq.systems.adaqp()}, SHAPE, workers=(2,), tried_up_to=0)
