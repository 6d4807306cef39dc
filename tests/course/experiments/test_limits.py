"""Limits of an epoch: rates, lower bounds of time, the table and its chart."""

from __future__ import annotations

import itertools

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.counted import Work
from gnnqlab.course.experiments.limits import EPOCH, OTHER, Rates, draw_limits, least_s, limits_table, measure_limits
from gnnqlab.theory.limits import NeighbourSum, Product, RowPass
from tests.cases import each

SECONDS = {
    "central": 0.010, "marginal": 0.002, "products": 0.020, "elementwise": 0.004, "encode": 0.001, "decode": 0.002,
    "wait": 0.030, "reduce": 0.006, "loss": 0.002, "optimizer": 0.003, "epoch": 0.080,
}  # fmt: skip
LEAST = {"neighbour sums": 0.003, "products": 0.010, "node-wise": 0.002, "codec": 0.001}


def test_every_second_belongs_to_one_part() -> None:
    table = limits_table(SECONDS, LEAST, wire_s=0.024)
    assert table["measured (ms)"].to_dict() == pytest.approx(
        {"neighbour sums": 12, "products": 20, "node-wise": 4, "codec": 3, "wire": 36, OTHER: 5, EPOCH: 80}
    )
    assert table["measured / limit"].drop(OTHER).tolist() == pytest.approx([4, 2, 2, 3, 1.5, 2])
    assert pd.isna(table.loc[OTHER, "limit (ms)"]) and pd.isna(table.loc[OTHER, "measured / limit"])
    assert table["share (%)"].drop(EPOCH).sum() == pytest.approx(100)


@each(("wire_s", "overlapped", "limit"), [(0.024, False, 40), (0.024, True, 24), (0.004, True, 16)])
def test_an_overlapped_epoch_is_limited_by_the_larger_of_wire_and_work(
    wire_s: float, overlapped: bool, limit: float
) -> None:
    assert limits_table(SECONDS, LEAST, wire_s=wire_s, overlapped=overlapped).loc[EPOCH, "limit (ms)"] == pytest.approx(
        limit
    )


def test_a_part_without_work_is_none() -> None:
    table = limits_table(SECONDS, {**LEAST, "codec": 0.0})
    assert list(table.index) == ["neighbour sums", "products", "node-wise", OTHER, EPOCH]
    assert table.loc[OTHER, "measured (ms)"] == pytest.approx(44)
    with pytest.raises(ValueError, match="an epoch must take some time, got 0"):
        limits_table({"epoch": 0.0}, LEAST)


class _Known(Rates):
    """Reads 100, copies 10 bytes per second, multiplies 1000 times per second."""

    def read_bytes_per_s(self, num_bytes: int) -> float:
        return 100.0

    def copied_bytes_per_s(self, num_bytes: int) -> float:
        return 10.0

    def flops_per_s(self, product: Product) -> float:
        return 1000.0


def test_a_limit_is_work_by_rate_as_often_as_it_is_done() -> None:
    work = Work()
    work.sums[NeighbourSum(edges=8, source_rows=4, rows=4, columns=3)] = 2  # 200 bytes
    work.products[Product(rows=2, inner=3, columns=4)] = 5  # 48 operations
    work.passes[RowPass(num_read=6, num_written=6)] = 3  # 24 bytes in, 24 out
    expected = {"neighbour sums": 4.0, "products": 0.24, "node-wise": 7.2, "codec": 0.0}
    assert least_s(work, _Known()) == pytest.approx(expected)
    assert least_s(work, _Known(), coded={50: 2, 20: 1})["codec"] == pytest.approx(12.0)


def test_the_best_of_all_repeats_is_the_rate_and_is_measured_once() -> None:
    took = [5.0, 2.0, 4.0]
    ticks = itertools.accumulate(itertools.chain.from_iterable((1.0, each) for each in took))  # begins, ends
    rates = Rates(repeats=3, timer=lambda: next(ticks))
    assert rates.read_bytes_per_s(8) == 4.0
    assert rates.read_bytes_per_s(8) == 4.0  # from the cache: the timer has no values left
    with pytest.raises(StopIteration):
        rates.copied_bytes_per_s(8)
    with pytest.raises(ValueError, match="repeats must be at least 1, got 0"):
        Rates(repeats=0)


def test_a_transposed_product_is_measured_as_it_is_stored() -> None:
    rates = Rates(repeats=1)
    kinds = [Product(rows=3, inner=5, columns=2, transposed=kind) for kind in ("", "a", "b")]
    assert all(rates.flops_per_s(kind) > 0 for kind in kinds)


def test_a_worker_in_this_process_is_measured() -> None:
    table = measure_limits(gq.load("sbm:300,3,8"), epochs=4, hidden=16, layers=2, repeats=1)
    assert list(table.index) == ["neighbour sums", "products", "node-wise", OTHER, EPOCH]
    assert (table["measured (ms)"] > 0).all()
    parts = table.drop([OTHER, EPOCH])
    assert table.loc[EPOCH, "limit (ms)"] == pytest.approx(parts["limit (ms)"].sum())
    with pytest.raises(ValueError, match="epochs must be at least 3"):
        measure_limits(gq.load("sbm:300,3,8"), epochs=2)


PART_SECONDS = {"central": 0.004, "products": 0.005, "wait": 0.003, "optimizer": 0.001, "epoch": 0.013}
TABLE = limits_table(PART_SECONDS, {"neighbour sums": 0.0005, "products": 0.004}, wire_s=0.006, overlapped=True)


def test_bars_show_measured_times_and_their_limits() -> None:
    bundle = draw_limits(TABLE)
    measured, limit = bundle.figure.data
    assert list(measured.y) == ["neighbour sums", "products", "wire", "other"]
    assert list(measured.x) == pytest.approx([4, 5, 3, 1]) and list(measured.text) == ["8.0 ×", "1.2 ×", "0.5 ×", ""]
    assert list(limit.y) == ["neighbour sums", "products", "wire"]  # other time has no limit, and so no bar
    assert list(limit.x) == pytest.approx([0.5, 4, 6])
    assert measured.marker.color != limit.marker.color and limit.marker.pattern.shape == "/"
    assert "(ms)" in bundle.figure.layout.xaxis.title.text
    assert list(bundle.frame.index) == list(TABLE.index)


def test_a_table_without_the_epoch_is_refused() -> None:
    with pytest.raises(ValueError, match="the table must have a row 'epoch', got"):
        draw_limits(TABLE.drop("epoch"))
