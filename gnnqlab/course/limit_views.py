"""An epoch beside the limits of its parts, drawn: where time is left to win, and where none is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.course.experiments.limits import EPOCH
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import bars

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_limits"]


def draw_limits(table: DataFrame, *, title: str = "An epoch beside its limits", dark: bool = False) -> Bundle:
    """Draw each part of an epoch: above what it took, below what its work takes at least, and how many times that is.

    Args:
        table: of :func:`gnnqlab.course.experiments.limits.measure_limits`, or ``limits_table``.
        title: of the figure.
        dark: colours for a dark page.

    Raises:
        ValueError: if the table has no row of the whole epoch.
    """
    if EPOCH not in table.index:
        raise ValueError(f"the table must have a row {EPOCH!r}, got {list(table.index)}; see limits_table")
    parts, whole = table.drop(EPOCH), table.loc[EPOCH]
    limited = parts.dropna(subset="limit (ms)")
    each = "; ".join(
        f"{part} {_ms(row['measured (ms)'])} beside {_ms(row['limit (ms)'])} ms ({row['share (%)']:.0f} %)"
        for part, row in limited.iterrows()
    )
    caption = (
        f"An epoch took {_ms(whole['measured (ms)'])} ms; its limit is {_ms(whole['limit (ms)'])} ms "
        f"({_times(whole['measured / limit'])}). By part, and share of the epoch: {each}. Indicative."
    )
    # Room for what stands behind the longest bar.
    room = [0, 1.12 * float(parts[["measured (ms)", "limit (ms)"]].max().max())]
    figure = bars(
        parts.assign(times=[_times(ratio) for ratio in parts["measured / limit"]]),
        styles=["blue"],
        y={"measured (ms)": "measured"},
        text="times",
        horizontal=True,
        x_axis={"title_text": "time an epoch (ms)", "range": room},
        y_axis="part",
    )
    figure = bars(
        limited,
        y={"limit (ms)": "limit"},
        styles=["orange /"],
        horizontal=True,
        figure=figure,
        title=title,
        caption=caption,
        dark=dark,
        height=180 + 50 * len(parts),
    )
    return Bundle(figure, table.round(3))


def _times(ratio: float) -> str:
    """Return a ratio as a bar has it; nothing where there is no limit.

    Example:
        >>> _times(1.25), _times(36.7), _times(1250.0), _times(float("nan"))
        ('1.2 ×', '37 ×', '1250 ×', '')
    """
    return "" if ratio != ratio else f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"


def _ms(milliseconds: float) -> str:
    """Return milliseconds with three digits, or all before the point.

    Example:
        >>> _ms(0.20857), _ms(29.84), _ms(1186.4)
        ('0.209', '29.8', '1186')
    """
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"
