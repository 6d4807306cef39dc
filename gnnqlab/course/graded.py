"""Exercises that are graded by running what was written: a codec and a choice of bit-widths of one's own."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.codec_views import sent_often
from gnnqlab.message.codecs.codec import Stochastic

if TYPE_CHECKING:
    from torch import Tensor

    from gnnqlab.bits.policy import BitPolicy
    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.codecs.codec import Codec, Noise
    from gnnqlab.message.wire import Layout
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.gradient_noise import GradientNoise

__all__ = ["grade_codec", "grade_policy", "is_made", "kinds_of_rows"]

_EPOCHS, _REPEATS, _DRAWS = 20, 32, 256
_LESS, _SIGMAS, _ROUNDED = 1.2, 2.0, 1e-3
_WORKERS, _COLUMNS = 2, 64


def grade_policy(policy: BitPolicy | None, *, bits: int = 2, graph: str = "digits") -> bool:
    """Say whether a choice of bit-widths leaves less noise in the gradient than one width for all, in no more bytes.

    A GCN of 3 layers and 64 columns, trained for 20 epochs on a METIS cut for two workers; the variance of its gradient
    over messages of min-max codes, as AdaQP's Theorem 1 has them.

    Args:
        policy: any value of the axis ``bits``; asked for the widths of epoch 0. ``None``: says where it belongs.
        bits: the width that it is held against.

    Returns:
        Whether it is so, by a fifth at least: less is within the scatter of some dozens of passes.

    Example:
        >>> from gnnqlab.bits import Fixed
        >>> grade_policy(Fixed(bits=8), graph="sbm:80,3,6")  # doctest: +ELLIPSIS
        Not yet: 14... kB a pass, more than the 5... kB of 2 bits. Which rows can do with fewer bits?
        False
    """
    if not is_made(policy, "policy"):
        return False
    assert policy is not None
    width = human_bits(bits)
    ours_bytes, ours = _noise(policy, graph)
    theirs_bytes, theirs = _fixed(bits, graph)
    if ours_bytes > theirs_bytes:
        print(
            f"Not yet: {ours_bytes / 1e3:.1f} kB a pass, more than the {theirs_bytes / 1e3:.1f} kB of {width}. "
            "Which rows can do with fewer bits?"
        )
        return False
    ratio = theirs.variance / ours.variance
    noise = f"{ratio:.2f} times less noise" if ratio >= 1 else f"{1 / ratio:.2f} times as much noise"
    said = f"{ours_bytes / 1e3:.1f} kB a pass ({width}: {theirs_bytes / 1e3:.1f}), {noise}"
    if ratio < _LESS:
        print(f"Not yet: {said}; {_LESS:g} times less is asked for. Which rows are short, and what makes most noise?")
        return False
    print(f"Right: {said}.")
    return True


def grade_codec(codec: Codec | None, bits: int, *, rows: Tensor | None = None, most: int | None = None) -> bool:
    """Say whether a codec brings rows back right on average, in the bytes that it promises.

    Sent are rows of every kind that a codec meets: normal, spiky, constant, of one element, and zeros.

    Args:
        codec: any value of the axis ``codec``. ``None``: says where it belongs.
        bits: the width that is tried.
        rows: float32 ``(n, D)`` that are sent instead.
        most: bytes that a row of 64 elements may take; any number of them if ``None``.

    Returns:
        Whether the mean of many messages is the row, as far as their number tells, and no row is too long.

    Example:
        >>> from gnnqlab.message import Stochastic
        >>> grade_codec(Stochastic(), 2)
        Right: 4 kinds of rows come back, on average as they were sent, in 40, 40, 40 and 9 bytes a row.
        True
    """
    import torch

    from gnnqlab.simulation.codec_error import codec_error

    if not is_made(codec, "codec"):
        return False
    assert codec is not None
    long = codec.layout(bits, 1, _COLUMNS).num_bytes
    if most is not None and long > most:
        print(
            f"Not yet: a row of {_COLUMNS} takes {long} bytes, {most} at most are asked for. "
            "What travels beside the codes?"
        )
        return False
    kinds = {"of your own": rows} if rows is not None else kinds_of_rows()
    sizes = []
    for name, sent in kinds.items():
        layout, nothing = codec.layout(bits, *sent.shape), torch.zeros_like(sent)
        if not torch.equal(sent_often(nothing[0], codec, bits, draws=2), nothing[:1].expand(2, -1)):
            print("Not yet: a row of zeros comes back as something else. What does it divide by?")
            return False
        error = codec_error(codec, sent, bits, draws=_DRAWS)
        if not error.bias <= _SIGMAS * (error.squared / _DRAWS) ** 0.5 + _ROUNDED:
            print(
                f"Not yet: rows that are {name} come back {100 * error.bias:.0f} % of their length away, on average "
                f"over {_DRAWS} messages. Is an element between two codes the likelier to become one the nearer it is?"
            )
            return False
        sizes.append(f"{layout.num_bytes / sent.shape[0]:g}")
    words = " and ".join(filter(None, (", ".join(sizes[:-1]), sizes[-1])))
    kind = "kind of rows comes" if len(sizes) == 1 else "kinds of rows come"
    print(f"Right: {len(sizes)} {kind} back, on average as they were sent, in {words} bytes a row.")
    return True


def is_made(part: object, word: str) -> bool:
    """Whether a part is there, and is a value and no class; says what is missing."""
    if part is None:
        print(f"Put your {word} in place of None and run the cell again.")
        return False
    if isinstance(part, type):
        print(f"Not yet: a {word} is a value, {part.__name__}(), got the class {part.__name__}.")
        return False
    return True


@dataclass(frozen=True)
class _Weighed(Stochastic):
    """Min-max codes whose bytes are counted."""

    sizes: list[int] = field(default_factory=list, compare=False)

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        self.sizes.append(layout.num_bytes)
        return super().encode(x, rows, ids, layout, segment, noise)


def _noise(policy: BitPolicy, graph: str) -> tuple[float, GradientNoise]:
    """Bytes of a pass, and the noise of its gradient."""
    from gnnqlab.simulation.gradient_noise import gradient_noise

    loaded, shape, weights = _trained(graph)
    codec = _Weighed()
    noise = gradient_noise(loaded, policy, shape, workers=_WORKERS, repeats=_REPEATS, weights=weights, codec=codec)
    return sum(codec.sizes) / _REPEATS, noise


@cache
def _fixed(bits: int, graph: str) -> tuple[float, GradientNoise]:
    from gnnqlab.bits.policy import Fixed

    return _noise(Fixed(bits=bits), graph)


@cache
def _trained(graph: str) -> tuple[Graph, ModelSettings, Tensor]:
    from gnnqlab.graph.sources import load
    from gnnqlab.nn.models.registry import ModelSettings
    from gnnqlab.simulation.gradient_noise import trained_weights

    loaded, shape = load(graph), ModelSettings(layers=3, hidden=64, dropout=0.0)
    return loaded, shape, trained_weights(loaded, shape, _EPOCHS)


def kinds_of_rows() -> dict[str, Tensor]:
    """Rows of every kind that is met, by name."""
    import torch

    normal = torch.randn(6, 128, generator=torch.Generator().manual_seed(0))
    spiky = 0.01 * normal
    spiky[:, 3] = 1.0
    return {
        "normal": normal,
        "spiky": spiky,
        "constant": torch.full((3, 128), 0.7),
        "of one element": torch.tensor([[0.5], [-2.0]]),
    }
