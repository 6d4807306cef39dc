"""All parameters in one buffer: one all-reduce (see ``reduction.py``), one fused step of Adam."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import nn

from gnnqlab.train.loop.learning_rate import LearningRate

__all__ = ["Adam", "FlatParameters"]


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


class Adam:
    """Adam (Kingma & Ba, 2015) over :class:`FlatParameters`, fused; equals ``torch.optim.Adam``.

    It is used because the constructor of any ``torch.optim`` optimizer imports the compiler: two seconds per worker.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        *,
        learning_rate: LearningRate,
        weight_decay: float = 0.0,
        max_gradient_norm: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
    ) -> None:
        self._parameters = parameters
        self.learning_rate = learning_rate
        self._weight_decay, self._betas, self._eps = weight_decay, betas, eps
        self._max_gradient_norm = max_gradient_norm
        self.average = torch.zeros_like(parameters.values)  # first moment
        self.square = torch.zeros_like(parameters.values)  # second moment
        self.steps = torch.zeros((), device=parameters.values.device)  # (), a tensor, as the fused kernel needs

    @torch.no_grad()
    def step(self, epoch: int = 0) -> None:
        """Update the parameters by one step with the reduced gradients, clipped if there is a largest norm.

        Args:
            epoch: whose learning rate is used; without a schedule all epochs have the same.
        """
        if self._max_gradient_norm is not None:
            self._parameters.clip_gradients(self._max_gradient_norm)
        self.steps += 1
        torch._fused_adam_(  # type: ignore[attr-defined]
            [self._parameters.values],
            [self._parameters.gradients],
            [self.average],
            [self.square],
            [],  # no maxima of AMSGrad
            [self.steps],
            lr=self.learning_rate.value(epoch),
            beta1=self._betas[0],
            beta2=self._betas[1],
            weight_decay=self._weight_decay,
            eps=self._eps,
            amsgrad=False,
            maximize=False,
        )
