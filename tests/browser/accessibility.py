"""Accessibility of a page: the serious and critical findings of axe-core, the rules of the WCAG as a program."""

from __future__ import annotations

import importlib.util
from functools import cache
from importlib import resources
from typing import Any

import pytest

__all__ = ["findings", "needs_axe"]

PACKAGE = "axe_playwright_python"
"""The Python package that contains ``axe.min.js``."""
needs_axe = pytest.mark.skipif(
    importlib.util.find_spec(PACKAGE) is None,
    reason="checks of accessibility need the package axe-playwright-python; make test installs it",
)
_RUN = """async ([scope, rules]) => {
  const how = { resultTypes: ["violations"], iframes: false, ...(rules && { runOnly: rules }) };
  const { violations } = await axe.run({ include: [scope] }, how);
  return violations.filter(({ impact }) => impact === "serious" || impact === "critical").flatMap(({ id, nodes }) =>
    nodes.map(({ target, html, failureSummary }) =>
      `${id}: ${target.join(" ")}: ${failureSummary.split("\\n").slice(1).join("; ").trim()} | ${html.slice(0, 160)}`));
}"""


@cache
def _script() -> str:
    return resources.files(PACKAGE).joinpath("axe.min.js").read_text(encoding="utf-8")


def findings(page: Any, *, scope: str = "html", rules: list[str] | None = None) -> list[str]:
    """Return the serious and critical findings of axe-core, one line each.

    Args:
        page: a page of Playwright; the script is run by the browser itself, so a policy of the page does not stop it.
        scope: selector of the elements that are checked; the pages of frames are checked on their own.
        rules: identifiers of the rules of axe-core; by default all.
    """
    page.evaluate(f"() => {{ {_script()} }}")
    found: list[str] = page.evaluate(_RUN, [scope, rules])
    return found
