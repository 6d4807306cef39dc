"""What SYLVIE's own work costs a run: extraction before training, coordination during it (SYLVIE Fig. 12)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["coordination_figures"]


def coordination_figures(folder: Path, records: pd.DataFrame) -> dict[str, Any]:
    """Return ``extract_s`` and ``coordination_share`` of a coordinated run; nothing of another.

    The share is extraction and the ``assign_s`` of the worker that spent most, by the wall clock with extraction.
    ``assign_s`` holds decisions, writing them down, looking up widths and laying messages out anew; what quantization
    takes at these widths is not among it.
    """
    try:
        facts = json.loads((folder / "facts.json").read_text())
    except (OSError, ValueError):
        return {}
    if "extract_s" not in facts:
        return {}
    extract_s = facts["extract_s"] or 0.0
    spent_s = float(records.groupby("rank")["assign_s"].sum().max())
    whole_s = extract_s + float(records["time_s"].max())
    return {"extract_s": facts["extract_s"], "coordination_share": (extract_s + spent_s) / whole_s if whole_s else 0.0}
