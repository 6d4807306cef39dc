"""What a live view costs the run it watches, measured for a moment."""

import pytest

from gnnqlab.bench import live as bench


def test_both_kinds_of_blocks_are_measured_in_one_run(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("anywidget")
    monkeypatch.setattr(bench, "GRAPH", "sbm:2000,4,8")
    monkeypatch.setattr(bench, "BLOCK_S", 1.5)
    monkeypatch.setattr(bench, "_in_kernel", bench.alternate)  # a kernel takes long to start
    epoch, process = bench.live(repeats=1)
    assert epoch["value"] > 0 and epoch["rival_value"] > 0 and epoch["unit"] == "s"
    assert epoch["ratio"] == pytest.approx(epoch["rival_value"] / epoch["value"]) and epoch["goal"] == 1 / 1.01
    assert 0 <= process["rival_value"] and process["unit"] == "% of one core"
