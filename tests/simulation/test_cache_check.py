"""The error of a cache in the gradient, compared with its bound."""

from __future__ import annotations

import pytest

import gnnqlab as gq
from gnnqlab.graph import load
from gnnqlab.message import AdaptiveCache
from gnnqlab.nn import ModelSettings

SHAPE = ModelSettings(layers=2, hidden=8)


def test_the_bound_holds_over_a_descent_in_which_rows_stay_home_and_epsilon_moves() -> None:
    found = gq.theory.cache_error(load("sbm:80,3,6"), AdaptiveCache(epsilon=0.1, mu2=0.0), SHAPE, epochs=40)
    frame = found.frame
    assert (frame["mean_square"] <= frame["bound"]).all() and (frame["printed"] < frame["bound"])[1:].all()
    assert frame["sent"].iloc[0] == 1 and frame["sent"][1:].mean() < 0.9
    assert frame["error_square"].iloc[0] < 1e-10 < frame["error_square"][1:].max(), "the cache is empty at first"
    assert frame["epsilon"].nunique() > 1 and frame["loss"].iloc[-1] < frame["loss"].iloc[0]


def test_a_larger_epsilon_errs_more_and_sends_less_and_none_errs_not() -> None:
    graph = load("sbm:80,3,6")
    found = [
        gq.theory.cache_error(graph, AdaptiveCache(epsilon=epsilon, rule="fixed"), SHAPE, epochs=15).frame
        for epsilon in (0.0, 0.02, 0.2)
    ]
    errors, shares = ([frame[name].mean() for frame in found] for name in ("error_square", "sent"))
    assert errors[0] < 1e-9 < errors[1] < errors[2]
    assert shares[0] > shares[1] > shares[2]


def test_cache_error_with_zero_epochs_raises_value_error() -> None:
    with pytest.raises(ValueError, match="epochs and looks must be at least 1"):
        gq.theory.cache_error(load("sbm:80,3,6"), epochs=0)
