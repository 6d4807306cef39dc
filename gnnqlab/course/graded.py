"""Exercises whose answer is code, graded by running it: a bit policy, a codec, a rounding rule, row bit-widths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.policy import Fixed
from gnnqlab.course.codec_views import decode_repeatedly
from gnnqlab.course.student.code import graded_code
from gnnqlab.graph.sources import load
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.codec_error import codec_error
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.codecs.codec import Codec, Noise
    from gnnqlab.message.layout import Layout
    from gnnqlab.simulation.gradient_noise import GradientNoise

__all__ = ["grade_codec", "grade_policy", "grade_rounding", "grade_widths", "is_made", "kinds_of_rows"]

# Epochs trained before; passes of a variance; messages of a mean.
_EPOCHS, _REPEATS, _DRAWS = 20, 32, 256
# Required factor of less noise; standard errors of an accepted bias; relative float32 rounding on top of it.
_LESS, _SIGMAS, _ROUNDED = 1.2, 2.0, 1e-3
# Workers of the graded training; elements of a graded row.
_WORKERS, _COLUMNS = 2, 64


@graded_code(
    "20.policy",
    "policy.version(epoch) and policy.widths(rows, epoch)",
    counts=lambda bits=2, graph="digits": bits == 4 and graph == "digits",
)
def grade_policy(policy: BitPolicy | None, *, bits: int = 2, graph: str = "digits") -> bool:
    """Check that a bit policy makes less gradient noise than one bit-width for all rows, in no more bytes.

    The noise is the variance of the gradient over messages of min-max codes (AdaQP Theorem 1), of a GCN with 3 layers
    and 64 columns, trained for 20 epochs on a METIS cut for two workers.

    Args:
        policy: any value of the axis ``bits``; its bit-widths of epoch 0 are used. ``None`` prints an instruction.
        bits: the uniform bit-width to compare with.

    Returns:
        True if the noise is at least 1.2 times less; smaller differences are within the scatter of some dozens of
        passes.

    Example:
        >>> from gnnqlab.bits import Fixed
        >>> grade_policy(Fixed(bits=8), graph="sbm:80,3,6")  # doctest: +ELLIPSIS
        Not yet: 14... kB per pass, more than the 5... kB of 2 bits. Which rows can do with fewer bits?
        False
    """
    if not is_made(policy, "policy"):
        return False
    assert policy is not None
    width = human_bits(bits)
    answer_bytes, answer_noise = _noise(policy, graph)  # bytes and noise of the answer
    uniform_bytes, uniform_noise = _uniform_noise(bits, graph)  # cached: the same for every answer
    if answer_bytes > uniform_bytes:
        print(
            f"Not yet: {human_bytes(answer_bytes)} per pass, more than the {human_bytes(uniform_bytes)} of {width}. "
            "Which rows can do with fewer bits?"
        )
        return False
    ratio = uniform_noise.variance / answer_noise.variance  # above 1: less noise than uniform bits
    noise = f"{ratio:.2f} times less noise" if ratio >= 1 else f"{1 / ratio:.2f} times as much noise"
    result = f"{human_bytes(answer_bytes)} per pass ({width}: {human_bytes(uniform_bytes)}), {noise}"
    if ratio < _LESS:
        print(f"Not yet: {result}; the goal is {_LESS:g} times less. Which rows are short, and which make most noise?")
        return False
    print(f"Right: {result}.")
    return True


@graded_code(
    "20.codec",
    "codec.layout(bits, rows, columns), codec.encode(...) and codec.decode(...)",
    counts=lambda rows=None, most=None: rows is None and most == 20,
)
def grade_codec(codec: Codec | None, bits: int, *, rows: Tensor | None = None, most: int | None = None) -> bool:
    """Check that a codec is unbiased and takes no more bytes than allowed.

    The rows sent are of every kind that a codec meets: normal, spiky, constant, of one element, and zeros.

    Args:
        codec: any value of the axis ``codec``. ``None`` prints an instruction.
        bits: the bit-width to test.
        rows: float32 ``(n, D)``, sent instead.
        most: bytes that a row of 64 elements may take; ``None`` sets no limit.

    Returns:
        True if the mean of many messages is the row, within the sampling error, and no row takes too many bytes.

    Example:
        >>> from gnnqlab.message import Stochastic
        >>> grade_codec(Stochastic(), 2)
        Right: 4 kinds of rows are decoded without bias, in 40, 40, 40 and 9 bytes per row.
        True
    """
    if not is_made(codec, "codec"):
        return False
    assert codec is not None
    num_bytes = codec.layout(bits, 1, _COLUMNS).num_bytes  # bytes of one row
    if most is not None and num_bytes > most:
        print(
            f"Not yet: a row of {_COLUMNS} elements takes {num_bytes} bytes, and {most} are allowed. "
            "What is sent in addition to the codes?"
        )
        return False
    kinds = {"of your own": rows} if rows is not None else kinds_of_rows()
    sizes = []
    for name, kind_rows in kinds.items():
        layout, zero_rows = codec.layout(bits, *kind_rows.shape), torch.zeros_like(kind_rows)
        # Zeros are tested first: a division by the range or the norm fails there.
        if not torch.equal(decode_repeatedly(zero_rows[0], codec, bits, draws=2), zero_rows[:1].expand(2, -1)):
            print("Not yet: a row of zeros is not decoded as zeros. What does it divide by?")
            return False
        error = codec_error(codec, kind_rows, bits, draws=_DRAWS)  # bias and squared error, relative to the rows
        # The mean of unbiased messages is off by about the root of (squared error / messages); NaN fails as well.
        if not error.bias <= _SIGMAS * (error.squared / _DRAWS) ** 0.5 + _ROUNDED:
            print(
                f"Not yet: rows that are {name} have a bias of {100 * error.bias:.0f} % of their norm, over "
                f"{_DRAWS} messages. Is an element more likely to become the nearer of its two codes?"
            )
            return False
        sizes.append(f"{layout.num_bytes / kind_rows.shape[0]:g}")  # bytes per row of this kind
    words = " and ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1])))
    kind = "kind of rows is" if len(sizes) == 1 else "kinds of rows are"
    print(f"Right: {len(sizes)} {kind} decoded without bias, in {words} bytes per row.")
    return True


def is_made(part: object, word: str) -> bool:
    """Return True if a part is a value, neither ``None`` nor a class; print an instruction otherwise."""
    if part is None:
        print(f"Put your {word} in place of None and run the cell again.")
        return False
    if isinstance(part, type):
        print(f"Not yet: a {word} is a value, {part.__name__}(), got the class {part.__name__}.")
        return False
    return True


@dataclass(frozen=True)
class _CountedCodec(Stochastic):
    """Min-max codes that count their bytes."""

    sizes: list[int] = field(default_factory=list, compare=False)
    """Bytes of each message encoded so far."""

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        self.sizes.append(layout.num_bytes)  # bytes are counted where they are written
        return super().encode(x, rows, ids, layout, segment, noise)


def _noise(policy: BitPolicy, graph: str) -> tuple[float, GradientNoise]:
    """Return the bytes of a pass and the noise of its gradient."""
    loaded_graph, shape, weights = _trained_model(graph)
    codec = _CountedCodec()
    noise = gradient_noise(
        loaded_graph, policy, shape, workers=_WORKERS, repeats=_REPEATS, weights=weights, codec=codec
    )
    return sum(codec.sizes) / _REPEATS, noise  # mean bytes of a pass


@cache
def _uniform_noise(bits: int, graph: str) -> tuple[float, GradientNoise]:
    return _noise(Fixed(bits=bits), graph)


@cache
def _trained_model(graph: str) -> tuple[Graph, ModelSettings, Tensor]:
    loaded_graph, shape = load(graph), ModelSettings(layers=3, hidden=64, dropout=0.0)
    # float32 training, the same for every answer
    return loaded_graph, shape, trained_weights(loaded_graph, shape, _EPOCHS)


def kinds_of_rows() -> dict[str, Tensor]:
    """Return rows of every kind that a codec meets, by name."""
    normal_rows = torch.randn(6, 128, generator=torch.Generator().manual_seed(0))
    spiky_rows = 0.01 * normal_rows  # small elements and one large one
    spiky_rows[:, 3] = 1.0
    return {
        "normal": normal_rows,
        "spiky": spiky_rows,
        "constant": torch.full((3, 128), 0.7),
        "of one element": torch.tensor([[0.5], [-2.0]]),
    }


# Standard errors of an accepted bias; accepted factor over the variance of Theorem 1.
_ROW_SIGMAS, _MAX_ERROR_RATIO = 3.0, 1.25
# Bit-widths to assign, rows, and the accepted factor over the least variance.
_WIDTHS, _ROWS, _NEAR = (2, 4, 8), 60, 1.05


@graded_code("04.rounding", "my_codes(row, bits, noise), with a row of shape (D,) and noise of its shape")
def grade_rounding(choose: Callable[[Tensor, int, Tensor], Tensor] | None, *, bits: int = 2) -> bool:
    """Check that a function rounds rows to unbiased codes with no more variance than needed.

    Args:
        choose: takes a row, a bit-width and noise (uniform over [0, 1), one number per element); returns one code per
            element, integers from 0 to ``2**bits - 1``, decoded as ``q S + Z`` with the row's own ``Z`` and ``S``.
            ``None`` prints an instruction.
        bits: the bit-width to test.

    Example:
        >>> import torch
        >>> grade_rounding(lambda row, bits, u: ((row - row.min()) / (row.max() - row.min()) * 3).round())
        Not yet: a constant row has codes that are no numbers. What does it divide by?
        False
    """
    if not _is_function(choose):
        return False
    assert choose is not None
    noise = torch.Generator().manual_seed(0)
    top, times = 2**bits - 1, []  # largest code
    kinds = kinds_of_rows()
    for name in ("constant", "normal", "spiky"):
        row = kinds[name][0]
        length = float(row.norm())
        zero, step = row.min(), (row.max() - row.min()) / top  # Z and S of the row
        # a clone: the function may write into its argument
        draws = [choose(row.clone(), bits, torch.rand(row.shape, generator=noise)) for _ in range(_DRAWS)]
        if code_error := _wrong_codes(draws, row, top):
            print(f"Not yet: a {name} row has codes that are {code_error}")
            return False
        # decoded: q S + Z, minus the row; (draws, D)
        errors = torch.stack([code.double() for code in draws]) * step + zero - row
        # norm of the mean error; mean squared error of a message
        bias, squared_error = float(errors.mean(0).norm()), float(errors.square().sum(1).mean())
        if not bias <= _ROW_SIGMAS * (squared_error / _DRAWS) ** 0.5 + _ROUNDED * length:
            print(
                f"Not yet: the mean of {_DRAWS} messages of a {name} row is off by {100 * bias / length:.0f} % of its "
                "norm. A constant error does not cancel: how often must a value be rounded up?"
            )
            return False
        place = (row - zero) / step if step > 0 else torch.zeros_like(row)  # position in steps
        least_error = float((step**2 * (place.frac() * (1 - place.frac()))).sum())  # Theorem 1: S² Σ σ (1 - σ)
        if squared_error > _MAX_ERROR_RATIO * least_error + (_ROUNDED * length) ** 2:
            print(
                f"Not yet: a {name} row is unbiased, but has {squared_error / max(least_error, 1e-12):.1f} times the "
                "variance of Theorem 1. Is every value rounded to one of its two nearest levels?"
            )
            return False
        if least_error > 0:
            times.append(squared_error / least_error)
    words = ", ".join(f"{ratio:.2f}" for ratio in times)
    print(f"Right: rows are decoded without bias, with {words} times the variance of Theorem 1.")
    return True


def _wrong_codes(draws: Sequence[object], row: Tensor, top: int) -> str:
    """Return the error of the codes before they are decoded; empty if they are valid."""
    # The order of the checks: shape, finite, integer, range; each needs the one before.
    for codes in draws:
        if not isinstance(codes, torch.Tensor) or codes.shape != row.shape:
            shape = tuple(codes.shape) if isinstance(codes, torch.Tensor) else type(codes).__name__
            return f"no tensor of its shape, {tuple(row.shape)}: got {shape}."
        if not torch.isfinite(codes.double()).all():
            return "no numbers. What does it divide by?"
        if not torch.equal(codes.double(), codes.double().round()):
            return "no integers. Where is floor() needed?"
        if int(codes.min()) < 0 or int(codes.max()) > top:
            return f"from {int(codes.min())} to {int(codes.max())}; codes are 0 to {top}."
    return ""


@graded_code("06.widths", "my_widths(beta, columns, most_bytes), with a list of floats and two integers")
def grade_widths(choose: Callable[[Sequence[float], int, int], Sequence[int]] | None) -> bool:
    """Check that a function assigns 2, 4 and 8 bits to rows with nearly the least variance for a budget of bytes.

    It is tested on rows of equal weights, of slightly different ones, and of very different ones.

    Args:
        choose: takes the weights β of rows, the elements per row and the budget in bytes; returns one bit-width per
            row. A row takes its codes and 8 bytes; its variance is ``β / (2**b - 1)**2``. ``None`` prints an
            instruction.

    Example:
        >>> grade_widths(lambda beta, columns, most: [4] * len(beta))
        Not yet: for rows of equal weights the bit-widths take 2400 of 1920 bytes. Which rows can do with fewer bits?
        False
    """
    if not _is_function(choose):
        return False
    assert choose is not None
    generator, times = np.random.default_rng(0), []
    narrow_bytes = _ROWS * _row_bytes(2)  # bytes if all rows have 2 bits
    for name, spread, share in (
        ("equal", 0.0, 0.5),
        ("slightly different", 0.7, 0.6),
        ("very different", 3.0, 0.7),
    ):
        beta = np.exp(spread * generator.standard_normal(_ROWS))  # lognormal weights
        # a budget between 2 and 4 bits for all rows
        budget = narrow_bytes + int(share * _ROWS * (_row_bytes(4) - _row_bytes(2)))
        widths = [int(width) for width in choose(beta.tolist(), _COLUMNS, budget)]
        if len(widths) != _ROWS or not set(widths) <= set(_WIDTHS):
            print(f"Not yet: return a bit-width of {_WIDTHS} for each of {_ROWS} rows, got {len(widths)}: {widths}.")
            return False
        num_bytes = sum(map(_row_bytes, widths))
        if num_bytes > budget:
            print(
                f"Not yet: for rows of {name} weights the bit-widths take {num_bytes} of {budget} bytes. Which rows "
                "can do with fewer bits?"
            )
            return False
        # variance of the answer over the least one
        ratio = float((beta / (2.0 ** np.array(widths) - 1) ** 2).sum()) / _least_variance(beta, budget)
        if ratio > _NEAR:
            print(
                f"Not yet: rows of {name} weights have {ratio:.2f} times the least variance possible in {budget} "
                f"bytes; the goal is {_NEAR:g} at most. For which row do more bytes reduce the variance most?"
            )
            return False
        times.append(ratio)
    words = ", ".join(f"{ratio:.2f}" for ratio in times)
    print(f"Right: {words} times the variance of the best bit-widths, {human_bits(2)} to {human_bits(8)}.")
    return True


def _least_variance(beta: NDArray, budget: int) -> float:
    """Return the least possible variance, by dynamic programming over rows and bytes."""
    unit = _row_bytes(4) - _row_bytes(2)  # bytes of two more bits per element: every width costs a multiple of it
    room = (budget - len(beta) * _row_bytes(2)) // unit  # number of units that the budget allows
    variances = np.zeros(room + 1)  # least variance by units spent so far
    for weight in beta:
        options = []
        for width in _WIDTHS:
            extra = (_row_bytes(width) - _row_bytes(2)) // unit
            shifted_variances = np.full(room + 1, np.inf)
            shifted_variances[extra:] = variances[: room + 1 - extra]  # spending `extra` units on this row
            options.append(shifted_variances + weight / (2.0**width - 1) ** 2)
        variances = np.min(options, axis=0)  # (widths, room + 1) -> (room + 1,)
    return float(variances.min())


def _row_bytes(width: int) -> int:
    return _COLUMNS * width // 8 + 8  # codes and two float32 parameters


def _is_function(choose: object) -> bool:
    if not is_made(choose, "function"):
        return False
    if not callable(choose):
        print(f"Not yet: the answer must be a function, got {choose!r}.")
        return False
    return True
