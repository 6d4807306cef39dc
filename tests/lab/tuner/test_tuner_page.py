"""The page of a tuner without a kernel: forecasts of the model, in panels of the tuner's figure."""

from __future__ import annotations

from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.lab.tuner.tuner_page import write_tuner_page
from tests.pages import light_values


def test_a_page_holds_the_forecasts_of_the_model(tmp_path: Path) -> None:
    tuner = gq.Tuner("sbm:60,3,6", workers=2, hidden=8, layers=2, measure=False, lam=0.3, link="loopback")
    before = tuner.model.settings
    page = write_tuner_page(tuner.model, tmp_path / "tuner.html", links=("loopback",)).read_text(encoding="utf-8")
    assert tuner.model.settings == before and len(page) < 1_000_000 and page.count("://") == 1
    held = light_values(page)
    lam, size, link = (choice["options"] for choice in held["choices"])
    assert lam[3] == "0.3" and link == ["loopback"] and len(held["states"]) == 11 * len(size)
    (step,) = held["states"]["3,1,0"]
    phases, rows, front = (held["figures"][figure["light"]]["data"] for figure in step["figures"])
    assert sum(trace["x"][1] for trace in phases) == pytest.approx(1e3 * tuner.forecast.epoch_s, rel=1e-3)
    assert sum(rows[0]["y"]) == pytest.approx(100, abs=0.5) and len(front[0]["x"]) == 11
    assert "gq.launch(" in step["words"] and "lam=0.3" in step["words"]


def test_a_system_without_lambda_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="needs a system with λ, got vanilla; choose system='adaqp' before"):
        gq.Tuner("sbm:60,3,6", system="vanilla", measure=False).export(tmp_path / "tuner.html")
