"""Optimizers over flat parameters: Adam, AdamW and SGD, and any optimizer of PyTorch by a user's function.

The reduced gradients are identical on all workers, so each worker makes the same step without communication. The three
named ones equal those of ``torch.optim``; they are used because the constructor of any ``torch.optim`` optimizer
imports the compiler: two seconds per worker.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from gnnqlab.by_name import function_of
from gnnqlab.train.loop.learning_rate import LearningRate
from gnnqlab.train.loop.parameters import FlatParameters

__all__ = ["OPTIMIZERS", "Adam", "Optimizer", "make_optimizer", "optimizer_function"]

OPTIMIZERS = ("adam", "adamw", "sgd")


class Optimizer(ABC):
    """One step of the parameters with the reduced gradients.

    Args:
        parameters: updated in place.
        learning_rate: by epoch.
        weight_decay: of the optimizer.
        max_gradient_norm: largest L2 norm of the gradients, to which larger ones are scaled down.
    """

    def __init__(
        self,
        parameters: FlatParameters,
        *,
        learning_rate: LearningRate,
        weight_decay: float = 0.0,
        max_gradient_norm: float | None = None,
    ) -> None:
        self._parameters = parameters
        self.learning_rate = learning_rate
        self._weight_decay, self.max_gradient_norm = weight_decay, max_gradient_norm

    @torch.no_grad()
    def step(self, epoch: int = 0) -> None:
        """Update the parameters by one step.

        Args:
            epoch: whose learning rate is used; without a schedule all epochs have the same.
        """
        if self.max_gradient_norm is not None:
            self._parameters.clip_gradients(self.max_gradient_norm)
        self._update(self.learning_rate.value(epoch))

    @abstractmethod
    def _update(self, lr: float) -> None:
        """Update the parameters with a learning rate."""

    def tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the state, which exist before the first step, for checkpoints; updated in place."""
        return {}

    def late_tensors(self) -> dict[str, Tensor]:
        """Return the tensors of the state that only steps make."""
        return {}

    def load_late(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the result of :meth:`late_tensors`."""
        assert not tensors


class Adam(Optimizer):
    """Adam (Kingma & Ba, 2015), fused; or AdamW (Loshchilov & Hutter, 2019), which decays the weights themselves."""

    def __init__(self, parameters: FlatParameters, *, decoupled: bool = False, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._fused = torch._fused_adamw_ if decoupled else torch._fused_adam_  # type: ignore[attr-defined]
        self.average = torch.zeros_like(parameters.values)  # first moment
        self.square = torch.zeros_like(parameters.values)  # second moment
        self.steps = torch.zeros((), device=parameters.values.device)  # (), a tensor, as the fused kernel needs

    def tensors(self) -> dict[str, Tensor]:
        """Return both moments and the number of steps."""
        return {"average": self.average, "square": self.square, "steps": self.steps}

    def _update(self, lr: float) -> None:
        self.steps += 1
        self._fused(
            [self._parameters.values],
            [self._parameters.gradients],
            [self.average],
            [self.square],
            [],  # no maxima of AMSGrad
            [self.steps],
            lr=lr,
            beta1=0.9,
            beta2=0.999,
            weight_decay=self._weight_decay,
            eps=1e-8,
            amsgrad=False,
            maximize=False,
        )


class SGD(Optimizer):
    """Gradient descent with optional momentum, as ``torch.optim.SGD``."""

    def __init__(self, parameters: FlatParameters, *, momentum: float = 0.0, **options: Any) -> None:
        super().__init__(parameters, **options)
        self._momentum = momentum
        self.velocity = torch.zeros_like(parameters.values if momentum else parameters.values[:0])

    def tensors(self) -> dict[str, Tensor]:
        """Return the velocity."""
        return {"velocity": self.velocity}

    def _update(self, lr: float) -> None:
        values, step = self._parameters.values, self._parameters.gradients
        if self._weight_decay:
            step = step.add(values, alpha=self._weight_decay)
        if self._momentum:
            step = self.velocity.mul_(self._momentum).add_(step)
        values.add_(step, alpha=-lr)


class OwnOptimizer(Optimizer):
    """Optimizer of PyTorch that a user's function makes from the parameters."""

    def __init__(self, parameters: FlatParameters, *, function: str, **options: Any) -> None:
        super().__init__(parameters, **options)
        make, self._name = optimizer_function(function), function
        lr = self.learning_rate.value(0)
        self._optimizer = make(parameters.list, lr=lr, weight_decay=self._weight_decay)
        if not isinstance(self._optimizer, torch.optim.Optimizer):
            raise ValueError(
                f"optimizer {function!r} must return a torch.optim.Optimizer, got {type(self._optimizer).__name__}"
            )
        self._factors = [group["lr"] / lr if lr else 1.0 for group in self._optimizer.param_groups]

    def _update(self, lr: float) -> None:
        for group, factor in zip(self._optimizer.param_groups, self._factors, strict=True):
            group["lr"] = lr * factor
        with torch.enable_grad():  # for optimizers that evaluate again; the gradients are there
            self._optimizer.step()

    def late_tensors(self) -> dict[str, Tensor]:
        """Return the state of every parameter by its position and name; numbers as float64 tensors."""
        tensors: dict[str, Tensor] = {}
        for position, values in self._optimizer.state_dict()["state"].items():
            for name, value in values.items():
                if isinstance(value, Tensor):
                    tensors[f"{position}/{name}"] = value
                elif value is not None:
                    tensors[f"{position}/{name}#"] = torch.tensor(value, dtype=torch.float64)
        return tensors

    def load_late(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore the result of :meth:`late_tensors`."""
        state: dict[int, dict[str, Any]] = {}
        for key, tensor in tensors.items():
            position, _, name = key.partition("/")
            value = tensor.item() if name.endswith("#") else tensor
            state.setdefault(int(position), {})[name.removesuffix("#")] = value
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})


def make_optimizer(
    parameters: FlatParameters, *, name: str = "adam", momentum: float = 0.0, **options: Any
) -> Optimizer:
    """Return an optimizer.

    Args:
        parameters: updated in place.
        name: one of ``OPTIMIZERS``, or a user's function as ``module:function``.
        momentum: of ``sgd``.
        **options: as for :class:`Optimizer`.

    Raises:
        ValueError: if there is no such function, or it returns something else.
    """
    if name == "sgd":
        return SGD(parameters, momentum=momentum, **options)
    if name in OPTIMIZERS:
        return Adam(parameters, decoupled=name == "adamw", **options)
    return OwnOptimizer(parameters, function=name, **options)


def optimizer_function(name: str) -> Any:
    """Return the user's function ``module:function``, called with the parameters, ``lr`` and ``weight_decay``.

    Raises:
        ValueError: if there is no such function.
    """
    return function_of("optimizer", name, OPTIMIZERS, "(parameters, lr, weight_decay)")
