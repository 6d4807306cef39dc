"""Node-property graphs of the Open Graph Benchmark (Hu et al., NeurIPS 2020).

The extracted folder is read directly, and a missing archive is downloaded over https: the ``ogb`` package, which
downloads without encryption and stores its result as a pickle, is not needed.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gnnqlab.graph.edge_list import EdgeList
from gnnqlab.graph.sources.fetch import fetch_archive
from gnnqlab.graph.sources.where import data_root, find_folder, missing_data
from gnnqlab.units import human_bytes

__all__ = ["ARCHIVES", "is_ogb_folder", "load_ogb", "looks_like_ogb", "read_ogb"]

_BASE = "https://snap.stanford.edu/ogb/data/nodeproppred/"
ARCHIVES = {
    "ogbn-arxiv": "arxiv.zip",
    "ogbn-products": "products.zip",
    "ogbn-papers100M": "papers100M-bin.zip",
}
_CSV = ("raw/edge.csv.gz", "raw/node-feat.csv.gz", "raw/node-label.csv.gz", "raw/num-node-list.csv.gz")
_BINARY = ("raw/data.npz", "raw/node-label.npz")


def is_ogb_folder(folder: Path) -> bool:
    """True if the folder has OGB's ``raw`` files, as text or binary."""
    return any(all((folder / file).is_file() for file in files) for files in (_CSV, _BINARY))


def looks_like_ogb(folder: Path) -> bool:
    """True if the folder has OGB's ``raw`` edges and a split, though other files may be missing."""
    return (folder / _CSV[0]).is_file() and (folder / "split").is_dir()


def load_ogb(name: str, root: str | Path | None = None) -> EdgeList:
    """Read an OGB graph from the dataset root; download it first if it is missing.

    Raises:
        RuntimeError: if it is missing and cannot be downloaded; the text lists the files and their folder.
    """
    base = data_root(root)
    folder = _find(name, base)
    if folder is not None:
        return read_ogb(folder, name=name)
    url = _BASE + ARCHIVES[name]
    target = base / name.replace("-", "_")
    try:
        fetch_archive(url, target)
    except (ConnectionError, OSError) as error:
        reason = str(error) or type(error).__name__
        files = _BINARY if "papers" in name else _CSV
        raise missing_data(name, (*files, "split/"), target, url=url, reason=reason) from None
    folder = _find(name, base)
    if folder is None:
        raise RuntimeError(f"graph {name!r} was downloaded to {target}, but holds no raw/ folder; remove it, try again")
    return read_ogb(folder, name=name)


def read_ogb(folder: Path, *, name: str | None = None) -> EdgeList:
    """Read an extracted OGB folder: ``raw/`` and ``split/``.

    ``raw/`` holds ``edge.csv.gz``, ``node-feat.csv.gz``, ``node-label.csv.gz`` and
    ``num-node-list.csv.gz``, or, for papers100M, ``data.npz`` and ``node-label.npz``. Labels that
    are not a number become -1.

    Raises:
        ValueError: if a file is missing or malformed.
        RuntimeError: if the memory of this machine cannot hold the binary form.
    """
    if not is_ogb_folder(folder):
        missing = ", ".join(file for file in _CSV if not (folder / file).is_file())
        raise ValueError(
            f"an OGB folder must hold {', '.join(_CSV)}, or {', '.join(_BINARY)}, {folder} lacks {missing}; a graph "
            "without node features, as ogbn-proteins is, goes to gnnqlab.Graph.from_edges with features computed from "
            "its edges"
        )
    if (folder / _BINARY[0]).is_file():
        edges, features, labels, num_nodes = _read_binary(folder)
    else:
        num_nodes = int(_csv(folder / _CSV[3]).reshape(-1)[0])
        edges, labels = _csv(folder / _CSV[0]).T, _csv(folder / _CSV[2])  # (M, 2) -> (2, M)
        features = _csv(folder / _CSV[1], np.float32)  # (N, D)
    split = _split_folder(folder)
    parts = {part: _csv(split / f"{part}.csv.gz").reshape(-1) for part in ("train", "valid", "test")}
    return EdgeList(
        name=name or folder.name.replace("_", "-"),
        src=edges[0],
        dst=edges[1],
        num_nodes=num_nodes,
        features=features.astype(np.float32, copy=False),
        labels=_class_of(labels, num_nodes),
        train_idx=parts["train"],
        val_idx=parts["valid"],
        test_idx=parts["test"],
    )


def _find(name: str, base: Path) -> Path | None:
    stem = name.replace("-", "_")
    # papers100M's archive and older releases have other names for the inner folder.
    for files in (_CSV, _BINARY):
        folder = find_folder(base, (stem, name, ARCHIVES[name].removesuffix(".zip")), files)
        if folder is not None:
            return folder
    return None


def _read_binary(folder: Path) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    # Memory of features, a float32 copy, and both edge directions as sort keys and as CSR.
    peak = 3 * (folder / _BINARY[0]).stat().st_size
    memory = _available_bytes()
    if memory is not None and peak > memory:
        raise RuntimeError(
            f"reading {folder} needs about {human_bytes(peak)} of memory, {human_bytes(memory)} are available; "
            "build it once on a larger machine, Graph.save it, and load the saved folder, which is memory-mapped"
        )
    with np.load(folder / _BINARY[0], allow_pickle=False) as archive:
        edges, features = archive["edge_index"], archive["node_feat"]  # (2, M), (N, D)
        num_nodes = int(np.asarray(archive["num_nodes_list"]).reshape(-1)[0])
    with np.load(folder / _BINARY[1], allow_pickle=False) as archive:
        labels = archive["node_label"]
    return edges, features, labels, num_nodes


def _class_of(labels: np.ndarray, num_nodes: int) -> np.ndarray:
    label_columns = labels.reshape(num_nodes, -1)  # (N, 1), or (N, C) if multi-label
    if label_columns.shape[1] != 1:
        return label_columns
    column = label_columns[:, 0]
    if column.dtype.kind == "f":
        column = np.where(np.isnan(column), -1, column)  # NaN: unlabelled
    return column.astype(np.int64)


def _split_folder(folder: Path) -> Path:
    folders = sorted(file.parent for file in folder.glob("split/*/train.csv.gz"))
    if len(folders) != 1:
        raise ValueError(
            f"an OGB folder must hold one split/KIND/ with train, valid and test.csv.gz, {folder} has {len(folders)}"
        )
    return folders[0]


def _csv(file: Path, dtype: type | None = None) -> np.ndarray:
    import pandas

    try:
        return pandas.read_csv(file, header=None, dtype=dtype).to_numpy()
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"OGB file {file} cannot be read: {error}") from error


def _available_bytes() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    # The file counts in KiB.
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")), None)
