"""Archives of DGL's dataset classes: Reddit, Yelp and the three citation graphs.

If DGL is installed, its dataset class determines the archive's address and folder; only the
transfer is ours, because DGL retries a dead network for minutes. Without DGL the same archives
are fetched from the same address.

Differs: the files are read by this package's own readers, not by the ``process`` of DGL's class,
which renumbers Reddit's nodes and divides citation features by their row sums: a graph must be
identical on machines with and without DGL.
"""

from __future__ import annotations

import os
from pathlib import Path

from gnnqlab.graph.sources.fetch import fetch_archive
from gnnqlab.graph.sources.where import missing_data

__all__ = ["fetch_dgl_archive"]

_CLASSES = {
    "reddit": ("RedditDataset", "reddit.zip"),
    "yelp": ("YelpDataset", "yelp.zip"),
    "cora": ("CoraGraphDataset", "cora_v2.zip"),
    "citeseer": ("CiteseerGraphDataset", "citeseer.zip"),
    "pubmed": ("PubmedGraphDataset", "pubmed.zip"),
}


def fetch_dgl_archive(name: str, files: tuple[str, ...], root: Path) -> None:
    """Download one of DGL's archives into ``root``.

    Raises:
        RuntimeError: if that fails; the text lists the ``files`` and their folder.
    """
    class_name, archive = _CLASSES[name]
    # DGL_REPO is DGL's own setting for a mirror.
    url = f"{os.environ.get('DGL_REPO', 'https://data.dgl.ai').rstrip('/')}/dataset/{archive}"
    reason: list[str] = []

    def fetch(url: str, folder: Path) -> None:
        if reason:  # DGL calls download again after a failure
            raise ConnectionError(reason[0])
        try:
            fetch_archive(url, folder)
        except (ConnectionError, OSError) as error:
            reason.append(str(error))
            raise

    try:
        try:
            from dgl import data as dgl_data
        except ImportError:
            fetch(url, root / name)
            return

        # DGL's class only chooses address and folder: nothing is read from a cache, processed or saved.
        class FilesOnly(getattr(dgl_data, class_name)):  # type: ignore[misc]
            def download(self) -> None:
                fetch(self.url, Path(self.raw_path))

            def has_cache(self) -> bool:
                return False

            def process(self) -> None:
                pass

            def save(self) -> None:
                pass

        FilesOnly(raw_dir=str(root), verbose=False)
    except (ConnectionError, OSError) as error:
        raise missing_data(name, files, root / name, url=url, reason=reason[0] if reason else str(error)) from None
