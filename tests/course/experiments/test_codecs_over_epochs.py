"""The errors of codecs along a training are those of the rows it would send, in the bytes they would take."""

from __future__ import annotations

from dataclasses import replace

import pytest

import gnnqlab as gq
from gnnqlab.course.experiments.codecs_over_epochs import codecs_over_epochs
from gnnqlab.message import Codec
from gnnqlab.nn import ModelSettings
from gnnqlab.simulation.codec_error import codec_error, trained_rows
from gnnqlab.simulation.gradient_noise import trained_weights

GRAPH, SHAPE = gq.load("sbm:80,3,6"), ModelSettings(layers=2, hidden=16, dropout=0.0)
RECIPE = replace(gq.systems.vanilla(), partition=gq.Random())


def test_lines_are_the_errors_of_that_epochs_rows() -> None:
    codecs: dict[str, Codec] = {"min-max": gq.Stochastic(), "eight": gq.MXFP8()}
    found = codecs_over_epochs(GRAPH, codecs, model=SHAPE, epochs=(0, 3), bits=(1, 8), system=RECIPE, rows=50)
    assert set(found[found["codec"] == "eight"]["bits"]) == {8}  # a width that it has not got has no line
    sent = trained_rows(GRAPH, SHAPE, trained_weights(GRAPH, SHAPE, 3), most=50, system=RECIPE)
    for place, rows in sent.items():
        at = (found["direction"] == place.direction) & (found["layer"] == place.layer) & (found["bits"] == 1)
        here = found[at & (found["epoch"] == 3)]
        assert here["squared"].item() == codec_error(codecs["min-max"], rows, 1, draws=8).squared
        assert here["row_bytes"].item() == 8 + -(-rows.shape[1] // 8)
    hidden = found.query("direction == 'forward' and layer == 1 and bits == 1").set_index("epoch")["squared"]
    assert hidden[0] != hidden[3], "rows change as weights do"


def test_epochs_rise() -> None:
    with pytest.raises(ValueError, match=r"epochs must rise from 0 on, got \[5, 0\]"):
        codecs_over_epochs(GRAPH, {"min-max": gq.Stochastic()}, model=SHAPE, epochs=(5, 0))
