"""What a cache kept home stands in the run's records: the sums are what the channels counted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import gnnqlab as gq
from benchmarks.engine.in_turn import train_in_turn
from gnnqlab.systems import vanilla

if TYPE_CHECKING:
    from pandas import DataFrame

SHAPE = {"layers": 2, "hidden": 8, "epochs": 6, "workers": 2, "timeline_every": 0}


def trained(cache: object | None) -> Iterator[DataFrame]:
    system = replace(vanilla(), partition=gq.Random(), **({} if cache is None else {"cache": cache}))
    for run in train_in_turn([gq.configure("digits", system=system, **SHAPE)]):
        yield run.cache


def test_rows_by_layer_and_epsilon_are_recorded() -> None:
    [frame] = trained(gq.AdaptiveCache(epsilon=0.1))
    assert len(frame) == 6 * 2 * 4, "an epoch, a worker, two layers there and back"
    first = frame[frame["epoch"] == 0]
    assert (first["rows_sent"] == first["rows_offered"]).all(), "nothing is held before the first epoch"
    assert (frame["rows_sent"] <= frame["rows_offered"]).all()
    later = frame[frame["epoch"] > 0]
    assert 0 < later["rows_sent"].sum() < later["rows_offered"].sum()

    assert frame["epsilon"].iloc[0] == 0.1 and frame["epsilon"].nunique() > 1
    assert frame.groupby("epoch")["epsilon"].nunique().eq(1).all(), "all places go by one threshold"


def test_another_cache_has_no_epsilon_and_none_has_no_rows() -> None:
    [frame] = trained(gq.Unchanged(tolerance=0.1))
    assert frame["epsilon"].isna().all() and frame["rows_sent"].sum() < frame["rows_offered"].sum()
    [none] = trained(None)
    assert none.empty
