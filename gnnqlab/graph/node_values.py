"""Features, labels and masks of nodes as other libraries keep them: one value a node, found by a key."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

__all__ = ["FEATURES", "LABELS", "MASKS", "as_mask_column", "as_targets", "node_values"]

FEATURES = ("feat", "features", "x")
LABELS = ("label", "labels", "y")
MASKS = ("train_mask", "val_mask", "test_mask")


def node_values(
    what: str,
    keys: Collection[str],
    column: Callable[[str], Any],
    given: object,
    usual: tuple[str, ...],
    *,
    of: str,
) -> Any:
    """Return what a caller gave: values as they are, or those under a key; by default under a usual one.

    Args:
        what: ``features`` or ``labels``, for the error.
        keys: there are.
        column: returns the values under a key.
        given: values, a key, or ``None``.
        usual: keys to look for where nothing was given; without any of them there are no such values.
        of: what the keys are those of, for the error.

    Raises:
        ValueError: if a key was given that is not there.

    Example:
        >>> node_values("labels", ["club"], {"club": [0, 1]}.get, "club", LABELS, of="ndata")
        [0, 1]
    """
    if given is None:
        return next((column(key) for key in usual if key in keys), None)
    if not isinstance(given, str):
        return given
    if given not in keys:
        raise ValueError(f"{what} must be a key of {of}, got {given!r}; there are {', '.join(keys) or 'none'}")
    return column(given)


def as_targets(labels: Any) -> Any:
    """Return labels with one column of class numbers made single-label, however it is shaped.

    Example:
        >>> as_targets(torch.tensor([[1.0], [float("nan")]])).tolist()
        [1, -1]
    """
    if not isinstance(labels, Tensor):
        return labels
    flat = labels.flatten() if labels.dim() == 2 and labels.shape[1] == 1 else labels
    if flat.dim() == 1 and flat.dtype.is_floating_point:
        whole = torch.nan_to_num(flat, nan=-1.0)
        return whole.to(torch.int64) if torch.equal(whole, whole.round()) else flat
    return flat


def as_mask_column(mask: Tensor | None, split: int) -> Tensor | None:
    """Return one split's mask; ``split`` is its column where there are several.

    Raises:
        ValueError: if there are fewer columns.
    """
    if mask is None:
        return None
    if mask.dim() == 2:
        if not 0 <= split < mask.shape[1]:
            raise ValueError(f"split must be in [0, {mask.shape[1]}), the number of splits in the masks, got {split}")
        mask = mask[:, split]
    return mask.to(torch.bool)
