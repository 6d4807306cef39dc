"""The arithmetic of training behind one Python API: compiled for the processor at hand, or plain PyTorch.

``noise`` (counter-based bits, dropout), ``codec`` (messages to bytes and back), ``aggregate`` (weighted neighbour sums)
and ``attention`` each have their definition in ``reference``; ``native`` says which of the two runs.
"""

__all__ = ["aggregate", "attention", "codec", "native", "noise", "reference"]
