"""Preflight checks of a launch: folders and the graph, before any process of the run starts."""

from __future__ import annotations

import os
from pathlib import Path

from gnnqlab.errors import LaunchRefused
from gnnqlab.graph.edge_data import refuse_attention
from gnnqlab.graph.graph import Graph
from gnnqlab.launch.open_files import require_open_files
from gnnqlab.launch.process_limit import require_threads
from gnnqlab.run import folder as files
from gnnqlab.train.config.edges import require_edges
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.disk_space import require_disk
from gnnqlab.train.processors import requested_threads
from gnnqlab.train.shard_cache import prepare_shards
from gnnqlab.train.writable import require_writable

__all__ = ["check_graph", "check_machine"]


def check_machine(config: RunConfig, root: Path | str | None = None) -> None:
    """Raise if this machine cannot hold the processes and files of a run.

    Args:
        config: configuration of the run.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.

    Raises:
        ValueError: if ``OMP_NUM_THREADS`` is not a number of threads.
        LaunchRefused: with the limit or folder, its value and the way out; also if its disk has too little free space.
    """
    requested_threads(os.environ)
    require_open_files(config.workers)
    require_threads(config.workers)
    folder = files.default_root() if root is None else Path(root).absolute()
    require_writable(
        folder,
        purpose="the folder of a run",
        way_out="pass out=... or set GNNQLAB_RUNS to another folder",
    )
    require_disk(config, folder)


def check_graph(config: RunConfig) -> None:
    """Load, check and partition a graph of a file, unless its shards are cached; the workers then read the shards.

    Raises:
        ValueError: if the file cannot be read, or the run cannot train on its graph.
        LaunchRefused: if the cache cannot be written, or a library is missing.
    """
    try:
        prepare_shards(config, lambda graph: _require_trainable(config, graph))
    except LaunchRefused:
        raise
    except RuntimeError as error:  # a missing library, with the command that installs it
        raise LaunchRefused(str(error)) from error
    except Exception as error:
        # Our own errors name the file. A library raises others for a broken one, also subclasses of ValueError: of zip
        # archives, of JSON, of decoding, of missing keys.
        if type(error) in (ValueError, TypeError):
            raise
        raise ValueError(
            f"the graph must be readable, got {config.graph}: {type(error).__name__}: {error}; the file is damaged or "
            "of another format, so write it again"
        ) from error


def _require_trainable(config: RunConfig, graph: Graph) -> None:
    config.task.require_graph(graph)
    if config.model.attends and graph.edge_weights is not None:
        refuse_attention(f"model {config.model.name}")
    require_edges(config.model, config.system, graph.num_edge_features)
