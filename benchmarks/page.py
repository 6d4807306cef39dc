"""One page with every kept measurement, for reading: what README's few rows were taken from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

__all__ = ["markdown_table", "page"]

_HEAD = """# Figures

Made by `gnnqlab bench results --page docs/figures.md` from the tables in `gnnqlab/results`; not edited by hand.
Machines differ and are shared: trust the ratios, which come from one run each. A ratio above 1 means that ours is
better; a goal that was missed says NO.
"""


def page(tables: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the page as Markdown.

    Args:
        tables: by name, as :func:`gnnqlab.results.load` returns them.
    """
    return "\n".join([_HEAD, *(_section(name, table) for name, table in tables.items())])


def _section(name: str, table: Mapping[str, Any]) -> str:
    from benchmarks.engine.rows import cells
    from benchmarks.registry import BENCHES, shown

    machine = table["machine"]
    measured_on = [
        table["device"],
        f"{machine['cores']} cores",
        f"instruction set {machine.get('instruction_set', 'not recorded')}",
        f"PyTorch {machine['torch']}",
    ]
    rows = list(table["rows"])
    own = shown(name, rows) if name in BENCHES else None
    if own is None:
        own = cells(rows) if all("figure" in row for row in rows) else rows
    commands = ", ".join(f"`{line}`" for line in table["command"].split("; "))
    return f"""## {name}

{table["date"][:10]}, {", ".join(measured_on)}: {commands}

{markdown_table(own)}
"""


def markdown_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a table of Markdown, a column for each name that any of them has."""
    if not rows:
        return "No rows."
    columns = list(dict.fromkeys(name for row in rows for name in row))
    cells = [[str(row.get(name, "")).replace("|", "\\|") for name in columns] for row in rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in [columns, ["---"] * len(columns), *cells])
