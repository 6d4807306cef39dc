"""Validity of AdaQP's Theorems 1 and 3: both hold for unbiased messages only.

Code that reports a variance by these theorems calls this module first: ``gq.theory.check``, a probe's forecasts and the
tuner. A part (cache or codec) with biased messages returns the reason from ``biased(direction)``.
"""

from __future__ import annotations

from typing import Any

from gnnqlab.bits.row import EXACT
from gnnqlab.message.direction import of_direction
from gnnqlab.systems.system import System

__all__ = ["biased", "require_unbiased", "refuse_biased"]


def biased(system: System, bits: Any = None) -> str:
    """Return the part that biases a system's messages, with the reason; empty if messages are unbiased.

    Theorem 1 (AdaQP, Wan et al., MLSys 2023) states both the variance and ``E[decode(encode(x))] = x``. Rows of 32 bits
    are not rounded, so they are unbiased.

    Args:
        system: the system with its cache and codecs.
        bits: bit policy in place of the system's own.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.message import Feedback, Linear
        >>> from gnnqlab.systems.recipes.uniform_bits import fixed_bits
        >>> biased(fixed_bits(bits=2)), biased(replace(fixed_bits(bits=2), codec=Linear()))
        ('', 'codec Linear rounds to the nearest level, so a row has the same error in every draw')
    """
    for direction in ("forward", "backward"):
        if set(of_direction(system.bits if bits is None else bits, direction).choices) == {EXACT}:  # no rounding
            continue
        for axis in ("cache", "codec"):
            part = of_direction(getattr(system, axis), direction)
            reason = part.biased(direction)  # a biased cache is reported before the codec behind it
            if reason:
                return f"{axis} {type(part).__name__} {reason}"
    return ""


def require_unbiased(system: System, what: str, bits: Any = None) -> None:
    """Check that a system's messages are unbiased, as a theorem requires.

    Args:
        system: the system with its cache and codecs.
        what: the quantity that needs unbiased messages, for the error text.
        bits: bit policy in place of the system's own.

    Raises:
        ValueError: if its messages are biased.
    """
    refuse_biased(biased(system, bits), what)


def refuse_biased(reason: str, what: str) -> None:
    """Raise an error with the reason returned by :func:`biased`, if there is one.

    Raises:
        ValueError: if ``reason`` is not empty.
    """
    if reason:
        raise ValueError(
            f"{what} holds for unbiased messages (AdaQP Theorem 1: E[decoded row] = row), but in this system "
            f"{reason}; choose cache NoCache() or Difference() and an unbiased codec, for instance Stochastic(), or "
            "measure the errors of single and mean messages with 'gnnqlab bench codecs'"
        )
