"""A user's own objective: find its class, construct it, and check one loss before the first epoch."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.by_name import load, module_of
from gnnqlab.graph.graph import Graph
from gnnqlab.partition.shard import Shard
from gnnqlab.train.loop.node_labels import NodeLabels, NodeTargets, label_objective, node_targets
from gnnqlab.train.loop.objective import Objective, Scores
from gnnqlab.train.loop.scores import FURTHER_SCORES, SCORES

__all__ = ["importable_name", "node_objective", "objective_class"]

_MEMBERS = ("score", "further_scores", "channels", "loss", "scores", "train_counts")
_BASES = "derive it from gnnqlab.objectives.OneLabel, or ManyLabels for several labels per node"
_TRIAL_ROWS = 8


def node_objective(
    part: Graph | Shard, device: torch.device | str = "cpu", *, class_weights: str = "", own: str = ""
) -> Objective:
    """Return the objective of the nodes of a whole graph or of one worker's shard.

    Args:
        part: the graph, or a worker's shard.
        device: of labels and masks.
        class_weights: see :func:`gnnqlab.train.loop.node_labels.read_class_weights`.
        own: class of the user, as ``module:Class``, constructed from :class:`NodeTargets`; by default cross-entropy.

    Returns:
        The objective; one of the user has computed a loss and scores of random logits.

    Raises:
        ValueError: if no training node is labelled, weights do not fit the classes, or the class is no objective.

    Example:
        >>> from gnnqlab.graph.sources import load
        >>> node_objective(load("sbm:60,3,6"), own="gnnqlab.train.objectives:OneLabel").score
        'accuracy'
    """
    if not own:
        return label_objective(part, device, class_weights=class_weights)
    targets = node_targets(part, device)
    kind = objective_class(own)
    # Any error of the user's code becomes one that names the objective, on every worker.
    try:
        objective = kind(targets)
    except Exception as error:
        raise ValueError(
            f"objective {own!r} must be constructed from its NodeTargets alone, got {type(error).__name__}: {error}"
        ) from error
    _check_members(own, objective)
    if isinstance(objective, NodeLabels):
        _check_sum(own, objective, targets)
    _check_values(own, objective, targets)
    return objective  # type: ignore[no-any-return]


def objective_class(name: str) -> Any:
    """Return the user's class ``module:Class``.

    Raises:
        ValueError: if there is no such class.

    Example:
        >>> objective_class("gnnqlab.train.objectives:OneLabel").__name__
        'OneLabel'
    """
    try:
        if ":" not in name:
            raise AttributeError("it has no colon")
        kind: Any = load(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"objective must name a class as module:Class, got {name!r}: {error}") from error
    if not isinstance(kind, type):
        raise ValueError(f"objective must name a class, got {name!r}, a {type(kind).__name__}; {_BASES}")
    return kind


def importable_name(name: str) -> str:
    """Return the name of a class with its module in place of its file, which depends on the present folder.

    Example:
        >>> importable_name("losses/my.py:Focal"), importable_name("losses.my:Focal")
        ('losses.my:Focal', 'losses.my:Focal')
    """
    module, colon, path = name.partition(":")
    return f"{module_of(module)}{colon}{path}"


def _check_members(name: str, objective: Any) -> None:
    missing = [member for member in _MEMBERS if member not in dir(objective)]
    if missing:
        raise ValueError(f"objective {name!r} must have {', '.join(_MEMBERS)}, got no {', '.join(missing)}; {_BASES}")
    if objective.score not in SCORES:
        raise ValueError(f"score of objective {name!r} must be one of {', '.join(SCORES)}, got {objective.score!r}")
    unknown = [score for score in objective.further_scores if score not in FURTHER_SCORES]
    if unknown:
        raise ValueError(
            f"further_scores of objective {name!r} must be among {', '.join(FURTHER_SCORES)}, got {', '.join(unknown)}"
        )
    if len(objective.channels):
        raise ValueError(
            f"channels of objective {name!r} must be empty, got {len(objective.channels)}; a loss of a node needs only "
            "its own logits"
        )
    if isinstance(objective, nn.Module) and any(True for _ in objective.parameters()):
        raise ValueError(
            f"objective {name!r} must have no parameters, which no optimizer would train, got "
            f"{sum(parameter.numel() for parameter in objective.parameters())}; move them to the model"
        )


def _check_sum(name: str, objective: NodeLabels, targets: NodeTargets) -> None:
    """Check that the loss of some rows is the sum of the losses of any parts of them, which the workers compute."""
    # The same rows on all workers, so that all of them raise.
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(_TRIAL_ROWS, targets.num_classes, generator=generator)  # (8, C)
    if targets.multi_label:
        labels = torch.randint(2, logits.shape, generator=generator)
    else:
        labels = torch.arange(_TRIAL_ROWS) % targets.num_classes
    logits, labels = logits.to(targets.labels.device), labels.to(targets.labels)

    def total(start: int, end: int) -> float:
        return float(objective.summed_loss(logits[start:end], labels[start:end]))

    try:
        # A worker may have no training node at all.
        whole, parts = total(0, _TRIAL_ROWS), [total(0, 0), total(0, 3), total(3, _TRIAL_ROWS)]
    except Exception as error:
        raise ValueError(
            f"summed_loss of objective {name!r} must return a number for {_TRIAL_ROWS} nodes, and for none, got "
            f"{type(error).__name__}: {error}"
        ) from error
    if not math.isclose(whole, sum(parts), rel_tol=1e-3, abs_tol=1e-5):
        raise ValueError(
            f"summed_loss of objective {name!r} must be a sum over nodes, got {whole:g} for {_TRIAL_ROWS} nodes and "
            f"{' + '.join(f'{part:g}' for part in parts)} for 0, 3 and {_TRIAL_ROWS - 3} of them; use reduction='sum' "
            "or .sum(), not a mean"
        )


def _check_values(name: str, objective: Any, targets: NodeTargets) -> None:
    """Check a loss and scores of this worker's nodes."""
    shape = (targets.labels.shape[0], targets.num_classes)
    logits = torch.zeros(shape, device=targets.labels.device, requires_grad=True)  # (N, C)
    # Evaluation and measurements may call this without gradients.
    try:
        with torch.enable_grad():
            loss = objective.loss(logits)
        scores = objective.scores(logits.detach(), distributed=False)
        counts = objective.train_counts(logits.detach())
    except Exception as error:
        raise ValueError(
            f"objective {name!r} must compute a loss and scores of logits {shape}, got {type(error).__name__}: {error}"
        ) from error
    if not isinstance(loss, Tensor) or loss.dim() or not loss.is_floating_point():
        found = f"a tensor {loss.dtype} of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss)
        raise ValueError(f"loss of objective {name!r} must return one float in a tensor of shape (), got {found}")
    if not loss.requires_grad:
        raise ValueError(
            f"loss of objective {name!r} must be differentiable, got one without a gradient; compute it from the "
            "logits with torch, without item(), argmax() or detach()"
        )
    if not isinstance(scores, Scores):
        raise ValueError(f"scores of objective {name!r} must return Scores, got {type(scores).__name__}")
    if not isinstance(counts, tuple) or len(counts) != 2:
        raise ValueError(f"train_counts of objective {name!r} must return two numbers, got {counts!r}")
