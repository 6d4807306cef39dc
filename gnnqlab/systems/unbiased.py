"""Where AdaQP's Theorem 1 ends: it is about messages that are right on average, and Theorem 3 stands on it.

The one place that says so. Whatever shows a variance by these theorems asks here first: ``gq.theory.check``, a probe's
forecasts and the tuner. A part (cache or codec) whose messages are biased tells by ``biased(direction)`` why; the part
alone knows.
"""

from __future__ import annotations

from typing import Any

from gnnqlab.bits.row import EXACT
from gnnqlab.message.direction import of_direction
from gnnqlab.systems.system import System

__all__ = ["biased", "require_unbiased", "refuse_biased"]


def biased(system: System, bits: Any = None) -> str:
    """Return why a message of a system is wrong on average, and of which part; empty where none is.

    ``E[decode(encode(x))] = x`` is what Theorem 1 (AdaQP, Wan et al., MLSys 2023) states of a message beside its
    variance. Rows of 32 bits are not rounded, so nothing biases them.

    Args:
        system: whose cache and codecs are asked.
        bits: instead of the system's own policy.

    Example:
        >>> from dataclasses import replace
        >>> from gnnqlab.message import Feedback, Linear
        >>> from gnnqlab.systems.recipes.uniform_bits import fixed_bits
        >>> biased(fixed_bits(bits=2)), biased(replace(fixed_bits(bits=2), codec=Linear()))
        ('', 'codec Linear rounds to the nearest level, so a row has the same error in every draw')
    """
    for direction in ("forward", "backward"):
        if set(of_direction(system.bits if bits is None else bits, direction).choices) == {EXACT}:
            continue
        for axis in ("cache", "codec"):
            part = of_direction(getattr(system, axis), direction)
            reason = part.biased(direction)
            if reason:
                return f"{axis} {type(part).__name__} {reason}"
    return ""


def require_unbiased(system: System, what: str, bits: Any = None) -> None:
    """Refuse a system of which a theorem about unbiased messages is asked.

    Args:
        system: whose messages they are.
        what: what is asked, in words.
        bits: instead of the system's own policy.

    Raises:
        ValueError: if its messages are biased.
    """
    refuse_biased(biased(system, bits), what)


def refuse_biased(reason: str, what: str) -> None:
    """Refuse for a reason that :func:`biased` gave; nothing where there is none.

    Raises:
        ValueError: with rule, reason and way out.
    """
    if reason:
        raise ValueError(
            f"{what} is of messages that are right on average (AdaQP Theorem 1: E[decoded row] = row), and in this "
            f"system {reason}; choose cache NoCache() or Difference() and an unbiased codec, for instance "
            "Stochastic(), or measure: 'gnnqlab bench codecs' has the errors of single and of mean messages"
        )
