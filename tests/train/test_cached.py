"""A cache's rows in the records of a run: the sums equal the counts of the channels."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import gnnqlab as gq
from gnnqlab.systems import vanilla

if TYPE_CHECKING:
    from pandas import DataFrame

SHAPE = {"layers": 2, "hidden": 8, "epochs": 6, "workers": 2, "timeline_every": 0}


def trained(cache: object | None, folder: Path) -> DataFrame:
    system = replace(vanilla(), partition=gq.partitioners.Random(), **({} if cache is None else {"cache": cache}))
    return gq.launch("digits", system=system, out=folder, wait=True, **SHAPE).cache


def test_rows_by_layer_and_epsilon_are_recorded(tmp_path: Path) -> None:
    frame = trained(gq.caches.AdaptiveCache(epsilon=0.1), tmp_path)
    assert len(frame) == 6 * 2 * 4, "one row for each epoch, worker, layer (of two) and direction"
    first = frame[frame["epoch"] == 0]
    assert (first["rows_sent"] == first["rows_offered"]).all(), "the caches are empty before the first epoch"
    assert (frame["rows_sent"] <= frame["rows_offered"]).all()
    later = frame[frame["epoch"] > 0]
    assert 0 < later["rows_sent"].sum() < later["rows_offered"].sum()

    assert frame["epsilon"].iloc[0] == 0.1 and frame["epsilon"].nunique() > 1
    assert frame.groupby("epoch")["epsilon"].nunique().eq(1).all(), "all exchanges share one threshold"


def test_another_cache_has_no_epsilon_and_none_has_no_rows(tmp_path: Path) -> None:
    frame = trained(gq.caches.Unchanged(tolerance=0.1), tmp_path)
    assert frame["epsilon"].isna().all() and frame["rows_sent"].sum() < frame["rows_offered"].sum()
    none = trained(None, tmp_path)
    assert none.empty
