"""Write tiny graphs in the file layouts of public datasets."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import numpy as np

from gnnqlab.graph import Graph

NODES, WIDTH = 30, 4


def adjacency() -> np.ndarray:
    """Return a symmetric 0/1 matrix without diagonal."""
    dense = np.random.default_rng(0).random((NODES, NODES)) < 0.15
    dense = dense | dense.T
    np.fill_diagonal(dense, False)
    return dense


def features() -> np.ndarray:
    return np.random.default_rng(1).standard_normal((NODES, WIDTH))


def links(graph: Graph) -> list[tuple[int, int]]:
    """Return the edges without self loops, each once."""
    src, dst = graph.edge_list()
    return sorted({(u, v) for u, v in zip(src.tolist(), dst.tolist()) if u < v})


def write_reddit(folder: Path) -> Path:
    from scipy import sparse

    folder.mkdir(parents=True)
    sparse.save_npz(folder / "reddit_graph.npz", sparse.coo_matrix(adjacency().astype(np.float32)))
    labels = np.arange(NODES) % 3
    np.savez(folder / "reddit_data.npz", feature=features(), label=labels, node_types=1 + np.arange(NODES) % 3)
    return folder


def write_graphsaint(folder: Path, *, several: bool) -> Path:
    from scipy import sparse

    folder.mkdir(parents=True)
    sparse.save_npz(folder / "adj_full.npz", sparse.csr_matrix(adjacency().astype(np.float32)))
    np.save(folder / "feats.npy", features() * 3 + 1)
    classes = {str(v): [v % 2, 1, 0] if several else v % 3 for v in reversed(range(NODES))}
    (folder / "class_map.json").write_text(json.dumps(classes))
    parts = {"tr": list(range(20)), "va": list(range(20, 25)), "te": list(range(25, NODES))}
    (folder / "role.json").write_text(json.dumps(parts))
    return folder


def write_ogb(folder: Path, *, binary: bool = False) -> Path:
    import pandas

    (folder / "raw").mkdir(parents=True)
    (folder / "split" / "time").mkdir(parents=True)
    edges = np.argwhere(np.triu(adjacency()))
    labels = (np.arange(NODES) % 3).astype(np.float64)
    labels[7] = np.nan

    def csv(name: str, values: np.ndarray) -> None:
        pandas.DataFrame(values).to_csv(folder / name, header=False, index=False, compression="gzip")

    if binary:
        x = features().astype(np.float16)
        count = np.array([NODES])
        np.savez(folder / "raw" / "data.npz", edge_index=edges.T, node_feat=x, num_nodes_list=count)
        np.savez(folder / "raw" / "node-label.npz", node_label=labels[:, None])
    else:
        csv("raw/edge.csv.gz", edges)
        csv("raw/node-feat.csv.gz", features())
        csv("raw/node-label.csv.gz", labels)
        csv("raw/num-node-list.csv.gz", np.array([NODES]))
    for part, nodes in (("train", range(7)), ("valid", range(8, 12)), ("test", range(12, 20))):
        csv(f"split/time/{part}.csv.gz", np.array(nodes))
    return folder


def write_planetoid(folder: Path, name: str, *, gap: bool = False) -> Path:
    """Write six classified nodes and four test nodes in the format of Python 2; with a gap, id 8 is missing."""
    from scipy.sparse import csr_matrix

    folder.mkdir(parents=True, exist_ok=True)
    x = np.eye(6, 5, dtype=np.float32)
    one_hot = np.eye(2, dtype=np.int32)[np.arange(6) % 2]
    test = [9, 6, 7] if gap else [9, 6, 8, 7]
    tx = np.arange(1, 5 * len(test) + 1, dtype=np.float32).reshape(len(test), 5)
    ty = np.eye(2, dtype=np.int32)[np.array(test) % 2]
    parts = {
        "x": csr_matrix(x[:2]),
        "y": one_hot[:2],
        "tx": csr_matrix(tx),
        "ty": ty,
        "allx": csr_matrix(x),
        "ally": one_hot,
        "graph": {0: [1, 1, 6], 1: [0, 0], 6: [0], 9: [7], 7: [9]},
    }
    for part, value in parts.items():
        with (folder / f"ind.{name}.{part}").open("wb") as file:
            pickle.dump(value, file, protocol=2)
    (folder / f"ind.{name}.test.index").write_text("".join(f"{node}\n" for node in test))
    return folder
