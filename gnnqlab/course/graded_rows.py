"""Exercises that are graded by running a function that was written: how a row is rounded, which widths rows get."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.graded import is_made, kinds_of_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from torch import Tensor

__all__ = ["grade_rounding", "grade_widths"]

_DRAWS, _SIGMAS, _ROUNDED, _MOST = 256, 3.0, 1e-3, 1.25
_WIDTHS, _COLUMNS, _ROWS, _NEAR = (2, 4, 8), 64, 60, 1.05


def grade_rounding(choose: Callable[[Tensor, int, Tensor], Tensor] | None, *, bits: int = 2) -> bool:
    """Say whether a function rounds rows to codes that are right on average, and errs no more than it has to.

    Args:
        choose: of a row, a width and noise (uniform over [0, 1), a number an element), returns a code for each element,
            whole numbers of 0 to ``2**bits - 1``. They are decoded as ``q S + Z`` with the row's own ``Z`` and ``S``.
            ``None``: says where it belongs.
        bits: the width that is tried.

    Example:
        >>> import torch
        >>> grade_rounding(lambda row, bits, u: ((row - row.min()) / (row.max() - row.min()) * 3).round())
        Not yet: a constant row has codes that are no numbers. What does it divide by?
        False
    """
    import torch

    if not _is_function(choose):
        return False
    assert choose is not None
    noise = torch.Generator().manual_seed(0)
    top, times = 2**bits - 1, []
    kinds = kinds_of_rows()
    for name in ("constant", "normal", "spiky"):
        row = kinds[name][0]
        length = float(row.norm())
        zero, step = row.min(), (row.max() - row.min()) / top
        draws = [choose(row.clone(), bits, torch.rand(row.shape, generator=noise)) for _ in range(_DRAWS)]
        if wrong := _wrong_codes(draws, row, top):
            print(f"Not yet: a {name} row has codes that are {wrong}")
            return False
        errors = torch.stack([code.double() for code in draws]) * step + zero - row
        off, squared = float(errors.mean(0).norm()), float(errors.square().sum(1).mean())
        if not off <= _SIGMAS * (squared / _DRAWS) ** 0.5 + _ROUNDED * length:
            print(
                f"Not yet: the mean of {_DRAWS} messages of a {name} row is {100 * off / length:.0f} % of its length "
                "away. An error that is the same every time does not cancel: how often must a value go up?"
            )
            return False
        place = (row - zero) / step if step > 0 else torch.zeros_like(row)
        least = float((step**2 * (place.frac() * (1 - place.frac()))).sum())
        if squared > _MOST * least + (_ROUNDED * length) ** 2:
            print(
                f"Not yet: a {name} row is right on average, but errs by {squared / max(least, 1e-12):.1f} times the "
                "variance of Theorem 1. Does every value go to one of the two marks beside it?"
            )
            return False
        if least > 0:
            times.append(squared / least)
    words = ", ".join(f"{each:.2f}" for each in times)
    print(f"Right: on average rows come back as they were, with {words} times the variance of Theorem 1.")
    return True


def _wrong_codes(draws: Sequence[object], row: Tensor, top: int) -> str:
    """What is wrong with codes before they are decoded; empty if nothing is."""
    import torch

    for codes in draws:
        if not isinstance(codes, torch.Tensor) or codes.shape != row.shape:
            shape = tuple(codes.shape) if isinstance(codes, torch.Tensor) else type(codes).__name__
            return f"no tensor of its shape, {tuple(row.shape)}: got {shape}."
        if not torch.isfinite(codes.double()).all():
            return "no numbers. What does it divide by?"
        if not torch.equal(codes.double(), codes.double().round()):
            return "no whole numbers. What has floor() to do?"
        if int(codes.min()) < 0 or int(codes.max()) > top:
            return f"from {int(codes.min())} to {int(codes.max())}; 0 to {top} can be said."
    return ""


def grade_widths(choose: Callable[[Sequence[float], int, int], Sequence[int]] | None) -> bool:
    """Say whether a function shares 2, 4 and 8 bits out among rows nearly as well as it can be done in so many bytes.

    Tried on rows that all weigh the same, on some that differ a little, and on some of which few weigh nearly all.

    Args:
        choose: of the weights β of rows, the elements of a row and the bytes there are, returns a width for each row. A
            row takes its codes and 8 bytes; its variance is ``β / (2**b - 1)**2``. ``None``: says where it belongs.

    Example:
        >>> grade_widths(lambda beta, columns, most: [4] * len(beta))
        Not yet: of rows that weigh alike the widths take 2400 bytes, 1920 there are. Which rows can do with fewer bits?
        False
    """
    import numpy as np

    if not _is_function(choose):
        return False
    assert choose is not None
    random, times = np.random.default_rng(0), []
    narrow = _ROWS * _row_bytes(2)
    for name, spread, share in (
        ("alike", 0.0, 0.5),
        ("a little differently", 0.7, 0.6),
        ("very differently", 3.0, 0.7),
    ):
        beta = np.exp(spread * random.standard_normal(_ROWS))
        most = narrow + int(share * _ROWS * (_row_bytes(4) - _row_bytes(2)))
        widths = [int(each) for each in choose(beta.tolist(), _COLUMNS, most)]
        if len(widths) != _ROWS or not set(widths) <= set(_WIDTHS):
            print(f"Not yet: a width of {_WIDTHS} for each of {_ROWS} rows is asked for, got {len(widths)}: {widths}.")
            return False
        taken = sum(map(_row_bytes, widths))
        if taken > most:
            print(
                f"Not yet: of rows that weigh {name} the widths take {taken} bytes, {most} there are. Which rows can "
                "do with fewer bits?"
            )
            return False
        ratio = float((beta / (2.0 ** np.array(widths) - 1) ** 2).sum()) / _least_variance(beta, most)
        if ratio > _NEAR:
            print(
                f"Not yet: rows that weigh {name} have {ratio:.2f} times the variance of the best widths in {most} "
                f"bytes; {_NEAR:g} times at most is asked for. Of which row do the next bytes take away most?"
            )
            return False
        times.append(ratio)
    words = ", ".join(f"{each:.2f}" for each in times)
    print(f"Right: {words} times the variance of the best widths that there are, {human_bits(2)} to {human_bits(8)}.")
    return True


def _least_variance(beta: NDArray, most: int) -> float:
    """The least there is: row by row, the best for each number of bytes, in steps of what two bits take more."""
    import numpy as np

    unit = _row_bytes(4) - _row_bytes(2)
    room = (most - len(beta) * _row_bytes(2)) // unit
    best = np.zeros(room + 1)
    for each in beta:
        options = []
        for width in _WIDTHS:
            extra = (_row_bytes(width) - _row_bytes(2)) // unit
            moved = np.full(room + 1, np.inf)
            moved[extra:] = best[: room + 1 - extra]
            options.append(moved + each / (2.0**width - 1) ** 2)
        best = np.min(options, axis=0)
    return float(best.min())


def _row_bytes(width: int) -> int:
    return _COLUMNS * width // 8 + 8


def _is_function(choose: object) -> bool:
    if not is_made(choose, "function"):
        return False
    if not callable(choose):
        print(f"Not yet: a function is asked for, got {choose!r}.")
        return False
    return True
