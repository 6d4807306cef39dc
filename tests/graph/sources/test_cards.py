"""Every graph has a card, and the checksums on the cards are those of the files."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from gnnqlab.graph import load, names

CARDS = Path(__file__).resolve().parents[3] / "datasets"


def test_every_name_is_in_the_table_and_has_a_card() -> None:
    table = (CARDS / "README.md").read_text(encoding="utf-8")
    for row in names():
        line = next(line for line in table.splitlines() if line.startswith(f"| `{row['name']}` |"))
        card = re.search(r"\((\w+\.md)\)", line)
        assert card, line
        assert row["name"] in (CARDS / card[1]).read_text(encoding="utf-8")


def test_checksums_of_citation_files(shared: Path) -> None:
    rows = re.findall(
        r"\| `(ind\.\S+)` \| ([\d,]+) \| `(\w{64})` \|", (CARDS / "citations.md").read_text(encoding="utf-8")
    )
    assert len(rows) == 16
    for name, size, checksum in rows:
        content = (shared / "raw" / "planetoid" / name).read_bytes()
        assert len(content) == int(size.replace(",", ""))
        assert hashlib.sha256(content).hexdigest() == checksum


def test_facts_about_digits() -> None:
    g = load("digits")
    assert g.content_hash in (CARDS / "digits.md").read_text(encoding="utf-8")
    assert f"| {(g.num_edges - g.num_nodes) // 2:,} |" in (CARDS / "README.md").read_text(encoding="utf-8")


def test_checksum_of_the_bundled_images() -> None:
    import sklearn.datasets

    content = (Path(sklearn.datasets.__file__).parent / "data" / "digits.csv.gz").read_bytes()
    assert hashlib.sha256(content).hexdigest() in (CARDS / "digits.md").read_text(encoding="utf-8")
