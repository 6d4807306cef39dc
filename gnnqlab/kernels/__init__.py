"""Numerical kernels with one Python API and two backends: compiled for the local processor, or plain PyTorch.

``noise`` (counter-based bits, dropout), ``codec`` (messages to bytes and back), ``aggregate`` (weighted neighbour sums)
and ``attention`` are each defined in ``reference``; ``native`` selects the backend.
"""

__all__ = ["aggregate", "attention", "codec", "native", "noise", "reference"]
