"""Prepare a run whose ranks another program starts: its folder on a disk that all ranks share."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch.guarded import new_run
from gnnqlab.run.folder import default_root
from gnnqlab.run.run import Run
from gnnqlab.train.shard_cache import keep_graph

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["prepare_run", "shared_graph"]


def prepare_run(config: RunConfig, *, root: Path | str | None = None) -> Run:
    """Check a configuration and create the folder of its run; return the run, whose status is ``prepared``.

    Only the graph and the folder are checked: devices and memory are those of the machines where the ranks start.

    Args:
        config: configuration of the run.
        root: parent of the run folder; ``GNNQLAB_RUNS``, else ``runs``, by default.

    Raises:
        ValueError: if the graph cannot be read, or the settings need a launch on this machine.
        LaunchRefused: if the folder or the cache cannot be written.
    """
    from gnnqlab.launch.preflight import check_graph

    launch = config.launch
    if (launch.hosts or 1) > 1 or launch.link is not None or launch.comm_share is not None or launch.retries:
        raise ValueError(
            f"emulated hosts and restarts work only where gnnqlab starts the workers, got hosts {launch.hosts}, link "
            f"{launch.link}, comm_share {launch.comm_share} and retries {launch.retries}; leave them out"
        )
    check_graph(config)
    folder = new_run(config, root=root, state="prepared")
    shutil.rmtree(folder / "tmp")  # each start creates it, and its end removes it
    return Run(folder)


def shared_graph(graph: GraphLike, root: Path | str | None, *, node_features: str = "given") -> str | Path:
    """Return the name or path of a graph for other machines; a graph in memory is saved under ``graphs`` in ``root``.

    Other machines cannot read the cache of this one. The graph must have features if these are the ``given`` ones.
    """
    if isinstance(graph, str | Path):
        return graph
    from gnnqlab.graph.sources.catalogue import load

    loaded_graph = load(graph)
    loaded_graph.check_trainable(features=node_features == "given")
    parent = default_root() if root is None else Path(root).absolute()
    return keep_graph(loaded_graph, parent / "graphs")
