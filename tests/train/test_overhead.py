"""The cost of SYLVIE's own work: extraction is stored with the shard, and coordination has a share of the run."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import pandas as pd

import gnnqlab as gq
from gnnqlab.adaptive import Training
from gnnqlab.bits.assigner.descent import Watch
from gnnqlab.bits.orchestrator import Orchestrated
from gnnqlab.partition import Random, build_shard
from gnnqlab.partition.shard import Shard
from gnnqlab.train.records.record import coordination_figures
from gnnqlab.worker_context import WorkerContext
from tests.graphs import random_graph


def test_extraction_time_is_measured_and_stored_with_the_shard(tmp_path):
    graph = random_graph()
    shard = build_shard(graph, Random(seed=1).assign(graph, 3), 1, 3)
    assert 0 < shard.extract_s
    shard.save(tmp_path / "shard.npz")
    assert Shard.load(tmp_path / "shard.npz").extract_s == shard.extract_s
    worker = WorkerContext(rank=1, workers=3, seed=0, ids=shard.owned, importance=shard.importance)
    for known, told in ((shard, 3 * shard.extract_s), (replace(shard, extract_s=math.nan), None)):
        assert Watch.from_training(Orchestrated(), Training(worker=worker, shard=known)).notes() == {"extract_s": told}


def test_coordination_share_is_that_of_the_worker_with_the_longest_time(tmp_path):
    lines = [(e, r, 4.5 * (e + 1), 0.25 * r) for e in range(4) for r in (0, 1)]
    records = pd.DataFrame(lines, columns=["epoch", "rank", "time_s", "assign_s"])
    assert coordination_figures(tmp_path, records) == {}
    for kept, expected in ((2.0, (2.0 + 1.0) / (2.0 + 18.0)), (None, 1.0 / 18.0)):
        (tmp_path / "facts.json").write_text(json.dumps({"extract_s": kept}))
        assert coordination_figures(tmp_path, records) == {"extract_s": kept, "coordination_share": expected}
    (tmp_path / "facts.json").write_text("{}")
    assert coordination_figures(tmp_path, records) == {}


def test_summary_has_a_coordination_share_only_for_coordinated_systems(tmp_path):
    run = gq.launch("digits", system="sylvie", epochs=8, hidden=32, delta=1, workers=2, out=tmp_path, wait=True)
    summary, records = run.summary, run.records
    assert summary["extract_s"] is None or summary["extract_s"] > 0
    assert 0 < summary["coordination_share"] < 1
    # Decisions begin after epoch 2; until then the first bit-width is in force.
    assert records.loc[records["epoch"].isin([0, 1, 2]), "assign_s"].gt(0).all()
    assert "coordination_share" not in gq.launch("digits", epochs=2, hidden=8, out=tmp_path, wait=True).summary
