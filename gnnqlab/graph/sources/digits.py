"""``digits``: the neighbour graph of scikit-learn's bundled handwritten digits."""

from __future__ import annotations

import gzip
import importlib.util
from pathlib import Path

import numpy as np
import torch

from gnnqlab.graph.edge_list import EdgeList

__all__ = ["read_digits"]

NEIGHBOURS = 10


def read_digits() -> EdgeList:
    """Build the graph of 1,797 images of 8 x 8 pixels in 10 classes, each joined to its 10 nearest images.

    Distance is Euclidean over pixels; features are the pixels divided by 16, in ``[0, 1]``. Pixels
    are small integers, so distances are exact, and the smaller id wins a tie: the graph is identical
    on every machine.

    Raises:
        RuntimeError: without scikit-learn, which bundles the images.
    """
    images, labels = _images()
    nodes = len(images)
    square = (images * images).sum(1)  # (N,)
    distance = square[:, None] + square[None, :] - 2 * (images @ images.T)  # (N, N), squared and exact
    np.fill_diagonal(distance, 2**20)  # larger than any distance: 64 pixels differ by at most 16 each
    # (distance, id) as one integer, exact in float64: the smallest ten are the nearest, ties resolved by id.
    neighbour_keys = np.partition(distance * nodes + np.arange(nodes), NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    neighbour_ids = np.sort(neighbour_keys, axis=1).astype(np.int64) % nodes  # (N, 10) ids
    return EdgeList(
        name="digits",
        src=neighbour_ids.reshape(-1),
        dst=np.repeat(np.arange(nodes), NEIGHBOURS),
        num_nodes=nodes,
        features=torch.from_numpy((images / 16).astype(np.float32)),
        labels=labels.astype(np.int64),
    )


def _images() -> tuple[np.ndarray, np.ndarray]:
    """Return pixels ``(1797, 64)`` and digits, identical to scikit-learn's ``load_digits``."""
    package = importlib.util.find_spec("sklearn")
    # Reading the bundled file takes a tenth of the time that importing scikit-learn takes.
    file = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz" if package and package.origin else None
    if file is not None and file.is_file():
        with gzip.open(file) as stream:
            table = np.loadtxt(stream, delimiter=",")  # 64 pixels, then the digit
        return table[:, :-1], table[:, -1]
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise RuntimeError(
            f"graph 'digits' needs scikit-learn, which bundles its images: {error}; install scikit-learn, or use a "
            "generated graph such as sbm:2000,8,10"
        ) from error
    return load_digits(return_X_y=True)
