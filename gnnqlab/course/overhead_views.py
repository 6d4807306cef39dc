"""What SYLVIE's decisions cost: seconds of a run by purpose, offline stage included (SYLVIE Figs. 12 and 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import bars

if TYPE_CHECKING:
    from pandas import DataFrame, Series

__all__ = ["PURPOSES", "draw_overhead", "overhead"]

PURPOSES = {
    "computation": ("central_s", "marginal_s", "dense_s", "optimizer_s", "other_s"),
    "communication": ("wait_s", "reduce_s"),
    "encode, decode": ("encode_s", "decode_s"),
    "coordination": ("assign_s",),
}
"""What each phase of an epoch is for.

Encoding and decoding is copying rows where nothing is quantized. Looking up widths and laying messages out anew is
coordination too."""
_STYLES = ("green", "vermillion /", "purple x", "blue .", "orange \\")


def overhead(records: DataFrame, *, offline_s: float = 0.0) -> Series:
    """Return the seconds of a whole run by purpose, mean over workers; evaluation is left out.

    Args:
        records: ``run.records``.
        offline_s: of the stage before training, SYLVIE's Graph Extractor: ``run.summary["extract_s"]``.

    Returns:
        By purpose: those of `PURPOSES`, and ``offline``.
    """
    import pandas as pd

    totals = records.groupby("rank").sum(numeric_only=True).mean()
    seconds = {name: float(totals[list(columns)].sum()) for name, columns in PURPOSES.items()}
    return pd.Series({**seconds, "offline": offline_s}, name="seconds").rename_axis("purpose")


def draw_overhead(seconds: DataFrame, *, link: str = "", dark: bool = False) -> Bundle:
    """Draw `overhead` of one or several runs, a column each: shares of the whole as stacked bars.

    Args:
        seconds: by purpose, a column a run.
        link: over which link was measured, for the caption.
        dark: colours for a dark page.

    Raises:
        ValueError: if nothing was measured.
    """
    if seconds.empty or not (seconds.sum() > 0).all():
        raise ValueError("seconds of at least one run are needed, got none; see overhead")
    shares = 100 * seconds / seconds.sum()
    words = "; ".join(
        f"{label} " + ", ".join(f"{purpose} {share:.2g} %" for purpose, share in shares[label].items() if share)
        for label in shares
    )
    figure = bars(
        shares.T,
        y=list(shares.index),
        styles=_STYLES,
        stacked=True,
        horizontal=True,
        x_axis={"title_text": "share of all seconds (%)", "range": [0, 100]},
        y_axis="system",
        title="Where a run's seconds go",
        caption=f"Where a run's seconds go: {words}." + (f" Link: {link}." if link else ""),
        dark=dark,
        height=210 + 44 * len(shares.columns),
        legend_rows=2,
    )
    return Bundle(figure, seconds)
