"""Storage of a graph: a folder of ``.npy`` arrays and one ``graph.json``, readable without pickle.

The arrays are stored in their memory layout, so a large graph can be memory-mapped, and processes
that read it share the same pages.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import replacing
from gnnqlab.graph.arrays import GraphArrays
from gnnqlab.graph.checks import check_shapes
from gnnqlab.graph.features import SparseRows

__all__ = ["is_saved_graph", "load_graph", "save_graph"]

FORMAT = "gnnqlab graph"
VERSION = 1
_IDS = "ids.npy"
MMAP_BYTES = 1 << 30  # above this size reading everything takes more than about a second
_Kind = TypeVar("_Kind", bound=GraphArrays)


def is_saved_graph(path: Path) -> bool:
    """True if the folder holds a ``graph.json``."""
    return (path / "graph.json").is_file()


def save_graph(graph: GraphArrays, path: Path) -> Path:
    """Write ``graph`` to the folder ``path``; see ``Graph.save``."""
    if path.exists() and not is_saved_graph(path):
        raise ValueError(f"a graph is saved to a new folder or over a saved graph, got {path}; choose another path")
    path.parent.mkdir(parents=True, exist_ok=True)
    # Written to a temporary folder that is renamed at the end, so no reader finds an incomplete graph.
    with replacing(path) as new_folder:
        new_folder.mkdir()
        arrays = graph._arrays()
        for field, array in arrays.items():
            np.save(new_folder / f"{field}.npy", array.numpy(), allow_pickle=False)
        if graph.ids is not None:
            np.save(new_folder / _IDS, graph.ids, allow_pickle=False)
        header = {
            "format": FORMAT,
            "version": VERSION,
            "name": graph.name,
            "num_classes": graph.num_classes,
            "feature_columns": graph.num_features,
            "arrays": {field: [str(array.numpy().dtype), list(array.shape)] for field, array in arrays.items()},
            "content_hash": graph.content_hash,
            "is_symmetric": graph.is_symmetric,
            # Absent in graphs of earlier versions, as in most graphs.
            **({} if graph.ids is None else {"ids": _IDS}),
            **({} if graph.class_names is None else {"class_names": graph.class_names}),
            **({"notes": graph.notes} if graph.notes else {}),
        }
        (new_folder / "graph.json").write_text(json.dumps(header, indent=1) + "\n", encoding="utf-8")
    return path


def load_graph(kind: type[_Kind], path: Path, *, mmap: bool | None = None) -> _Kind:
    """Read the folder ``path`` as a graph of class ``kind``; see ``Graph.load``."""
    if not is_saved_graph(path):
        raise ValueError(f"a saved graph is a folder with a graph.json, {path} has none; Graph.save writes one")
    header = json.loads((path / "graph.json").read_text(encoding="utf-8"))
    if header.get("format") != FORMAT or header.get("version") != VERSION:
        raise ValueError(
            f"a saved graph must be of format {FORMAT!r} version {VERSION}, {path} is of "
            f"{header.get('format')!r} version {header.get('version')}; save it again with this version of gnnqlab"
        )
    files = {field: path / f"{field}.npy" for field in header["arrays"]}
    if "ids" in header:
        files["ids"] = path / header["ids"]
    missing_files = [file.name for file in files.values() if not file.is_file()]
    if missing_files:
        raise ValueError(f"saved graph {path} is damaged: {', '.join(missing_files)} is missing; save it again")
    if mmap is None:
        mmap = sum(file.stat().st_size for file in files.values()) > MMAP_BYTES
    arrays = {
        field: _read_array(file, tuple(header["arrays"][field][1]), header["arrays"][field][0], mmap)
        for field, file in files.items()
        if field != "ids"
    }
    if "feature_indptr" in arrays:
        features: Tensor | SparseRows = SparseRows(
            indptr=arrays.pop("feature_indptr"),
            indices=arrays.pop("feature_indices"),
            values=arrays.pop("feature_values"),
            num_columns=header["feature_columns"],
        )
    else:
        features = arrays.pop("features")
    fields = {"name": header["name"], "num_classes": header["num_classes"], "features": features, **arrays}
    fields |= {name: tuple(header[name]) for name in ("class_names", "notes") if name in header}
    if "ids" in files:
        fields["ids"] = _load_array(files["ids"], None)
    if not mmap:
        graph = kind(**fields)
        if graph.content_hash != header["content_hash"]:
            raise ValueError(
                f"saved graph {path} is damaged: its content hash is {graph.content_hash}, graph.json has "
                f"{header['content_hash']}; save it again"
            )
    else:
        # Checking values would read the whole file, which mapping avoids: they were checked before
        # they were saved, and the sizes are checked here.
        graph = object.__new__(kind)
        for field, value in fields.items():
            object.__setattr__(graph, field, value)
        check_shapes(graph)
        graph.__dict__["content_hash"] = header["content_hash"]
    # Stored, because computing it sorts all edges.
    graph.__dict__["is_symmetric"] = header["is_symmetric"]
    return graph


def _read_array(file: Path, shape: tuple[int, ...], dtype: str, mmap: bool) -> Tensor:
    # Copy-on-write: torch requires writable memory, and a write must never reach the file.
    # An array without elements cannot be mapped.
    array = _load_array(file, "c" if mmap and 0 not in shape else None)
    if array.shape != shape or str(array.dtype) != dtype:
        raise ValueError(
            f"saved graph file {file} must hold {dtype} of shape {shape}, got {array.dtype} of shape {array.shape}; "
            "save the graph again"
        )
    return torch.from_numpy(array)


def _load_array(file: Path, mmap_mode: Literal["c"] | None) -> np.ndarray:
    try:
        array: np.ndarray = np.load(file, mmap_mode=mmap_mode, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"saved graph file {file} cannot be read: {error}; save the graph again") from error
    return array
