"""Widths are written in the same words everywhere: 1 bit, 2 bits."""

from __future__ import annotations

import re
from pathlib import Path

import gnnqlab

PACKAGE = Path(gnnqlab.__file__).parent
NUMBER_OF_BITS = re.compile(r"\{([^{}\"]*)\}+ bits?\b")
DECIMALS = re.compile(r":\.\d+f$")
"""A number with decimals is always followed by bits: 1.00 bits."""


def test_package_sources_never_format_1_bits() -> None:
    said = [
        f"{path.relative_to(PACKAGE)}: {field[0]}"
        for room in ("lab", "measure", "tune")
        for path in sorted((PACKAGE / room).rglob("*.py"))
        for field in NUMBER_OF_BITS.finditer(path.read_text(encoding="utf-8"))
        if not DECIMALS.search(field[1])
    ]
    assert not said, "use human_bits"
