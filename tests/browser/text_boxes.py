"""Boxes of text in figures: find text that is clipped by its picture or lies on other text."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

__all__ = ["MEASURE", "faults", "pictures"]

MEASURE = """(selector) => {
  const found = [];
  const overlap = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = (a, b) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  for (const svg of document.querySelectorAll(selector)) {
    const edge = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].filter((each) => each.textContent.trim());
    const boxes = texts
      .map((each) => ({ words: each.textContent.trim().slice(0, 40), box: each.getBoundingClientRect() }))
      .filter(({ box }) => box.width > 0);
    for (const { words, box } of boxes) {
      const [left, right] = [edge.left - box.left, box.right - edge.right];
      const beyond = Math.max(left, right, edge.top - box.top, box.bottom - edge.bottom);
      if (beyond > 2) found.push(`clipped by ${Math.round(beyond)} px: ${words}`);
    }
    boxes.forEach((one, number) => boxes.slice(number + 1).forEach((other) => {
      // Boxes of fonts are higher than their letters: a quarter of the height may touch.
      const space = 0.35 * Math.min(one.box.height, other.box.height);
      if (overlap(one.box, other.box) > 2 && high(one.box, other.box) > space)
        found.push(`overlap: ${one.words} | ${other.words}`);
    }));
  }
  return found;
}"""


def faults(page: Any, selector: str = "svg") -> list[str]:
    """Return clipped and overlapping texts of the pictures that a page shows."""
    found: list[str] = page.evaluate(MEASURE, selector)
    return found


def pictures(notebook: Path) -> Iterator[tuple[int, str]]:
    """Yield cell numbers and pictures (SVG) that a notebook holds."""
    for number, cell in enumerate(json.loads(notebook.read_text(encoding="utf-8"))["cells"]):
        for output in cell.get("outputs", ()):
            if "image/svg+xml" in output.get("data", {}):
                yield number, "".join(output["data"]["image/svg+xml"])
