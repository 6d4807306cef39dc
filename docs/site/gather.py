"""Where the site's pages come from: what is written lies in the repository, the rest is made here.

Pages keep the places that their files have in the repository, so that links between them hold in both.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from importlib import metadata, resources
from pathlib import Path

from docs.site import notebooks, players, reference
from docs.site.claims import claims_page

__all__ = ["STATIC", "errata_page", "sources", "statics", "write"]

ROOT = Path(__file__).parents[2]
STATIC = "static"
_WRITTEN = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "datasets/*.md", "docs/*.md", "docs/how_to/*.md")
_PICTURES = ("docs/*.png", "docs/results/*.svg")
_RESULTS = "gnnqlab/results/*.md"
_TREE = "```{{toctree}}\n:hidden:\n:glob:\n\n{}\n```\n"
_PAPERS = {"AQ": "AdaQP", "SY": "SYLVIE", "CD": "CDFGNN", "TG": "TANGO"}
_MATHJAX = "sphinx-mathjax-offline/static/mathjax/tex-svg-full.js"


def sources(*, measure: bool) -> dict[str, str | bytes]:
    """Return every page, and every picture of one, by its place in the site.

    Args:
        measure: compute the effects of the errata, some seconds; else they are said not to be measured.
    """
    own = Path(__file__).parent / "pages"
    found: dict[str, str | bytes] = {_place(path): path.read_text(encoding="utf-8") for path in _files(*_WRITTEN)}
    found |= {_place(path, own): path.read_text(encoding="utf-8") for path in sorted(own.rglob("*.md"))}
    # The README is the first page; below it the site's own page lists the others for the navigation.
    readme = str(found.pop("README.md"))
    found["index.md"] = f"{readme}\n{found['index.md']}"
    found |= {link: (ROOT / link).read_bytes() for link in _linked_files(readme)}
    found |= {_place(path): path.read_bytes() for path in _files(*_PICTURES)}
    found |= {_place(path): notebooks.drawn(path.read_text(encoding="utf-8")) for path in _files("notebooks/*.ipynb")}
    found |= {_place(path): path.read_text(encoding="utf-8") for path in _files(_RESULTS)}
    for page, inner in (("datasets/README.md", "*"), ("docs/results_index.md", "/gnnqlab/results/*")):
        found[page] = f"{found[page]}\n{_TREE.format(inner)}"
    found["errata.md"] = errata_page(measure=measure)
    found["claims.md"] = claims_page()
    found |= {page: players.embed(page, str(found[page])) for page in players.EMBEDDED}
    return found | reference.pages()


def _linked_files(text: str) -> list[str]:
    """Return the files that a text links to and that are no pages: its picture, source files and the licence."""
    links = [link for link in re.findall(r"\]\(([^)\s#]+)\)", text) if "://" not in link]
    return [link for link in links if not link.endswith((".md", ".ipynb"))]


def _files(*patterns: str) -> Iterator[Path]:
    for pattern in patterns:
        yield from sorted(ROOT.glob(pattern))


def _place(path: Path, root: Path = ROOT) -> str:
    return path.relative_to(root).as_posix()


def statics() -> dict[str, str | bytes]:
    """Return scripts and styles by name: our own, and those of packages that are installed.

    Raises:
        RuntimeError: if the package with MathJax is not there.
    """
    from gnnqlab.lab.figures.theme import template

    here = Path(__file__).parent
    templates = {"light": template(), "dark": template(dark=True)}
    return {
        "mathjax.js": _mathjax().read_bytes(),
        "plotly.js": resources.files("plotly").joinpath("package_data/plotly.min.js").read_bytes(),
        "templates.js": f"window.gnnqlabTemplates = {json.dumps(templates)};\n",
        **{path.name: path.read_bytes() for path in (*here.glob("*.js"), here / "site.css")},
        **{f"players/{name}.html": text for name, text in players.pages().items()},
    }


def _mathjax() -> Path:
    """MathJax 3 in one file, with all of TeX's extensions and glyphs as paths: it asks for no other file."""
    try:
        return Path(str(metadata.distribution("sphinx-mathjax-offline").locate_file(_MATHJAX)))
    except metadata.PackageNotFoundError:
        raise RuntimeError("the site needs the packages of the extra docs; make docs installs them") from None


def write(files: Mapping[str, str | bytes], folder: Path) -> None:
    """Make a folder hold these files and no others."""
    for path in [path for path in folder.rglob("*") if path.is_file()]:
        if path.relative_to(folder).as_posix() not in files:
            path.unlink()
    for place, content in files.items():
        content = content.encode() if isinstance(content, str) else content
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def errata_page(*, measure: bool) -> str:
    """Return the errata as Markdown, those of one paper together."""
    from gnnqlab.course.errata import errata

    text = [
        "# Errata\n",
        "Where papers, their own text and their released code disagree, what it does, and what gnnqlab does. "
        "`gq.errata()` returns them as a table, and measures the effects anew.\n",
    ]
    before = ""
    for row in errata(measure=measure).itertuples():
        paper = _PAPERS.get(str(row.Index).partition("-")[0], "Others")
        if paper != before:
            text.append(f"## {paper}\n")
            before = paper
        lines = [("Where", row.where), ("What", row.what), ("What gnnqlab does", row.rule)]
        if row.measured:
            lines.insert(2, ("Measured", row.effect))
        text.append(f"### {row.Index}\n")
        text += [f"**{title}:** {_plain(str(said))}\n" for title, said in lines]
    return "\n".join(text)


def _plain(said: str) -> str:
    """Text in which nothing is Markdown but code between backticks."""
    parts = re.split(r"(`[^`]+`)", said)
    return "".join(part if part[:1] == "`" else re.sub(r"([\\*_{}\[\]<>#|$~^!])", r"\\\1", part) for part in parts)
