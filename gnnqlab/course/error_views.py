"""Rounding errors of rows: clouds by bit-width, Theorem 1 with the measured variance, and rounding rules compared.

The first rounding rule is the codec that training uses; the other two are compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.theory.variance import decoded_moments, step_widths

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.course.experiments.real_message import RealMessage

__all__ = [
    "RULES", "averaging_chart", "decode_by_rule", "decode_draws", "error_clouds", "variance_chart", "variance_table",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"decoded_draws": "decode_draws", "decoded_by": "decode_by_rule"})

_WIDTHS = (1, 2, 4, 8)
_MAX_POINTS = 200  # points per panel; more would only overlap


def decode_draws(message: RealMessage, bits: int, draws: int) -> Tensor:
    """Encode and decode the message's rows with independent noise; return float32 ``(draws, n, D)``.

    Every draw is a real message, encoded to bytes and decoded by the codec.
    """
    node = int(message.ids[0])
    # The epoch of a message keys its noise, so each draw is independent.
    return torch.stack(
        [MessageWalk.from_message(message, bits=bits, node=node, draw=draw).received for draw in range(draws)]
    )


def error_clouds(message: RealMessage, *, widths: Sequence[int] = _WIDTHS, dark: bool = False) -> FigureData:
    """Draw the error of the message's elements over their value, one panel per bit-width, all on one scale.

    Zeros are omitted: where a row's smallest value is zero, they are sent without error.
    """
    import pandas as pd

    table, charts = [], {}
    for bits in widths:
        walk = MessageWalk.from_message(message, bits=bits)
        values = message.rows.flatten()
        error = (walk.received - message.rows).flatten()
        # Zeros are omitted: as the smallest value of a row they have no error, and all would lie on one point.
        positions = values.nonzero().flatten()
        # every k-th element, with k rounded up
        drawn_positions = positions[:: max(-(-len(positions) // _MAX_POINTS), 1)]
        spread, mean = float(error[positions].std()), float(error[positions].mean())
        table.append((bits, len(positions), mean, spread, float(error.abs().max())))
        subtitle = f"mean {mean:+.3f}<br>spread {spread:.3f}"
        points = pd.DataFrame({"value": values[drawn_positions].tolist(), "error": error[drawn_positions].tolist()})
        charts[f'{human_bits(bits)}<br><span style="font-size:11px">{subtitle}</span>'] = scatter(
            points.round({"value": 3, "error": 4}),
            x="value",
            y="error",
            size=4,
            opacity=0.6,
            x_axis={"title_text": "value", "title_standoff": 4},
            y_axis="error (unit of the element)",
        )
    max_error = max(row[-1] for row in table)
    words = ", ".join(f"{spread:.3f} in {human_bits(bits)}" for bits, _, _, spread, _ in table)
    caption = f"Errors of one message's elements without zeros; their standard deviation is {words}."
    title = "One message, stochastic rounding"
    figure = panels(charts, share_y=True, gap=0.02, title=title, caption=caption, dark=dark, legend_rows=2)
    figure.update_yaxes(range=[-1.1 * max_error, 1.1 * max_error])  # one scale for all panels, symmetric around zero
    figure.update_layout(margin={"t": 104})  # space for titles of two lines
    columns = ["bits", "elements", "mean error", "spread", "largest"]
    return FigureData(figure, pd.DataFrame(table, columns=columns).set_index("bits"))


def variance_table(
    message: RealMessage, *, node: int | None = None, widths: Sequence[int] = _WIDTHS, draws: int = 300
) -> DataFrame:
    """Measure variance and bias of decoded rows, for comparison with Theorem 1 (AdaQP Eqs. 13-17).

    Args:
        message: the rows.
        node: measure only the row of this node; by default all rows are summed.
        widths: bit-widths, one line each.
        draws: number of independent messages.

    Returns:
        By ``bits``, all in units of ``Σ D S²``: ``measured`` (mean of ``||decoded - row||²``) with ``± two`` standard
        errors, ``exact``, ``average`` (1/6), ``worst`` (1/4); and ``bias``, the mean error in steps.

    Raises:
        ValueError: if the message has no such row.
    """
    import pandas as pd

    ids = message.ids.tolist()
    if node is not None and node not in ids:
        raise ValueError(f"node must be one whose row is in the message, {ids[:8]} ..., got {node}")
    rows = list(range(len(ids))) if node is None else [ids.index(node)]  # index of the rows to measure
    lines = []
    for bits in widths:
        error_TnD = (decode_draws(message, bits, draws)[:, rows] - message.rows[rows]).double()
        squared_T = (error_TnD**2).sum(dim=(1, 2))  # (T, n, D) -> (T,), T draws
        moments = decoded_moments(message.rows[rows], bits)  # Theorem 1 per row: exact variance, average and worst case
        unit = float(moments.average.sum()) * 6  # Σ D S²: the average is D S² / 6 per row
        ranges = message.rows[rows].amax(dim=1) - message.rows[rows].amin(dim=1)
        steps = step_widths(ranges, bits)[:, None]  # (n, 1), the scale S of each row
        lines.append(
            {
                "measured": float(squared_T.mean()) / unit,
                "± two": 2 * float(squared_T.std()) / draws**0.5 / unit,  # two standard errors of the mean over draws
                "exact": float(moments.exact.sum()) / unit,
                "average": float(moments.average.sum()) / unit,
                "worst": float(moments.worst.sum()) / unit,
                # a constant row has S = 0 and no error
                "bias": float(torch.where(steps > 0, error_TnD / steps, 0.0).mean()),
            }
        )
    return pd.DataFrame(lines, index=pd.Index(list(widths), name="bits"))


def variance_chart(
    message: RealMessage,
    *,
    node: int | None = None,
    widths: Sequence[int] = _WIDTHS,
    draws: int = 300,
    dark: bool = False,
) -> FigureData:
    """Draw the measured variance of decoded rows with Theorem 1's exact value, average and worst case."""
    table = variance_table(message, node=node, widths=widths, draws=draws)
    subject = "all rows of the message" if node is None else f"row {node}"
    caption = (
        f"Variance of {subject} after decoding, in units of D S²: "
        + ", ".join(
            f"{human_bits(bits)} measured {line['measured']:.3f}, exact {line['exact']:.3f}"
            for bits, line in table.iterrows()
        )
        + "; average 1/6 = 0.167, worst case 1/4."
    )
    rows = table.rename(index=human_bits)  # bit-widths as text, for a category axis
    limits = {
        "worst": ("worst case, 1/4", "grey dash"),
        "average": ("average over uniform fractions, 1/6", "orange dot"),
    }
    values = {
        "exact": ("exact, for these rows", "vermillion x"),
        "measured": (f"measured, {draws} messages", "blue circle-open"),
    }
    figure = scatter(
        rows,
        y=values,
        size=13,
        error={"measured": "± two"},
        figure=lines(rows, y=limits, mode="lines"),
        x_axis={"title_text": "bits per element", "type": "category"},
        y_axis={"title_text": "variance of a row, in units of D S²", "range": [0, 0.28]},
        title="Theorem 1 and the measured variance",
        caption=caption,
        dark=dark,
        height=370,
        legend_rows=2,
    )
    return FigureData(figure, table)


