"""Time and variance: fronts, all assignments of a small problem, solvers that agree, equal bytes."""

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.course.experiments.sensitivity import group_size_table
from gnnqlab.course.experiments.time_and_variance import (
    assign_at_equal_bytes,
    assignments_chart,
    pareto_chart,
    solvers_table,
    variance_at_equal_bytes,
)
from gnnqlab.tune.probe import Probe


@pytest.fixture(scope="module")
def probe() -> Probe:
    settings = {"hidden": 8, "layers": 2, "epochs": 4, "link": "1mbit", "hosts": 2, "launched": False}
    return gq.probe("sbm:200,3,6", theorem=False, **settings)


@pytest.fixture
def problem() -> Problem:
    return Problem(
        widths=(2, 8), columns=4, lam=0.5, group_pair=[0, 0, 1], group_rows=[1, 1, 1], group_beta=[9.0, 0.1, 3.0],
        pair_link=[0, 1], link_round=[0, 0], theta_s_per_byte=[1.0, 1.0], gamma_s=[0.0, 0.0],
    )  # fmt: skip


def test_the_front_is_drawn_as_it_was_forecast(probe: Probe) -> None:
    front = probe.front((0.0, 0.5, 1.0), group_size=5)
    four = probe.forecast(system="fixed-bits", bits=4)
    shown = pareto_chart(front, chosen=front[1], beside={"4 bits everywhere": four}, dark=True)
    line, beside, star = shown.figure.data
    assert list(line.x) == [1e3 * each.epoch_s for each in front]
    assert list(line.y) == [each.total_variance for each in front]
    assert (beside.x[0], beside.y[0]) == (1e3 * four.epoch_s, four.total_variance)
    assert (star.x[0], star.name) == (1e3 * front[1].epoch_s, "λ = 0.5")
    assert shown.frame.index.tolist() == ["λ = 0", "λ = 0.5", "λ = 1", "4 bits everywhere"]
    assert "ms" in shown.figure.layout.xaxis.title.text and "1mbit" in shown.figure.layout.meta["caption"]


def test_a_front_without_points_is_refused(probe: Probe) -> None:
    with pytest.raises(ValueError, match="at least one forecast"):
        pareto_chart([])
    with pytest.raises(ValueError, match="must have a λ"):
        pareto_chart([probe.vanilla])


def test_all_assignments_and_those_that_a_lam_chooses(problem: Problem) -> None:
    shown = assignments_chart(problem)
    every, chosen = shown.figure.data
    assert len(every.x) == 8 and len(set(every.customdata)) == 8
    # The third group is alone on its link, so 8 bits cost no extra time even if the first two take 2 bits each.
    assert {widths.strip() for widths in chosen.text} == {"2 2 8", "8 2 8", "8 8 8"}
    index = problem.choice([8, 2, 8])
    assert shown.frame.loc["8 2 8"].tolist()[:2] == [1e3 * problem.seconds(index), problem.variance(index)]


def test_only_small_problems_are_listed(problem: Problem) -> None:
    many = Problem(
        widths=(2, 8), columns=4, lam=0.5, group_pair=[0] * 9, group_rows=[1] * 9, group_beta=[1.0] * 9,
        pair_link=[0], link_round=[0], theta_s_per_byte=[1.0], gamma_s=[0.0],
    )  # fmt: skip
    with pytest.raises(ValueError, match="at most 8 groups, got 9"):
        assignments_chart(many)
    assert solvers_table(many, highs=False).index.tolist() == ["fast solver"]


def test_solvers_agree(problem: Problem) -> None:
    table = solvers_table(problem)
    assert {"brute force", "fast solver"} <= set(table.index)
    assert np.ptp(table["objective"]) < 1e-9 and (table["gap"] < 1e-4).all()


def test_at_equal_bytes_keeps_to_the_limit(probe: Probe) -> None:
    chance = probe.forecast(system="random-bits").bytes_sent
    found = assign_at_equal_bytes(probe, group_size=5)
    assert found.bytes_sent <= chance
    finer = [each for each in probe.front(np.linspace(0, 1, 41), group_size=5) if each.bytes_sent <= chance]
    assert found.total_variance == min(each.total_variance for each in finer)
    with pytest.raises(ValueError, match="no λ sends at most 10 bytes"):
        assign_at_equal_bytes(probe, most_bytes=10)


def test_assigned_widths_have_less_variance_than_random_ones(probe: Probe) -> None:
    table = variance_at_equal_bytes(gq.load("sbm:200,3,6"), probe, group_size=5, repeats=12)
    assert table["kB"].iloc[0] <= table["kB"].iloc[1]
    assert table["times"].iloc[0] == 1.0 and table["times"].iloc[1] > 1.0
    assert (table["V"] > 0).all() and (table["±"] < table["variance"]).all()
    limit = int(1e3 * table["kB"].iloc[0]) - 1
    narrow = variance_at_equal_bytes(gq.load("sbm:200,3,6"), probe, most_bytes=limit, group_size=5, repeats=2)
    assert 1e3 * narrow["kB"].iloc[0] <= limit and narrow["V"].iloc[0] > table["V"].iloc[0]


def test_group_sizes_have_a_line_for_each_seed() -> None:
    table = group_size_table(
        "sbm:200,3,6", sizes=(2, 50), seeds=(0, 1), repeats=4, epochs=4, hidden=8, layers=2, hosts=2, link="1mbit"
    )
    assert table[["group_size", "seed"]].to_numpy().tolist() == [[2, 0], [50, 0], [2, 1], [50, 1]]
    assert (table["variance"] > 0).all() and (table["bytes_sent"] > 0).all()
