"""The timeline of a layer: waits, and overlapped work."""

import pytest
from pandas import DataFrame

from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training.hiding_table import hiding_table
from gnnqlab.lab.training.timeline_view import hidden_share, layer_timeline, shown_layer, timeline_chart
from tests.lab.synthetic import make_run, make_timeline


def test_times_count_from_the_first_begin() -> None:
    found = layer_timeline(make_timeline(overlapped=False), epoch=4)
    assert set(found["epoch"]) == {4} and found["start (ms)"].min() == 0.0
    late = found[(found["rank"] == 1) & (found["what"] == "wait")].iloc[0]
    assert (late["start (ms)"], late["end (ms)"]) == pytest.approx((1.0, 11.0))


def test_without_an_epoch_the_median_one_is_taken() -> None:
    timeline = make_timeline(overlapped=False)
    last = timeline["what"] == "marginal"
    timeline.loc[last & (timeline["epoch"] == 2), "end_s"] += 0.05
    timeline.loc[last & (timeline["epoch"] == 4), "end_s"] += 0.02
    assert set(layer_timeline(timeline)["epoch"]) == {4}


def test_hidden_share_is_the_transfer_time_without_waiting() -> None:
    assert hidden_share(make_timeline(overlapped=False)) == pytest.approx(0.0, abs=1e-9)
    assert hidden_share(make_timeline(overlapped=True)) == pytest.approx(0.4)
    with pytest.raises(ValueError, match="needs recorded transfers"):
        hidden_share(make_timeline(overlapped=True).query("what == 'wait'"))


def test_one_layer_is_shown_and_the_second_if_it_can_be() -> None:
    second = make_timeline(overlapped=True)
    assert shown_layer(second) == 1
    assert shown_layer(second.assign(layer=3)) == 3
    assert shown_layer(second.assign(direction="backward")) is None
    assert shown_layer(second.head(0)) is None


def test_phases_look_as_in_the_breakdown_of_an_epoch() -> None:
    of_epochs = {phase.label: phase.color for phase in PHASES}
    chart = timeline_chart({"run": make_timeline(overlapped=True)}).figure
    drawn = {trace.name: trace.marker for trace in chart.data}
    for label in ("central rows", "marginal rows"):
        assert drawn[label].color == of_epochs[label] and drawn[label].pattern.fillmode == "overlay"
    assert drawn["wait"].color == of_epochs["wait for messages"]


def test_a_panel_a_run_and_two_lines_a_worker() -> None:
    runs = {"in turn": make_timeline(overlapped=False), "overlapped": make_timeline(overlapped=True)}
    shown = timeline_chart(runs, dark=True)
    assert [note.text for note in shown.figure.layout.annotations] == ["in turn", "overlapped"]
    assert list(shown.figure.layout.yaxis.categoryarray) == [
        "worker 0", "worker 0 · wire", "worker 1", "worker 1 · wire",
    ]  # fmt: skip
    central = [trace for trace in shown.figure.data if trace.name == "central rows"]
    assert [trace.base[0] for trace in central] == pytest.approx([10.0, 0.0])
    assert [trace.showlegend for trace in central] == [True, False], "one entry in the legend, not two"
    assert len({(trace.marker.color, trace.marker.pattern.shape) for trace in central}) == 1
    assert "a worker waits 6 ms" in shown.figure.layout.meta["caption"]
    assert set(shown.frame.index) == {"in turn", "overlapped"}
    assert "milliseconds" in shown.figure.layout.xaxis2.title.text


def test_unrecorded_layer_epoch_or_timeline_raises_value_error() -> None:
    with pytest.raises(ValueError, match=r"nothing was recorded of layer 5, forward; .* \[1\]"):
        layer_timeline(make_timeline(overlapped=True), layer=5)
    with pytest.raises(ValueError, match=r"epoch must be one that was recorded, \[2, 4, 6\], got 3"):
        layer_timeline(make_timeline(overlapped=True), epoch=3)
    with pytest.raises(ValueError, match="at least one timeline"):
        timeline_chart({})


def test_the_table_of_workers() -> None:
    records = make_run("adaqp", bits=4, epochs=6).records
    table = hiding_table(records)
    assert table.index.tolist() == ["worker 0", "worker 1"]
    one = records[(records["rank"] == 0) & (records["epoch"] > 0)]
    assert table.loc["worker 0", "waited"] == pytest.approx(1e3 * one["wait_s"].median())
    assert ((table["hidden (%)"] > 50) & (table["hidden (%)"] < 100)).all()
    with pytest.raises(ValueError, match="at least one recorded epoch"):
        hiding_table(records.head(0))


def _slow(timeline: DataFrame, epoch: int) -> DataFrame:
    """Return a timeline whose last rows took 50 ms longer in an epoch."""
    late = (timeline["what"] == "marginal") & (timeline["epoch"] == epoch)
    return timeline.assign(end_s=timeline["end_s"] + 0.05 * late)


def test_compared_timelines_show_the_same_epoch_and_name_it_in_the_title() -> None:
    # Alone, the median epoch of the first is 4 and that of the second 2. Relative to their medians, the sum of both was
    # 2 in epoch 2, 2.8 in epoch 4 and 4.5 in epoch 6.
    first = _slow(make_timeline(overlapped=False), 6)
    second = _slow(_slow(make_timeline(overlapped=True), 2), 4)
    second.loc[(second["what"] == "marginal") & (second["epoch"] == 4), "end_s"] += 0.05
    second.loc[(second["what"] == "marginal") & (second["epoch"] == 6), "end_s"] += 0.01
    assert {int(layer_timeline(each)["epoch"].iloc[0]) for each in (first, second)} == {4, 2}
    shown = timeline_chart({"in turn": first, "overlapped": second})
    assert set(shown.frame["epoch"]) == {4}
    assert shown.figure.layout.title.text == "Layer 2, forward, epoch 4: computation and waits"
    assert [note.text for note in shown.figure.layout.annotations] == ["in turn", "overlapped"]


def test_timelines_without_a_common_epoch_name_the_epoch_of_each_panel() -> None:
    other = make_timeline(overlapped=True).assign(epoch=lambda table: table["epoch"] + 1)
    shown = timeline_chart({"in turn": make_timeline(overlapped=False), "overlapped": other}).figure
    assert [note.text for note in shown.layout.annotations] == ["in turn, epoch 4", "overlapped, epoch 5"]
    assert "in epoch 4" in shown.layout.meta["caption"] and "in epoch 5" in shown.layout.meta["caption"]
    assert "epoch" not in shown.layout.title.text
