"""Figures: their data, axes and style."""

import re

import pytest

from gnnqlab.lab.figures.theme import PHASES, style_of, template
from gnnqlab.lab.training import plots
from tests.cases import each
from tests.lab.synthetic import make_run

RECORDS = {
    "vanilla": make_run(epochs=12).records,
    "fixed-bits": make_run("fixed-bits", bits=2, epochs=12).records,
}
TRAFFIC = make_run(workers=3, epochs=4).traffic

FIGURES = {
    "loss": lambda dark: plots.convergence(RECORDS, value="loss", dark=dark),
    "score": lambda dark: plots.convergence(RECORDS, dark=dark),
    "time": lambda dark: plots.convergence(RECORDS, against="time", dark=dark),
    "breakdown": lambda dark: plots.breakdown(RECORDS, dark=dark),
    "breakdown mean": lambda dark: plots.breakdown(RECORDS, per_worker=False, dark=dark),
    "traffic": lambda dark: plots.traffic_map(TRAFFIC, label="vanilla", dark=dark),
    "volume": lambda dark: plots.volume(RECORDS, dark=dark),
    "tiers": lambda dark: plots.tiers({"vanilla": TRAFFIC, "adaqp": TRAFFIC}, dark=dark),
}


@each("dark", [False, True])
@each("name", FIGURES)
def test_every_figure_has_titles_axes_caption_and_look(name: str, dark: bool) -> None:
    layout = FIGURES[name](dark).to_dict()["layout"]
    assert layout["title"]["text"]
    assert layout["xaxis"]["title"]["text"]
    assert layout["yaxis"]["title"]["text"]
    assert len(layout["meta"]["caption"]) > 20
    assert layout["template"]["layout"]["font"] == template(dark=dark)["layout"]["font"]


def test_system_has_the_same_style_in_every_figure() -> None:
    loss, score = (FIGURES[name](False).to_dict()["data"] for name in ("loss", "score"))
    for one, other in zip(loss, score):
        assert one["line"] == other["line"]
        assert one["line"]["color"] == style_of(one["name"]).color
        assert one["marker"]["symbol"] == style_of(one["name"]).symbol


def test_known_systems_differ_in_dash_or_symbol_without_colour() -> None:
    known = ["vanilla", "fixed-bits", "random-bits", "adaqp", "adaqp-q", "sylvie", "pipegcn", "cdfgnn", "tango",
             "tango-int4", "exact", "sancus", "bns-gcn", "sar", "adaqp-r", "sylvie-r", "low-rank",
             "feature-parallel", "gradients-only"]  # fmt: skip
    assert len({(style_of(name).dash, style_of(name).symbol) for name in known}) == len(known)


def test_runs_of_one_system_have_distinct_line_styles_in_one_figure() -> None:
    records = RECORDS["vanilla"]
    names = ["vanilla", *(f"adaqp (λ {at})" for at in (0.2, 0.4, 0.6, 0.8)), "adaqp-r (λ 0.2)", "adaqp-r (λ 0.8)"]
    lines = plots.convergence(dict.fromkeys(names, records)).to_dict()["data"]
    assert [line["name"] for line in lines] == names
    assert len({(line["line"]["dash"], line["marker"]["symbol"]) for line in lines}) == len(names), "in grey too"
    assert len({(line["line"]["color"], line["marker"]["symbol"]) for line in lines}) == len(names)
    first = style_of("adaqp")
    assert (lines[1]["line"]["color"], lines[1]["line"]["dash"]) == (first.color, first.dash)
    assert all(re.fullmatch("#[0-9a-f]{6}", line["line"]["color"]) for line in lines)


def test_an_unknown_system_keeps_its_look() -> None:
    assert style_of("my-own") == style_of("my-own")
    assert style_of("my-own").color != style_of("vanilla").color


def test_epochs_without_a_score_are_left_out() -> None:
    (trace, _) = plots.convergence(RECORDS).to_dict()["data"]
    assert list(trace["x"]) == [0, 2, 4, 6, 8, 10, 11]
    assert trace["y"][0] == pytest.approx(10.0), "percent"


def test_time_grows() -> None:
    (trace, _) = plots.convergence(RECORDS, against="time", value="loss").to_dict()["data"]
    assert all(a < b for a, b in zip(trace["x"], trace["x"][1:]))


def test_the_bars_of_a_worker_add_up_to_its_epoch() -> None:
    data = plots.breakdown({"vanilla": RECORDS["vanilla"]}).to_dict()["data"]
    records = RECORDS["vanilla"]
    steady = records[(records["rank"] == 0) & (records["epoch"] > 0)]
    assert sum(trace["x"][0] for trace in data) == pytest.approx(1000 * steady["epoch_s"].mean())
    assert {trace["name"] for trace in data} <= {phase.label for phase in PHASES}


def test_traffic_map_is_blank_on_the_diagonal() -> None:
    (trace,) = plots.traffic_map(TRAFFIC).to_dict()["data"]
    assert trace["z"][1][1] != trace["z"][1][1], "not a number"
    assert trace["z"][0][1] == 4 * 1000 * 64 * 4
    assert trace["text"][0][1] == "1.02 MB"


def test_the_map_of_one_worker_can_be_drawn() -> None:
    plots.traffic_map(make_run(workers=1, epochs=2).traffic, workers=1)


def test_volume_names_the_saving() -> None:
    layout = plots.volume(RECORDS).to_dict()["layout"]
    assert "1/10.7" in layout["annotations"][1]["text"]


@each("draw", [plots.convergence, plots.breakdown, plots.volume, plots.tiers])
def test_figures_without_runs_raise_value_error(draw) -> None:
    with pytest.raises(ValueError, match="at least one run, got none"):
        draw({})


def test_unknown_values_are_refused() -> None:
    with pytest.raises(ValueError, match="value must be one of .*got 'speed'"):
        plots.convergence(RECORDS, value="speed")
    with pytest.raises(ValueError, match="against must be one of .*got 'hours'"):
        plots.convergence(RECORDS, against="hours")
