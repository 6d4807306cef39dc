"""The empty choices of axes whose other parts come with their systems."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Float32Products", "NoCache"]


@dataclass(frozen=True)
class NoCache:
    """Cache: every row is sent, whatever changed."""


@dataclass(frozen=True)
class Float32Products:
    """Compute: every product in float32."""
