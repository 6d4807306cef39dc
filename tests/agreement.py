"""Comparison of the workers' results with one process that trained the whole graph."""

from __future__ import annotations

import torch

# Sums run in another order on another number of workers: a few float32 roundings, each 6e-8 relative, grow by
# the depth of the sums (degrees and columns of some tens) to at most about 1e-6 of the largest value.
TOLERANCE = 1e-5


def assert_same_training(results: list[dict], truth: dict) -> None:
    """Assert that losses and gradients of every worker, and the logits of all rows, equal those of the whole graph."""
    logits = torch.empty_like(truth["logits"])
    for result in results:
        logits[result["ids"]] = result["logits"]
        for name in ("losses", "gradients"):
            scale = truth[name].abs().max()
            assert (result[name] - truth[name]).abs().max() <= TOLERANCE * scale, name
    assert (logits - truth["logits"]).abs().max() <= TOLERANCE * truth["logits"].abs().max()


def what_came_out(trainer, epochs: int, losses: list, gradients: list) -> dict:
    """Close a trainer after some epochs and return the values that :func:`assert_same_training` compares."""
    with torch.no_grad():
        logits = trainer.model(trainer.graph.open_pass(epochs, training=False), trainer.graph.features)
    trainer.close()
    return {
        "losses": torch.tensor(losses),
        "gradients": torch.stack(gradients),
        "logits": logits,
        "ids": trainer.graph.ids,
    }
