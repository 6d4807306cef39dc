"""Seven models over one exchange: errors by depth, and trainings beside one process."""

from __future__ import annotations

import pytest

from gnnqlab import course
from gnnqlab.course.depth_views import draw_depth
from gnnqlab.course.experiments.depth_error import SEVEN, depth_error, train_models
from gnnqlab.partition.parts import partition


@pytest.fixture(scope="module")
def small():
    return partition(course.ten_nodes(), course.Halves(), workers=2)


def test_exact_messages_err_by_rounding_alone(small) -> None:
    table = depth_error(small, depths=(3,), bits=32, hidden=8, repeats=1)
    assert set(table.index.get_level_values("model")) == set(SEVEN)
    assert (table < 1e-2).all(axis=None)  # percent: 1e-4 of float32 sums in another order


def test_fewer_bits_err_more(small) -> None:
    few, many = (depth_error(small, models=("gcn",), depths=(3,), bits=bits, hidden=8) for bits in (2, 8))
    assert (few > 4 * many).all(axis=None)  # 3 steps against 255


def test_a_line_for_every_model(small) -> None:
    table = depth_error(small, models=("gcn",), depths=(2,), bits=2, hidden=8)
    figure = draw_depth(table).figure.to_dict()
    assert "gcn" in figure["layout"]["meta"]["caption"]
    assert figure["layout"]["yaxis"]["title"]["text"].endswith("(%)")


def test_the_law_holds_for_all_seven(small) -> None:
    table = train_models(small, layers=3, bits=(32,), hidden=8, epochs=3)
    assert list(table.index) == list(SEVEN)
    assert (table["2 workers, 32 bits: loss"] - table["one process: loss"]).abs().max() < 1e-4
