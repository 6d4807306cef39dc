"""``python -m docs.site``: build the site into ``build/docs/html``, and ``llms.txt``; warnings are errors."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from docs.site.gather import ROOT, STATIC, sources, statics, write
from docs.site.llms import llms_text

__all__ = ["build", "main"]


def build(folder: Path, *, measure: bool) -> int:
    """Build the site into ``folder / "html"``.

    Args:
        folder: has the pages' sources and what Sphinx knows of them too; all is built anew, so that nothing is old.
        measure: compute the effects of the errata.

    Returns:
        The exit status of Sphinx: 0 if there was neither error nor warning.
    """
    from sphinx.cmd.build import main as sphinx

    here = Path(__file__).parent
    write(sources(measure=measure), folder / "source")
    write(statics(), folder / STATIC)
    options = ["-W", "--keep-going", "-q", "-E", "-b", "html", "-c", str(here), "-d", str(folder / "doctrees")]
    options += ["-D", f"html_static_path={folder / STATIC}"]
    return int(sphinx([*options, str(folder / "source"), str(folder / "html")]))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.site", description=__doc__)
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "docs", help="where it is built")
    parser.add_argument("--measure", action=argparse.BooleanOptionalAction, default=True, help="effects of the errata")
    said = parser.parse_args(arguments)
    status = build(said.folder, measure=said.measure)
    if status == 0:
        (said.folder / "html" / "llms.txt").write_text(llms_text(".html"), encoding="utf-8")
        (ROOT / "llms.txt").write_text(llms_text(), encoding="utf-8")
        print(f"documentation: {said.folder / 'html' / 'index.html'}")
    return status


if __name__ == "__main__":
    sys.exit(main())
