"""Splits of other libraries' graphs: every usual form gives the same nodes, or is refused by name."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch

import gnnqlab as gq
from tests.cases import each

N = 12
TRAIN, VAL, TEST = [0, 1, 2], [3, 4], [5, 6, 7]


def mask(nodes: list[int]) -> torch.Tensor:
    result = torch.zeros(N, dtype=torch.bool)
    result[nodes] = True
    return result


PARTS = np.array([0] * 3 + [1] * 2 + [2] * 3 + [-1] * 4)
FORMS = {
    "masks": {"train_mask": mask(TRAIN), "val_mask": mask(VAL), "test_mask": mask(TEST)},
    "masks of numbers": {"train_mask": mask(TRAIN).long(), "valid_mask": mask(VAL).long(), "test_mask": mask(TEST)},
    "nodes": {"train_idx": torch.tensor(TRAIN), "val_idx": torch.tensor(VAL), "test_idx": torch.tensor(TEST)},
    "OGB": {"split_idx": {"train": torch.tensor(TRAIN), "valid": torch.tensor(VAL), "test": torch.tensor(TEST)}},
    "numbers": {"split": torch.from_numpy(PARTS)},
    "words": {"split": np.array(["train", "val", "test", ""])[PARTS]},
    "rows of masks": {"train_masks": torch.stack([mask(TRAIN), mask(VAL)]), "val_masks": torch.stack([mask(VAL)] * 2)},
    "columns of masks": {
        "train_mask": torch.stack([mask(TRAIN), mask(VAL)], 1),
        "val_mask": torch.stack([mask(VAL)] * 2, 1),
    },
}


def data(**attributes: object) -> SimpleNamespace:
    ends = torch.randint(N, (2, 40), generator=torch.Generator().manual_seed(0))
    return SimpleNamespace(edge_index=ends, num_nodes=N, x=torch.ones(N, 2), y=torch.arange(N) % 2, **attributes)


@each("form", list(FORMS))
def test_every_form_gives_the_same_split(form: str) -> None:
    graph = gq.from_pyg(data(**FORMS[form]))
    assert graph.train_idx.tolist() == TRAIN
    assert graph.val_idx.tolist() == VAL
    assert any(note.startswith("split: from") for note in graph.notes)


@each(
    ("attributes", "text"),
    [
        ({**FORMS["masks"], **FORMS["OGB"]}, "must have one split, got .*split_idx"),
        ({"split": torch.arange(N)}, "split must be 0 for training, 1 for validation and 2 for test nodes"),
        ({"split": torch.ones(3)}, r"split must be a dictionary .*, got shape \(3,\)"),
        ({"split_idx": {"fit": [0]}}, "split_idx must have the keys train, valid and test, got fit"),
        ({"val_mask": mask(VAL)}, "must have training nodes, got val_mask"),
        ({"node_type": torch.arange(N) % 2}, "node_type with 2 types"),
    ],
)
def test_what_is_no_split_is_refused_by_name(attributes: dict[str, object], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        gq.from_pyg(data(**attributes))


def test_attributes_that_are_not_used_are_said() -> None:
    graph = gq.from_pyg(data(pos=torch.ones(N, 3)))
    assert "left out of the data: pos" in graph.notes
