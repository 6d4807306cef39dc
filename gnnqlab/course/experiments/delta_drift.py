"""How far replicas drift that are kept by quantized differences."""

from __future__ import annotations

import torch

__all__ = ["drift_of_deltas"]


def drift_of_deltas() -> dict[str, float]:
    """Return a replica's error in steps after 100 deltas of 4 bits (CDFGNN Alg. 2 with Eqs. 22, 23).

    ``own``: the sender keeps its own value; ``decoded``: what receivers decode.

    Example:
        >>> drift = drift_of_deltas()
        >>> drift["own"] > 2 * drift["decoded"]
        True
    """
    figures = {}
    for name, keeps_decoded in (("own", False), ("decoded", True)):
        generator = torch.Generator().manual_seed(0)
        value, kept, replica = (torch.zeros(64) for _ in range(3))
        for _ in range(100):
            value = value + torch.randn(64, generator=generator)
            delta = value - kept
            step = (delta.amax() - delta.amin()) / 15
            sent = torch.round((delta - delta.amin()) / step) * step + delta.amin()
            replica = replica + sent
            kept = replica.clone() if keeps_decoded else value
        figures[name] = float((replica - value).square().mean().sqrt() / step)
    return figures
