"""Differences of colours as people see them whose eyes lack one kind of cones.

Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB; differences are CIE 1976 ΔE*ab with the white D65.
About 10 is needed to tell neighbouring areas apart at a glance.
"""

from __future__ import annotations

import numpy as np

__all__ = ["VISIONS", "difference"]

VISIONS = {
    "trichromacy": np.eye(3),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
}
_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)
_WHITE = np.array([0.95047, 1.0, 1.08883])


def difference(first: str, second: str, vision: str) -> float:
    """Return ΔE*ab of two colours, ``#rrggbb``, in one of ``VISIONS``."""
    return float(np.linalg.norm(_lab(first, vision) - _lab(second, vision)))


def _lab(color: str, vision: str) -> np.ndarray:
    channels = np.array([int(color[start : start + 2], 16) / 255 for start in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    x, y, z = _XYZ @ np.clip(VISIONS[vision] @ linear, 0, 1) / _WHITE
    f = [each ** (1 / 3) if each > 216 / 24389 else (24389 / 27 * each + 16) / 116 for each in (x, y, z)]
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])
