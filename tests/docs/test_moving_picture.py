"""The animated picture of an epoch: the command draws the committed file, which plays without a network."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from docs.site.moving_picture import PICTURE, draw, panels


def test_committed_picture_equals_the_generated_one() -> None:
    assert draw(panels()) == PICTURE.read_text(encoding="utf-8"), "run python -m docs.site.moving_picture"


def test_picture_is_small_and_has_no_external_resources() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    assert len(text) < 2_000_000
    root = ElementTree.fromstring(text)
    assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
        "svg", "title", "style", "rect", "circle", "line", "text", "g",
    }  # fmt: skip
    assert "url(" not in text and "@import" not in text and text.count("http") == 1  # the name of SVG itself


def test_picture_moves_every_row_and_counts_its_bytes() -> None:
    text = PICTURE.read_text(encoding="utf-8")
    for panel in panels():
        assert f"{panel.title}: {panel.walk.num_bytes:,} bytes and " in text
        assert text.count(f"sent so far: {panel.walk.num_bytes:,} bytes") == 1
    labels = re.findall(r'class="bits" y="4">(\d+)<', text)
    rows = [len(flight.rows.nodes) for flight in panels()[0].walk.flights]
    assert labels.count("32") == labels.count("2") == sum(rows) > 0


def test_both_halves_share_the_time_and_the_right_one_ends_sooner() -> None:
    vanilla, overlapped = panels()
    text = PICTURE.read_text(encoding="utf-8")
    assert overlapped.walk.vanilla is not None and overlapped.walk.length < vanilla.walk.length
    assert f"the epoch has ended after {vanilla.walk.length:,.0f} µs<" in text
    assert re.search(rf"ended after {overlapped.walk.length:,.0f} µs, \d+\u00a0% sooner<", text)
    # The cursor stays where its epoch has ended: farther to the left in the right half.
    ends = [float(end) for end in re.findall(r"translate\(0,0\)\} [\d.]+%\{transform:translate\(([\d.]+)px,0\)", text)]
    assert len(ends) == 2 and ends[1] / ends[0] == pytest.approx(overlapped.walk.length / vanilla.walk.length, abs=0.01)


def test_one_epoch_alone_is_refused() -> None:
    first, _ = panels()
    with pytest.raises(ValueError, match="compares two epochs, got 1"):
        draw([first])
