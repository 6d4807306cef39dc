"""The site: it contains everything public, and loads nothing from another server."""

from __future__ import annotations

import html
import importlib.util
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

import gnnqlab as gq
from docs.site import gather, notebooks, reference
from docs.site.claims import claims_page
from docs.site.gather import errata_page
from docs.site.llms import llms_text
from gnnqlab.course.errata import ERRATA
from gnnqlab.study import load_claims
from tests.browser.accessibility import findings, needs_axe
from tests.chromium import missing
from tests.pages import ROOT
from tests.slow_down import HANG_S

LACKS = [name for name in ("sphinx", "myst_nb", "furo") if importlib.util.find_spec(name) is None]
needs_site = pytest.mark.skipif(bool(LACKS), reason=f"the site needs {', '.join(LACKS)}; make docs installs it")
LOADS = {"script": "src", "img": "src", "iframe": "src", "source": "src", "object": "data", "embed": "src"}
"""Attributes, by element, that a browser loads by itself. A link is loaded too; an anchor only when it is clicked."""

GROUND = "getComputedStyle(document.body).backgroundColor"


class Page(HTMLParser):
    """Reads the loaded files, the links and the anchors of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.leads: list[str] = []
        self.places: set[str] = set()
        self.feed(text)
        self.loads += in_style(" ".join(re.findall(r"<style.*?</style>|style=\"[^\"]*\"", text, re.S)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        said = {name: value or "" for name, value in attrs}
        self.places |= {said[name] for name in ("id", "name") if name in said}
        if tag in LOADS and said.get(LOADS[tag]):
            self.loads.append(said[LOADS[tag]])
        if tag == "link" and not {"index", "search", "next", "prev"} & set(said.get("rel", "").split()):
            self.loads.append(said["href"])
        if tag == "a" and "href" in said:
            self.leads.append(said["href"])


def in_style(text: str) -> list[str]:
    """Return the addresses that a style loads."""
    return [a or b for a, b in re.findall(r"url\(\s*['\"]?([^'\")]+)|@import\s+['\"]([^'\"]+)", text)]


def foreign(addresses: list[str]) -> list[str]:
    return [each for each in addresses if urlsplit(each).scheme not in ("", "data") or each.startswith("//")]


def test_external_resources_of_a_page_are_detected() -> None:
    text = (
        '<link rel="stylesheet" href="//a.org/x.css"><script src="https://b.org/x.js"></script>'
        "<style>@import 'https://c.org/x.css'; p { background: url(https://d.org/x.png) }</style>"
        '<script src="own.js"></script><img src="data:image/png;base64,AA"><a href="https://e.org">a link</a>'
    )
    assert sorted(urlsplit(each).netloc for each in foreign(Page(text).loads)) == ["a.org", "b.org", "c.org", "d.org"]


def test_every_public_name_and_erratum_has_its_place() -> None:
    pages = reference.pages()
    named = set(re.findall(r"^\.\. (?:py:)?\w+:: gq\.(\w+)$|^## `gq\.(\w+)`$", "\n".join(pages.values()), re.M))
    assert {a or b for a, b in named} == {*gq.__all__, "halo"}
    assert set(re.findall(r":: gq\.halo\.(\w+)$", pages["reference/halo.md"], re.M)) == set(gq.halo.__all__) - {
        "HaloPlan",
        "exchange_rows",
    }
    assert "Range" in str(gq.codecs.Spikes.__annotations__["count"]), (
        "listing names must not change the checks of settings"
    )
    assert set(re.findall(r"^### (\S+)$", errata_page(measure=False), re.M)) == {entry.id for entry in ERRATA}
    assert reference.reference_of("gnnqlab.graph.graph.Graph") == "gq.Graph"
    assert reference.reference_of("gnnqlab.message.codecs.spikes.Spikes") == "gq.codecs.Spikes"
    assert reference.reference_of("gnnqlab.launch") == "gq.launch" and reference.reference_of("torch.Tensor") is None


def test_the_page_of_claims_has_every_claim_and_its_filter() -> None:
    page = Page(claims_page())
    assert {claim.id for claim in load_claims()} <= page.places
    text = claims_page()
    assert text.count("<tr id=") == 103 and text.count('data-verdict="not measured"') == len(
        load_claims(verdict="not measured")
    )
    assert "| all | 22 | 35 | 18 | 28 | 103 |" in text
    assert "0.454 × as fast: in part (gnnqlab bench broadcasts" in text, "a stored number has its source"
    assert foreign(page.loads) == [] and page.leads == []


def test_llms_txt_is_current_and_lists_every_page() -> None:
    kept = (ROOT / "llms.txt").read_text(encoding="utf-8")
    assert kept == llms_text(), "make docs writes llms.txt again"
    links = re.findall(r"^- \[.+\]\((.+)\): .+", kept, re.M)
    assert len(links) == kept.count("\n- ") and all((ROOT / link).exists() for link in links)
    assert {path.name for path in (ROOT / "docs" / "how_to").glob("*.md")} <= {Path(link).name for link in links}
    assert "(docs/agents.html)" in llms_text(".html")
    assert len((ROOT / "docs" / "agents.md").read_text(encoding="utf-8").splitlines()) <= 80


@pytest.mark.parametrize("kind, kept", [("image/png", "AA==\n"), ("image/svg+xml", "\0")])
def test_a_figure_is_a_picture_until_it_is_drawn(kind: str, kept: str) -> None:
    figure = {"data": [{"name": "</script>"}], "layout": {"height": 200}}
    data = {"application/vnd.plotly.v1+json": figure, kind: kept, "text/plain": 'Says "so" & so'}
    cells = [{"cell_type": "code", "outputs": [{"output_type": "execute_result", "data": data, "metadata": {}}]}]
    ((output,),) = [cell["outputs"] for cell in json.loads(notebooks.drawn(json.dumps({"cells": cells})))["cells"]]
    (shown,) = output["data"].values()
    assert f'src="data:{kind};base64,AA=="' in shown and 'alt="Says &quot;so&quot; &amp; so"' in shown
    (held,) = re.findall(r"<script[^>]*>(.*?)</script>", shown)
    assert json.loads(held) == figure


def test_links_between_notebooks_are_links_between_pages() -> None:
    data = {"text/html": ['<a href="01_first_run.ipynb">01</a>', '<a href="https://a.org/x.ipynb">x</a>']}
    cells = [{"cell_type": "code", "outputs": [{"output_type": "execute_result", "data": data, "metadata": {}}]}]
    ((output,),) = [cell["outputs"] for cell in json.loads(notebooks.drawn(json.dumps({"cells": cells})))["cells"]]
    assert output["data"]["text/html"] == '<a href="01_first_run.html">01</a><a href="https://a.org/x.ipynb">x</a>'


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "docs.site", "--no-measure", "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr
    return folder / "html"


@needs_site
@pytest.mark.slow
def test_site_is_complete_and_has_no_external_resources_or_broken_links(site: Path) -> None:
    pages = {path: Page(path.read_text(encoding="utf-8")) for path in site.rglob("*.html")}
    styles = {path: in_style(path.read_text(encoding="utf-8")) for path in site.rglob("*.css")}
    loads = {path: page.loads for path, page in pages.items()} | styles
    assert {path.name: foreign(each) for path, each in loads.items() if foreign(each)} == {}
    astray = []
    for path, addresses in [*loads.items(), *((path, page.leads) for path, page in pages.items())]:
        for address in addresses:
            said = urlsplit(address)
            if said.scheme or said.netloc:
                continue
            target = path.parent / unquote(said.path) if said.path else path
            if not target.exists():
                astray.append(f"{path.name}: {address}")
            elif said.fragment and target.suffix == ".html":
                known = (
                    pages[next(page for page in pages if page.samefile(target))].places
                    if said.path
                    else pages[path].places
                )
                if unquote(said.fragment) not in known:
                    astray.append(f"{path.name}: {address}")
    assert astray == []
    shown = {path.stem for path in (site / "notebooks").glob("[0-9]*.html")}
    assert shown == {path.stem for path in (ROOT / "notebooks").glob("*.ipynb")}
    places = set().union(*(page.places for path, page in pages.items() if path.parent.name == "reference"))
    modules = {name for name in gq.__all__ if f"gq.{name}" in reference.front_door()}
    assert {f"gq.{name}" for name in set(gq.__all__) - modules} <= places
    index = (site / "searchindex.js").read_text(encoding="utf-8")
    assert "exchange_rows" in index
    assert [path.name for path in pages if str(ROOT) in path.read_text(encoding="utf-8")] == []


@needs_site
@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_figures_and_formulas_are_drawn_without_a_network(site: Path, browser: Any) -> None:
    with browser.new_page(viewport={"width": 900, "height": 1600}, color_scheme="dark") as page:
        asked: list[str] = []
        failed: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("pageerror", lambda error: failed.append(str(error)))
        page.goto((site / "notebooks" / "04_messages_in_few_bits.html").as_uri())
        page.locator(".plotly-figure").first.scroll_into_view_if_needed()  # figures are drawn as they come into view
        title = "document.querySelector('.plotly-figure .gtitle')"
        # A picture takes the place of a figure until it is completely drawn.
        page.wait_for_function(f"{title} && !{title}.closest('.plotly-figure').querySelector('img')")
        page.wait_for_selector("div.math mjx-container svg")
        ink = f"getComputedStyle({title}).fill"
        assert page.evaluate(ink) == "rgb(230, 232, 234)"
        page.evaluate("document.body.dataset.theme = 'light'")
        page.wait_for_function(f"{ink} === 'rgb(31, 35, 40)'")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
    assert failed == []
    assert [url[:80] for url in asked if urlsplit(url).scheme not in ("file", "data", "blob")] == []


@needs_site
@needs_axe
@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
@pytest.mark.parametrize(
    "place",
    ["index", "players", "claims", "genindex", "docs/how_to/own_codec", "reference/bits", "notebooks/01_first_run"],
)
def test_no_page_has_a_serious_finding_of_accessibility(site: Path, browser: Any, place: str) -> None:
    with browser.new_page(viewport={"width": 900, "height": 1600}, color_scheme="light") as page:
        page.goto((site / f"{place}.html").as_uri())
        assert findings(page) == []
        ground = page.evaluate(GROUND)
        page.emulate_media(color_scheme="dark")
        assert page.evaluate(GROUND) != ground
        assert findings(page, rules=["color-contrast", "link-in-text-block"]) == []


@needs_site
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_equations_of_notebooks_fit_a_page_of_900_pixels(tmp_path: Path, browser: Any) -> None:
    """JupyterLab leaves 685 pixels for a cell of text there, and cuts off a wider equation."""
    equations = {"too wide": r"x \qquad " * 40}
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        for number, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"]):
            text = "".join(cell["source"]) if cell["cell_type"] == "markdown" else ""
            for equation in re.findall(r"\$\$(.+?)\$\$", text, re.S):
                equations[f"{path.name}, cell {number}: {equation[:40]}"] = equation
    shown = "".join(f"<div>$${html.escape(each)}$$</div>" for each in equations.values())
    script = gather._mathjax().as_uri()
    style = "<!doctype html><meta charset=utf-8><body style='font-size: 14px'>"
    page_text = f"{style}{shown}<script src='{script}'></script>"
    (tmp_path / "page.html").write_text(page_text, encoding="utf-8")
    with browser.new_page(viewport={"width": 685, "height": 900}) as page:
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function("[...document.querySelectorAll('div')].every((each) => each.querySelector('svg'))")
        width_of = "(each) => each.querySelector('svg').getBoundingClientRect().width"
        widths = page.evaluate(f"[...document.querySelectorAll('div')].map({width_of})")
    assert len(widths) > 30
    assert [name for name, width in zip(equations, widths, strict=True) if width > 660] == ["too wide"]


@pytest.mark.slow
@pytest.mark.skipif(missing() is not None, reason=str(missing()))
def test_on_a_phone_no_legend_lies_on_a_title(tmp_path: Path, browser: Any) -> None:
    """Figures without enough space scroll sideways; others are as wide as the page."""
    from gnnqlab.lab.figures.theme import template

    book = json.loads(notebooks.drawn((ROOT / "notebooks" / "01_first_run.ipynb").read_text(encoding="utf-8")))
    shown = [
        output.get("data", {}).get("text/html", "") for cell in book["cells"] for output in cell.get("outputs", ())
    ]
    figures = "".join("".join(text) for text in shown if "plotly-figure" in text)
    look = json.dumps({"light": template(), "dark": template(dark=True)})
    script = (ROOT / "docs" / "site" / "figures.js").read_text(encoding="utf-8")
    style = (ROOT / "docs" / "site" / "site.css").read_text(encoding="utf-8")
    plotly = resources.files("plotly").joinpath("package_data/plotly.min.js").read_text(encoding="utf-8")
    page_text = (
        f"<!doctype html><meta charset='utf-8'><style>{style}</style><body>{figures}<script>{plotly}</script>"
        f"<script>window.gnnqlabTemplates = {look};</script><script>{script}</script>"
    )
    (tmp_path / "page.html").write_text(page_text, encoding="utf-8")
    with browser.new_page(viewport={"width": 400, "height": 6000}) as page:
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_function("[...document.querySelectorAll('.plotly-figure')].every(it => !it.querySelector('img'))")
        bars = "[...document.querySelectorAll('.legend .scrollbar')].map(bar => Number(bar.getAttribute('height')))"
        assert page.evaluate(bars) and not any(page.evaluate(bars)), "a legend is cut"
        wide = page.evaluate("[...document.querySelectorAll('.plotly-figure')].map(it => it.scrollWidth > 400)")
        assert any(wide) and not all(wide)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the page scrolls sideways"
