"""Slides of a notebook: a slide per heading, figures without code."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs.site.slides import main, slides
from tests.pages import ROOT

BOOK = ROOT / "notebooks" / "04_messages_in_few_bits.ipynb"


def test_headings_are_slides_and_code_is_left_out() -> None:
    page = slides(BOOK, reveal="reveal.js")
    assert page.count("<section>") > 15 and "<h1" in page and "<svg" in page
    assert "decode_draws" not in page and "course.guess(" not in page
    assert "unpkg.com" not in page, "the scripts are those of the given folder"


def test_slides_of_one_notebook_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["04", "--out", str(tmp_path)])
    assert [file.name for file in tmp_path.iterdir()] == ["04_messages_in_few_bits.html"]
    with pytest.raises(SystemExit):
        main(["99", "--out", str(tmp_path)])
    assert "a number must be that of a notebook, in two digits as in 04, got 99" in capsys.readouterr().err
