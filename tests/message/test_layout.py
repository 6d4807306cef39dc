"""The byte layout: every row has its position, none overlaps, and the size is that of the format."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnqlab.bits.row import two_parameters
from gnnqlab.message.layout import make_layout

pytestmark = pytest.mark.core


@given(
    widths=st.lists(st.sampled_from([1, 2, 4, 8]), max_size=40),
    columns=st.integers(1, 70),
    parameter=st.sampled_from([2, 4]),
)
def test_rows_follow_each_other_without_gap(widths, columns, parameter):
    layout = make_layout(
        torch.tensor(widths, dtype=torch.uint8), len(widths), columns, param_bytes=two_parameters(parameter)
    )
    sizes = [-(-columns * width // 8) for width in widths]
    assert layout.payload_bytes == sum(sizes)
    assert layout.num_bytes == sum(sizes) + 2 * parameter * len(widths)
    assert sum(share.rows for share in layout.shares) == len(widths)
    place = 0
    for position, plan_row in enumerate(layout.order.tolist()):
        assert int(layout.offsets[position]) == place
        assert int(layout.bits[position]) == widths[plan_row]
        place += sizes[plan_row]


def test_wide_rows_come_first_and_keep_their_order():
    layout = make_layout(torch.tensor([2, 8, 2, 8], dtype=torch.uint8), 4, 8, param_bytes=two_parameters(4))
    assert layout.order.tolist() == [1, 3, 0, 2]


def test_one_width_needs_no_table():
    layout = make_layout(2, 10, 9, param_bytes=two_parameters(4))
    assert layout.order is None and layout.offsets is None
    assert (layout.payload_bytes, layout.param_bytes) == (30, 80)


def test_widths_must_fit():
    with pytest.raises(ValueError, match=r"widths must have one entry per row, got shape \(2,\) for 3 rows"):
        make_layout(torch.tensor([2, 2], dtype=torch.uint8), 3, 4, param_bytes=two_parameters(4))
