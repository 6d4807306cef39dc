"""Scores of classes that need all predictions at once: the confusion matrix, and the area under the ROC curve.

Letters: n nodes, C classes.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional

from gnnqlab.nn.links import area_under_curve

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["confusion_table", "macro_auc"]


def confusion_table(logits: Tensor, labels: Tensor, class_names: Sequence[Any] | None = None) -> pd.DataFrame:
    """Return the numbers of nodes by known class (rows) and predicted class (columns).

    Args:
        logits: output of the model, float32 ``(n, C)``; the largest one is predicted.
        labels: classes, int64 ``(n,)``.
        class_names: by default 0 to C - 1.

    Example:
        >>> confusion_table(torch.eye(3)[[0, 0, 2]], torch.tensor([0, 1, 2])).values.tolist()
        [[1, 0, 0], [1, 0, 0], [0, 0, 1]]
    """
    import pandas as pd

    num_classes = logits.shape[1]
    cells = torch.bincount(labels * num_classes + logits.argmax(1), minlength=num_classes**2)  # (C * C,)
    names = list(range(num_classes)) if class_names is None else list(class_names)
    rows, columns = pd.Index(names, name="known"), pd.Index(names, name="predicted")
    return pd.DataFrame(cells.view(num_classes, num_classes).numpy(), index=rows, columns=columns)


def macro_auc(logits: Tensor, labels: Tensor) -> float:
    """Return the mean over classes of the area under the ROC curve of each class against all others.

    A class that none or all of the nodes have is left out.

    Args:
        logits: output of the model, float32 ``(n, C)``.
        labels: classes, int64 ``(n,)``, scored by their probability; or zeros and ones ``(n, C)``, by their logit.

    Example:
        >>> macro_auc(torch.tensor([[2.0, 0.0], [1.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 1, 1]))
        1.0
    """
    if labels.dim() == 1:
        # Probabilities, not logits: only those of one node sum to 1 and compare with those of other nodes.
        scores = logits.double().softmax(1)
        is_member = functional.one_hot(labels, logits.shape[1]).bool()  # (n,) -> (n, C)
    else:
        scores, is_member = logits, labels.bool()
    areas = [
        area_under_curve(scores[members, column], scores[~members, column])
        for column, members in enumerate(is_member.unbind(1))
        if bool(members.any()) and not bool(members.all())
    ]
    return math.fsum(areas) / len(areas) if areas else math.nan
