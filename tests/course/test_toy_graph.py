"""The toy graph's numbers come out as the paper prints them; codes err by their steps."""

from __future__ import annotations

import pytest

from gnnqlab.course.toy_graph import PAPER, toy_layer, toy_table


def test_the_printed_numbers_come_out() -> None:
    """Inputs are printed to two digits: a sum of two products of numbers up to one is off by 0.016 at most."""
    found = toy_layer()
    for name, (_, printed) in PAPER.items():
        assert found[name].tolist() == pytest.approx(printed, abs=0.016), name


def test_fewer_bits_err_more() -> None:
    eight, four = (toy_table(bits=bits)["codes off by"] for bits in (8, 4))
    assert (eight < 0.02).all() and (four > eight).all()