RULES = {
    "stochastic": "stochastic, one scale per row (AdaQP, SYLVIE)",
    "nearest": "to nearest, one scale per row (CDFGNN)",
    "symmetric": "stochastic, one scale for all rows (TANGO)",
}
"""Rounding rule -> its description, with the systems that use it."""
_LOOKS = {"stochastic": "blue solid circle", "nearest": "vermillion dash square", "symmetric": "green dot diamond"}


def decode_by_rule(rule: str, message: RealMessage, bits: int, draws: int) -> Tensor:
    """Return the message's rows after rounding by a rule, float32 ``(draws, n, D)``.

    ``stochastic``: ``q = floor((h - Z) / S + u)`` with Z and S of each row (AdaQP Eq. 4, SYLVIE Eq. 3), by the codec.
    ``nearest``: the same with ``u = 1/2`` for every element (CDFGNN Eq. 22); all draws are identical.
    ``symmetric``: ``q = floor(h / s + u)`` with one ``s = max|h| / (2^(b-1) - 1)`` for the whole message (TANGO Eq. 1).

    Differs: CDFGNN's Eq. 22 maps the largest value to ``2^b``, one past a b-bit code; here it is ``2^b - 1``.

    Raises:
        ValueError: if there is no such rule, or it does not support the bit-width.
    """
    if rule not in RULES:
        raise ValueError(f"a rule must be one of {tuple(RULES)}, got {rule!r}")
    if rule == "stochastic":
        return decode_draws(message, bits, draws)
    rows = message.rows
    if rule == "nearest":
        zero = rows.amin(dim=1, keepdim=True)  # (n, 1), zero-point Z
        step = (rows.amax(dim=1, keepdim=True) - zero) / (2**bits - 1)  # (n, 1), scale S
        codes = torch.where(step > 0, (rows - zero) / step, 0.0).add(0.5).floor()  # u = 1/2 rounds to nearest
        return (codes * step + zero).expand(draws, *rows.shape)  # a deterministic rule: all draws are identical
    if bits < 2:
        raise ValueError(f"a symmetric code keeps a bit for the sign, so bits must be at least 2, got {bits}")
    max_code = 2 ** (bits - 1) - 1
    scale = rows.abs().max() / max_code  # one scale for the whole message
    generator = torch.Generator().manual_seed(message.seed)
    noise = torch.rand(draws, *rows.shape, generator=generator)  # (draws, n, D)
    return (rows / scale + noise).floor().clamp(-max_code, max_code) * scale  # (draws, n, D)


def averaging_chart(message: RealMessage, *, bits: int = 2, draws: int = 128, dark: bool = False) -> FigureData:
    """Draw the mean error of a row over the number of times that it is sent, one line per rounding rule.

    Training sends nearly the same row in every epoch: independent errors cancel over epochs, constant errors add up.
    """
    import pandas as pd

    counts = [2**power for power in range(12) if 2**power <= draws]  # powers of two: the axis is logarithmic
    table = {}
    for rule in RULES:
        error = (decode_by_rule(rule, message, bits, draws) - message.rows).double()
        mean = error.cumsum(dim=0)[[count - 1 for count in counts]]  # (draws, n, D) -> (counts, n, D)
        # mean over the rows of the norm of their mean error
        table[rule] = [float((line / count).norm(dim=1).mean()) for line, count in zip(mean, counts)]
    frame = pd.DataFrame(table, index=pd.Index(counts, name="times sent"))
    figure = lines(
        frame,
        y=RULES,
        styles=_LOOKS,
        size=9,
        log="y",
        x_axis={"title_text": "times sent", **value_ticks(counts)},
        y_axis="norm of a row's mean error",
        title=f"Mean error of a row sent repeatedly, {human_bits(bits)}",
        dark=dark,
        height=370,
        legend_rows=2,
    )
    return FigureData(figure, frame)
