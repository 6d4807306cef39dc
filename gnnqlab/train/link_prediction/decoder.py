"""From the rows of two nodes to how likely an edge between them is, the same whichever end is named first.

Letters: n pairs, T rows, D columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DECODERS", "Decoder", "attach_decoder", "decoder_of"]

DECODERS = ("dot", "mlp")
_NAME = "link_decoder"
"""Of the decoder among the modules of a model, and of its parameters in ``model.safetensors``."""
_AT_ONCE = 1 << 22
"""Elements of gathered rows at a time: 16 MiB of each end."""


class Decoder(nn.Module):
    """Scores pairs of rows: ``<h_u, h_v>``, or ``w2 relu(W1 (h_u * h_v) + b1) + b2``.

    Args:
        kind: ``dot`` or ``mlp``, one hidden layer as wide as the rows.
        columns: D.
        seed: of the weights.

    Example:
        >>> rows = torch.tensor([[1.0, 2.0], [3.0, 4.0]])
        >>> Decoder("dot", 2, seed=0)(rows, torch.tensor([0]), torch.tensor([1]))
        tensor([11.])
    """

    def __init__(self, kind: str, columns: int, *, seed: int) -> None:
        super().__init__()
        self.layers: nn.Module | None = None
        if kind == "mlp":
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                self.layers = nn.Sequential(nn.Linear(columns, columns), nn.ReLU(), nn.Linear(columns, 1))

    def forward(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return logits.

        Args:
            rows: ``(T, D)``.
            first, second: which rows are paired, int64 ``(n,)``.

        Returns:
            ``(n,)``: above 0 where an edge is likelier than not.
        """
        if self.layers is None:
            scores: Tensor = _Dots.apply(rows, first, second)
            return scores
        scores = self.layers(rows[first] * rows[second]).squeeze(1)
        return scores


def attach_decoder(model: nn.Module, kind: str, columns: int, *, seed: int) -> Decoder:
    """Make a decoder a part of a model, so that its weights are trained, summed and kept with the model's.

    Raises:
        ValueError: if the model has a part of that name.
    """
    if hasattr(model, _NAME):
        raise ValueError(f"a model that predicts links gets a part {_NAME!r}, got a model that has one; rename it")
    decoder = Decoder(kind, columns, seed=seed)
    model.add_module(_NAME, decoder)
    return decoder


def decoder_of(model: nn.Module) -> nn.Module:
    """Return the decoder of a model.

    Raises:
        ValueError: if it has none.
    """
    found = getattr(model, _NAME, None)
    if found is None:
        raise ValueError(
            "scores of links need a model that was trained for them, got one of task 'nodes'; launch task='links'"
        )
    return found


class _Dots(torch.autograd.Function):
    """Scalar products of pairs of rows, some at a time, so that gathered rows are never all there at once."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        ctx.save_for_backward(rows, first, second)
        out = rows.new_empty(first.numel())
        for at in _spans(first.numel(), rows.shape[1]):
            out[at] = (rows[first[at]] * rows[second[at]]).sum(1)
        return out

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        rows, first, second = ctx.saved_tensors
        gradient = gradients[0]
        out = torch.zeros_like(rows)
        for at in _spans(first.numel(), rows.shape[1]):
            weight = gradient[at, None]
            out.index_add_(0, first[at], weight * rows[second[at]])
            out.index_add_(0, second[at], weight * rows[first[at]])
        return out, None, None


def _spans(pairs: int, columns: int) -> list[slice]:
    step = max(1, _AT_ONCE // max(columns, 1))
    return [slice(start, start + step) for start in range(0, pairs, step)]
