"""Check before the first backward pass: the loss has a gradient, with respect to the same parameters on all workers."""

from __future__ import annotations

import torch
import torch.distributed as dist
from torch import Tensor, nn

__all__ = ["GradientCheck"]


class GradientCheck:
    """Check of a training's losses; the workers compare their parameters once, in the first pass.

    Args:
        model: its parameters are compared.
        distributed: True if there are other workers.
    """

    def __init__(self, model: nn.Module, *, distributed: bool) -> None:
        self._model = model
        self._is_due = distributed

    def __call__(self, loss: Tensor) -> None:
        """Raise if a loss has no gradient, or has one with respect to some parameter on some workers only.

        Raises:
            ValueError: with the parameter and the ranks; on all workers.
        """
        # Workers exchange gradients of rows in the backward pass: one without such a pass would let the others wait.
        if self._is_due:
            self._is_due = False
            self._require_equal(loss)
        if not loss.requires_grad:
            raise ValueError(
                "the model's output must depend on a parameter with a gradient, got a loss without; compute the output "
                "with the model's parameters, without detach() or torch.no_grad()"
            )

    def _require_equal(self, loss: Tensor) -> None:
        reached_ids = _reached(loss)
        parameters = dict(self._model.named_parameters())
        device = loss.device if dist.get_backend() == "nccl" else torch.device("cpu")
        has_gradient = torch.zeros(dist.get_world_size(), len(parameters), dtype=torch.int32, device=device)
        has_gradient[dist.get_rank()] = torch.tensor([id(each) in reached_ids for each in parameters.values()])
        dist.all_reduce(has_gradient)  # rows of the other workers are zero, so the sum gathers them
        for name, on_ranks in zip(parameters, has_gradient.T.tolist(), strict=True):
            ranks = [rank for rank, is_reached in enumerate(on_ranks) if not is_reached]
            if 0 < len(ranks) < len(on_ranks):
                raise ValueError(
                    f"a parameter must get a gradient on all workers or on none, got {name} without one on rank "
                    f"{', '.join(map(str, ranks))}; use it on every worker, also for no rows"
                )


def _reached(loss: Tensor) -> set[int]:
    """Return the ids of the leaves from which a loss was computed."""
    found: set[int] = set()
    seen = {loss.grad_fn}
    to_visit = [loss.grad_fn]
    while to_visit:
        node = to_visit.pop()
        if node is None:  # an input without gradient
            continue
        if node.name() == "torch::autograd::AccumulateGrad":
            found.add(id(node.variable))  # type: ignore[attr-defined]
        for next_node, _ in node.next_functions:
            if next_node not in seen:
                seen.add(next_node)
                to_visit.append(next_node)
    return found
