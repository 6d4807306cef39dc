"""Charts show their table: series, units and names, on axes and in panels; values without a logarithm are left out."""

from __future__ import annotations

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.lab.figures.theme import OKABE_ITO, style_of

charts = gq.charts
TABLE = pd.DataFrame({
    "workers": [2, 4, 2, 4], "system": ["vanilla", "vanilla", "adaqp", "adaqp"], "ms": [8.0, 4.0, 2.0, 0.0],
    "half": [0.5, 0.25, 0.1, 0.1], "link": ["a", "b", "a", "b"],
})  # fmt: skip
TABLE.attrs["units"] = {"ms": "milliseconds"}


def test_series_are_split_by_a_column_and_axis_titles_have_units() -> None:
    figure = charts.lines(TABLE, x="workers", y="ms", by="system", styles=style_of, error="half", details="link")
    vanilla, adaqp = figure.data
    assert (vanilla.name, list(vanilla.x), list(vanilla.y)) == ("vanilla", [2, 4], [8.0, 4.0])
    assert adaqp.line.color == style_of("adaqp").color and list(adaqp.error_y.array) == [0.1, 0.1]
    assert (figure.layout.xaxis.title.text, figure.layout.yaxis.title.text) == ("workers", "ms (milliseconds)")
    assert list(vanilla.customdata) == ["a", "b"] and "%{customdata}" in vanilla.hovertemplate


def test_columns_are_series_with_names_and_styles_in_words() -> None:
    wide = TABLE.pivot(index="workers", columns="system", values="ms")
    figure = charts.lines(wide, y={"adaqp": "few bits", "vanilla": "all"}, styles={"adaqp": "green dash x"})
    few, every = figure.data
    assert (few.name, few.line.color, few.line.dash, few.marker.symbol) == ("few bits", OKABE_ITO["green"], "dash", "x")
    assert every.name == "all" and list(every.y) == [8.0, 4.0] and figure.layout.xaxis.title.text == "workers"
    both = {"adaqp": ("few bits", "green dash x"), "vanilla": ("all", "sky")}
    assert charts.lines(wide, y=both).data[0] == few
    bars = charts.bars(wide, y={"adaqp": ("few bits", "green x"), "vanilla": ("all", "sky")}).data
    assert [bar.marker.pattern.shape for bar in bars] == ["x", ""]


def test_logarithmic_axis_omits_values_without_a_logarithm() -> None:
    figure = charts.scatter(TABLE, x="workers", y="ms", by="system", log="y")
    assert figure.layout.yaxis.type == "log" and list(figure.data[1].y) == [2.0, None]


def test_a_band_and_levels_lie_beside_the_line() -> None:
    table = pd.DataFrame({"mean": [2.0, 3.0], "low": [1.0, 2.0], "high": [3.0, 4.0]})
    figure = charts.lines(table, y="mean", band=("low", "high"), levels={"limit": 2.5}, title="Means")
    band, line = figure.data
    assert list(band.y) == [3.0, 4.0, 2.0, 1.0] and band.showlegend is False and list(line.y) == [2.0, 3.0]
    assert figure.layout.shapes[0].y0 == 2.5 and figure.layout.annotations[0].text == "limit"
    assert figure.layout.meta["caption"] == "Means: mean 2 to 3."


def test_bars_are_grouped_or_stacked() -> None:
    table = pd.DataFrame({"codes": [8, 4], "scales": [1, 2], "said": ["many", "few"]}, index=["8 bits", "4 bits"])
    figure = charts.bars(table, y=["codes", "scales"], horizontal=True, stacked=True, text={"codes": "said"})
    codes, scales = figure.data
    assert (codes.orientation, list(codes.x), list(codes.y)) == ("h", [8, 4], ["8 bits", "4 bits"])
    assert list(codes.text) == ["many", "few"] and scales.text is None
    assert figure.layout.barmode == "stack" and figure.layout.yaxis.autorange == "reversed"
    assert codes.marker.pattern.shape != scales.marker.pattern.shape
    grouped = charts.bars(table.set_index([["a", "a"], table.index]), y="codes")
    assert [list(level) for level in grouped.data[0].x] == [["a", "a"], ["8 bits", "4 bits"]]


def test_lanes_hold_spans_in_the_order_of_their_styles() -> None:
    spans = pd.DataFrame({
        "rank": ["worker 0", "worker 1", "worker 1"], "what": ["wait", "encode", "other"], "from": [0.0, 1.0, 2.0],
        "to": [2.0, 4.0, 3.0],
    })  # fmt: skip
    styles = {"encode": "purple", "wait": "vermillion x"}
    figure = charts.lanes(
        spans, lane="rank", start="from", end="to", by="what", styles=styles, order=["worker 0", "worker 1"]
    )
    encode, wait = figure.data
    assert (encode.name, list(encode.base), list(encode.x)) == ("encode", [1.0], [3.0])
    assert wait.marker.pattern.shape == "x" and list(figure.layout.yaxis.categoryarray) == ["worker 0", "worker 1"]


def test_panels_have_one_legend_and_write_a_shared_title_once() -> None:
    wide = TABLE.pivot(index="workers", columns="system", values="ms")
    parts = {name: charts.lines(wide, y=list(wide), y_axis="time (ms)", levels={"": 1.0}) for name in ("one", "two")}
    parts["two"].add_annotation(x=2, y=3, text="here", showarrow=False)
    figure = charts.panels({**parts, "none": None}, share_y=True, title="Twice", caption="Both.", height=400)
    assert [(trace.name, trace.xaxis, trace.showlegend) for trace in figure.data] == [
        ("adaqp", "x", True), ("vanilla", "x", True), ("adaqp", "x2", False), ("vanilla", "x2", False),
    ]  # fmt: skip
    assert (figure.layout.yaxis.title.text, figure.layout.yaxis2.title.text) == ("time (ms)", None)
    assert [shape.yref for shape in figure.layout.shapes] == ["y", "y2"]
    *titles, here = (each for each in figure.layout.annotations if each.text)
    assert [each.text for each in titles] == ["one", "two"] and (here.xref, here.yref) == ("x2", "y2")
    assert (figure.layout.meta["caption"], figure.layout.height) == ("Both.", 400)
    with pytest.raises(ValueError, match="at least one chart"):
        charts.panels([])


def test_a_slider_exchanges_values_of_the_traces_it_names() -> None:
    figure = charts.lines(TABLE.head(2), y=["ms", "half"], title="Two")
    charts.add_slider(figure, {0: {"y": [[1, 2]]}, 5: {"y": [[3, 4]]}}, start=5, prefix="epoch ", traces=[1])
    slider = figure.layout.sliders[0]
    assert slider.active == 1 and list(map(list, slider.steps[0].args)) == [["y"], [1]]


def test_ticks_are_the_values_thinned_where_they_are_many() -> None:
    assert value_ticks([4, 2, 4])["ticktext"] == ["2", "4"]
    assert value_ticks(range(1, 21), log=False, most=5)["tickvals"] == [1, 5, 9, 13, 17]
