"""What SYLVIE's decisions cost: seconds of a run by purpose, offline stage included (SYLVIE Figs. 12 and 13)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

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
_COLORS = ("green", "vermillion", "purple", "blue", "orange")


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
    import plotly.graph_objects as go

    if seconds.empty or not (seconds.sum() > 0).all():
        raise ValueError("seconds of at least one run are needed, got none; see overhead")
    shares = 100 * seconds / seconds.sum()
    figure = go.Figure()
    for (purpose, line), color in zip(shares.iterrows(), _COLORS):
        figure.add_bar(
            y=list(shares.columns),
            x=line.tolist(),
            orientation="h",
            name=str(purpose),
            marker={"color": OKABE_ITO[color], "line": {"width": 0}},
            customdata=seconds.loc[purpose].tolist(),
            hovertemplate=f"{purpose}: %{{x:.2f}} %, %{{customdata:.4g}} s<extra>%{{y}}</extra>",
        )
    figure.update_layout(barmode="stack", bargap=0.35)
    figure.update_xaxes(title_text="share of all seconds (%)", range=[0, 100])
    figure.update_yaxes(title_text="system", autorange="reversed")
    words = "; ".join(
        f"{label} " + ", ".join(f"{purpose} {share:.2g} %" for purpose, share in shares[label].items() if share)
        for label in shares
    )
    caption = f"Where a run's seconds go: {words}." + (f" Link: {link}." if link else "")
    height = 210 + 44 * len(shares.columns)
    finish(figure, title="Where a run's seconds go", caption=caption, dark=dark, height=height, legend_rows=2)
    return Bundle(figure, seconds)
