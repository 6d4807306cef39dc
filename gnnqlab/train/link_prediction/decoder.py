"""Decoders of link prediction: score a pair of nodes from their two embeddings, symmetric in both.

Letters: n pairs, T rows, D columns.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["DECODERS", "Decoder", "attach_decoder", "decoder_of"]

DECODERS = ("dot", "mlp")
_NAME = "link_decoder"
"""Name of the decoder among the modules of a model, and prefix of its parameters in ``model.safetensors``."""
_AT_ONCE = 1 << 22
"""Elements of gathered rows per chunk: 16 MiB for each end of the pairs."""


class Decoder(nn.Module):
    """Score of a pair of embeddings: ``<h_u, h_v>``, or ``w2 relu(W1 (h_u * h_v) + b1) + b2``.

    Args:
        kind: ``dot`` or ``mlp``, one hidden layer of dimension D.
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
            with torch.random.fork_rng(devices=[]):  # leave the global generator as it is
                torch.manual_seed(seed)
                self.layers = nn.Sequential(nn.Linear(columns, columns), nn.ReLU(), nn.Linear(columns, 1))

    def forward(self, rows: Tensor, first: Tensor, second: Tensor) -> Tensor:
        """Return logits.

        Args:
            rows: embeddings ``(T, D)``.
            first, second: row indices of each pair, int64 ``(n,)``.

        Returns:
            ``(n,)``: positive if an edge is more likely than none.
        """
        if self.layers is None:
            scores: Tensor = _Dots.apply(rows, first, second)
            return scores
        scores = self.layers(rows[first] * rows[second]).squeeze(1)  # (n, D) -> (n, 1) -> (n,)
        return scores


def attach_decoder(model: nn.Module, kind: str, columns: int, *, seed: int) -> Decoder:
    """Add a decoder to a model as a submodule, so that its weights are trained, all-reduced and saved with the model's.

    Raises:
        ValueError: if the model has an attribute of that name.
    """
    if hasattr(model, _NAME):
        raise ValueError(f"link prediction adds a module {_NAME!r} to the model, got a model that has one; rename it")
    decoder = Decoder(kind, columns, seed=seed)
    model.add_module(_NAME, decoder)
    return decoder


def decoder_of(model: nn.Module) -> nn.Module:
    """Return the decoder of a model.

    Raises:
        ValueError: if the model has none.
    """
    decoder = getattr(model, _NAME, None)
    if decoder is None:
        raise ValueError(
            "scores of links need a model trained for task 'links', got one of task 'nodes'; launch task='links'"
        )
    return decoder


class _Dots(torch.autograd.Function):
    """Dot products of pairs of rows, in chunks, so that the gathered rows of all pairs are never in memory at once."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, sources: Tensor, targets: Tensor) -> Tensor:
        ctx.save_for_backward(rows, sources, targets)
        dots = rows.new_empty(sources.numel())  # (n,)
        for span in _spans(sources.numel(), rows.shape[1]):
            dots[span] = (rows[sources[span]] * rows[targets[span]]).sum(1)  # (m, D) -> (m,)
        return dots

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None]:
        rows, sources, targets = ctx.saved_tensors
        gradient = gradients[0]
        rows_gradient = torch.zeros_like(rows)  # (T, D)
        # d<h_u, h_v>/dh_u = h_v; a node of several pairs sums their gradients.
        for span in _spans(sources.numel(), rows.shape[1]):
            weight = gradient[span, None]  # (m, 1)
            # (m, 1) * (m, D); rows of a chunk can repeat, which index_add_ sums and an assignment would not.
            rows_gradient.index_add_(0, sources[span], weight * rows[targets[span]])
            rows_gradient.index_add_(0, targets[span], weight * rows[sources[span]])
        return rows_gradient, None, None


def _spans(pairs: int, columns: int) -> list[slice]:
    step = max(1, _AT_ONCE // max(columns, 1))  # at least one pair, for any D
    return [slice(start, start + step) for start in range(0, pairs, step)]
