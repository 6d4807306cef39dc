"""The empty choices of axes whose other parts come with their systems."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["AllRows", "Float32Products", "NoCache"]


@dataclass(frozen=True)
class AllRows:
    """Sampler: every boundary row travels in every epoch."""


@dataclass(frozen=True)
class NoCache:
    """Cache: every row is sent, whatever changed."""


@dataclass(frozen=True)
class Float32Products:
    """Compute: every product in float32."""
