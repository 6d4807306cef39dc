"""Players in pages of the site: each page has its own one, and the page of all players has every one."""

from __future__ import annotations

import re

from docs.site.players import EMBEDDED, embed
from tests.pages import ROOT


def test_every_page_with_a_player_exists_and_has_it() -> None:
    for page, name in EMBEDDED.items():
        path = ROOT / ("README.md" if page == "index.md" else page)
        if not path.exists():
            path = ROOT / "docs" / "site" / "pages" / page
        text = embed(page, path.read_text(encoding="utf-8"))
        found = re.findall(r'<iframe class="player" src="((?:\.\./)*)_static/players/(\w+)\.html', text)
        assert all(up == "../" * page.count("/") for up, _ in found), page
        if name:
            assert [player for _, player in found] == [name], page
        else:
            assert sorted(player for _, player in found) == [
                "assigner",
                "epoch",
                "message",
                "partition",
                "run",
                "tuner",
            ]
            assert "{player" not in text


def test_the_first_page_plays_in_place_of_its_picture() -> None:
    text = embed("index.md", (ROOT / "README.md").read_text(encoding="utf-8"))
    assert "players/epoch.html?play" in text and "docs/epoch.svg" not in text
