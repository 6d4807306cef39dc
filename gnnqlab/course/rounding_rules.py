"""Three ways to round the rows of one message, and what is left of their errors when rows are sent again.

The first is the codec that training uses; the other two are here to be compared with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.error_views import decoded_draws
from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines
from gnnqlab.lab.figures.log_ticks import value_ticks

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.course.experiments.real_message import RealMessage

__all__ = ["RULES", "averaging_chart", "decoded_by"]

RULES = {
    "stochastic": "at random, a ruler a row (AdaQP, SYLVIE)",
    "nearest": "to the nearest, a ruler a row (CDFGNN)",
    "symmetric": "at random, one ruler for all rows (TANGO)",
}
"""What each rule does, and who uses it."""
_LOOKS = {"stochastic": "blue solid circle", "nearest": "vermillion dash square", "symmetric": "green dot diamond"}


def decoded_by(rule: str, message: RealMessage, bits: int, draws: int) -> Tensor:
    """Return the message's rows after rounding by a rule, float32 ``(draws, n, D)``.

    ``stochastic``: ``q = floor((h - Z) / S + u)`` with Z and S of each row (AdaQP Eq. 4, SYLVIE Eq. 3), by the codec.
    ``nearest``: the same with ``u = 1/2`` for every element (CDFGNN Eq. 22); every draw is alike.
    ``symmetric``: ``q = floor(h / s + u)`` with one ``s = max|h| / (2^(b-1) - 1)`` for the whole message (TANGO Eq. 1).

    Differs: CDFGNN's Eq. 22 maps the largest value to ``2^b``, one past a b-bit code; here it is ``2^b - 1``.

    Raises:
        ValueError: if there is no such rule, or it does not know the width.
    """
    import torch

    if rule not in RULES:
        raise ValueError(f"a rule must be one of {tuple(RULES)}, got {rule!r}")
    if rule == "stochastic":
        return decoded_draws(message, bits, draws)
    rows = message.rows
    if rule == "nearest":
        zero = rows.amin(dim=1, keepdim=True)
        step = (rows.amax(dim=1, keepdim=True) - zero) / (2**bits - 1)
        codes = torch.where(step > 0, (rows - zero) / step, 0.0).add(0.5).floor()
        return (codes * step + zero).expand(draws, *rows.shape)
    if bits < 2:
        raise ValueError(f"a symmetric code keeps a bit for the sign, so bits must be at least 2, got {bits}")
    largest = 2 ** (bits - 1) - 1
    scale = rows.abs().max() / largest
    generator = torch.Generator().manual_seed(message.seed)
    noise = torch.rand(draws, *rows.shape, generator=generator)
    return (rows / scale + noise).floor().clamp(-largest, largest) * scale


def averaging_chart(message: RealMessage, *, bits: int = 2, draws: int = 128, dark: bool = False) -> Bundle:
    """Draw what is left of a row's error when it is sent again and again, a line for each rule.

    Training sends nearly the same row in every epoch: an error that is drawn anew cancels over epochs, one that is
    always the same adds up.
    """
    import pandas as pd

    counts = [2**power for power in range(12) if 2**power <= draws]
    table = {}
    for rule in RULES:
        error = (decoded_by(rule, message, bits, draws) - message.rows).double()
        mean = error.cumsum(dim=0)[[count - 1 for count in counts]]
        table[rule] = [float((line / count).norm(dim=1).mean()) for line, count in zip(mean, counts)]
    frame = pd.DataFrame(table, index=pd.Index(counts, name="times sent"))
    ends = ", ".join(f"{rule} {frame[rule].iloc[0]:.3f} → {frame[rule].iloc[-1]:.3f}" for rule in RULES)
    caption = f"Length of a row's mean error in {human_bits(bits)}, sent once and sent {counts[-1]} times: {ends}."
    figure = lines(
        frame,
        y=RULES,
        styles=_LOOKS,
        size=9,
        log="y",
        x_axis={"title_text": "times sent", **value_ticks(counts)},
        y_axis="mean error of a row, its length",
        title="What is left when a row is sent again",
        caption=caption,
        dark=dark,
        height=370,
        legend_rows=2,
    )
    return Bundle(figure, frame)
