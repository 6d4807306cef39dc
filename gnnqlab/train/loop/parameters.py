"""All parameters in one buffer: one all-reduce (see ``reduction.py``), one step of the optimizer."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

__all__ = ["FlatParameters"]


class FlatParameters:
    """A model's parameters and gradients as views of two flat float32 buffers.

    The gradient buffer has a few extra elements for the facts of ``reduction.py``, so that one all-reduce sums all.

    Args:
        model: its parameters become views of the buffers.
        num_facts: number of extra elements.
    """

    def __init__(self, model: nn.Module, *, num_facts: int = 2) -> None:
        self._buffers = list(model.buffers())
        parameters = list(model.parameters())
        self.list: list[nn.Parameter] = parameters
        """Parameters in the order of the buffers."""
        sizes = [parameter.numel() for parameter in parameters]
        device = parameters[0].device if parameters else torch.device("cpu")
        # Two buffers, in the order of model.parameters(): an all-reduce and an optimizer step take one tensor each.
        self.values = torch.empty(sum(sizes), device=device)
        self.summed = torch.zeros(sum(sizes) + num_facts, device=device)
        """Gradients and facts, summed over workers."""
        self.gradients = self.summed[: sum(sizes)]
        self.facts = self.summed[sum(sizes) :]
        offset = 0
        for parameter, size in zip(parameters, sizes, strict=True):
            # Parameter and gradient become views, so the model computes with the buffers themselves.
            view = self.values[offset : offset + size].view_as(parameter)
            view.copy_(parameter.detach())
            parameter.data = view
            parameter.grad = self.summed[offset : offset + size].view_as(parameter)
            offset += size

    def zero(self) -> None:
        """Clear gradients and facts."""
        self.summed.zero_()  # in place: gradients set to None would not be views afterwards

    def clip_gradients(self, max_norm: float) -> None:
        """Scale the gradients down to a largest L2 norm, as ``torch.nn.utils.clip_grad_norm_``.

        The reduced gradients are identical on all workers, so no further communication is needed.
        """
        norm = torch.linalg.vector_norm(self.gradients)  # ()
        # In place, and without a branch, which would synchronize with a GPU.
        self.gradients.mul_((max_norm / (norm + 1e-6)).clamp(max=1.0))

    def broadcast(self) -> None:
        """Broadcast the values of rank 0 to all workers, and the model's buffers, which a builder may draw."""
        dist.broadcast(self.values, 0)
        for buffer in self._buffers:
            if buffer.numel() == 0:
                continue
            # As bytes, because a backend does not support every type of numbers.
            values = buffer.detach().reshape(-1).clone().view(torch.uint8)
            dist.broadcast(values, 0)
            buffer.copy_(values.view(buffer.dtype).view(buffer.shape))
