"""Entropy of codes compared with sent bits: from counted messages to the figure."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.lab.training.entropy_view import draw_entropy, entropy_by_place
from gnnqlab.lab.training.snapshot import take
from gnnqlab.run import folder as files
from gnnqlab.systems import vanilla
from gnnqlab.train.heartbeat import Heartbeat
from gnnqlab.train.loop.fit import fit
from tests.lab.synthetic import make_run
from tests.ranks import run_ranks


def train_one(rank, workers, config, folder):
    fit(config, folder, rank, workers, Heartbeat(folder / "heartbeat" / f"rank{rank}", rank))


def test_entropy_is_counted_in_the_configured_epochs_and_drawn(tmp_path):
    codec, bits = (
        (gq.codecs.Stochastic(), gq.codecs.Float32()),
        (gq.bits.UniformRandom(bit_widths=(2, 8), period=1), gq.bits.Fixed()),
    )
    system = replace(vanilla(), partition=gq.partitioners.Random(), codec=codec, bits=bits)
    config = gq.configure(
        "digits", system=system, layers=2, hidden=8, epochs=3, workers=2, timeline_every=0, entropy_every=2
    )
    folder = files.create(tmp_path, "counted")
    files.write_json(folder / "config.json", config.to_json())
    files.write_json(folder / "status.json", {"state": "finished", "epoch": 2, "errors": []})
    run_ranks(train_one, 2, config, folder)
    run = gq.Run(folder)
    traffic, bundle = run.traffic, draw_entropy(run)
    forward = traffic[traffic["direction"] == "forward"]
    assert forward["entropy"].notna().eq(forward["epoch"] % 2 == 0).all() and forward["epoch"].max() == 2
    counted = forward.dropna()
    assert (counted["entropy"] > 0).all() and (counted["entropy"] <= counted["bits"]).all()
    assert traffic.loc[traffic["direction"] == "backward", "entropy"].isna().all(), "float32 has no codes"
    assert list(bundle.frame.index) == ["forward, layer 0", "forward, layer 1"]
    caption = bundle.figure.layout.meta["caption"]
    assert "No codes: backward (codec float32)." in caption and "Bits per element and entropy" in caption


def test_bars_are_means_over_elements(tmp_path):
    run = take(make_run(bits=2, epochs=1))
    halved = run.traffic.assign(entropy=[0.5 if layer == 1 else None for layer in run.traffic["layer"]])
    counted = replace(run, traffic=halved)
    table = entropy_by_place(halved)
    assert table.loc[(1, "forward")].tolist() == [2.0, round(64 / 64, 2), 0.5] and len(table) == 2
    figure = gq.compare([counted]).entropy().figure
    bars = {bar.name: list(bar.y) for bar in figure.data}
    assert bars == {"codes sent": [2.0, 2.0], "parameters sent": [1.0, 1.0], "entropy of the codes": [0.5, 0.5]}
    assert figure.layout.yaxis.title.text == "bits per element"
    report = gq.compare([counted, run]).report(tmp_path / "report.html").read_text()
    assert report.count("Bits sent and entropy of the codes") > 0


def test_draw_entropy_without_counts_raises_value_error_with_the_codec():
    with pytest.raises(ValueError, match="with codec float32 and none counted; launch it with entropy_every=1"):
        draw_entropy(make_run(epochs=1))
