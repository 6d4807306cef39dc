"""Files of ``torch.save``: tensors by name, and data sets that PyTorch Geometric processed, without unpickling code."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

from gnnqlab.graph.convert.frameworks import edges_of_pyg
from gnnqlab.graph.convert.values import FEATURES, LABELS
from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.named_arrays import edges_of_arrays

__all__ = ["read_torch_file"]


def read_torch_file(path: Path, *, split: int = 0, **options: Any) -> EdgeList:
    """Read a ``.pt`` file with a dictionary of tensors, alone or as first of a tuple, as PyG stores a data set.

    Raises:
        ValueError: if the file holds anything but tensors and plain values; the text has the way out.
    """
    try:
        contents = torch.load(path, weights_only=True, map_location="cpu")
    except (pickle.UnpicklingError, RuntimeError, EOFError, OSError) as error:
        reason = str(error).splitlines()[0][:200]
        raise ValueError(
            f"a .pt file must hold a dictionary of tensors, since other objects can run code when they are read, got "
            f"{path}: {reason}; if you trust it: data = torch.load(path, weights_only=False); gnnqlab.from_pyg(data)"
        ) from error
    # PyG stores (data as a dictionary, slices, class): slices are None for a single graph.
    if isinstance(contents, tuple | list) and contents and isinstance(contents[0], Mapping):
        if len(contents) > 1 and contents[1] is not None:
            raise ValueError(
                f"{path} must hold one graph, got several with slices; select one with PyG, and save it alone"
            )
        contents = contents[0]
    if not isinstance(contents, Mapping):
        raise ValueError(
            f"a .pt file must hold a dictionary of tensors, got {type(contents).__name__} in {path}; gnnqlab.from_pyg "
            "takes a Data, gnnqlab.Graph.from_edges tensors"
        )
    values = {str(key): value for key, value in contents.items() if value is not None}
    if isinstance(values.get("edge_index"), torch.Tensor):
        for name, usual in (("x", FEATURES), ("y", LABELS)):
            others = [key for key in usual if key in values]
            if name not in values and len(others) == 1:
                values[name] = values.pop(others[0])
        edges = edges_of_pyg(SimpleNamespace(**values), split=split, **options)
    else:
        edges = edges_of_arrays(path.stem, values, split=split)
    edges.name = path.stem
    return edges
