"""``gq.launch``: configure and start a run from a graph and keyword settings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch import local
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.run.annotation import Annotation
from gnnqlab.run.run import Run
from gnnqlab.systems.system import System
from gnnqlab.train.config.configure import configure

if TYPE_CHECKING:
    from gnnqlab.launch.slurm import Slurm

__all__ = ["launch"]


def launch(
    graph: GraphLike,
    *,
    model: str | ModelSettings = "gcn",
    system: str | System = "vanilla",
    workers: int | None = None,
    out: str | Path | None = None,
    wait: bool = False,
    start: bool = True,
    on: Slurm | str | None = None,
    name: str = "",
    tags: Sequence[str] = (),
    note: str = "",
    **settings: Any,
) -> Run:
    """Start a distributed training in separate processes; return the run's handle at once.

    Args:
        graph: a graph, its name or path, or another library's graph, as :func:`gnnqlab.load` takes them.
        model: a model's name, its settings, or its builder as ``module:function``.
        system: a system's name, or a :class:`System`.
        workers: number of partitions, one process each; 2 by default.
        out: parent of the run folder; ``$GNNQLAB_RUNS`` or ``runs`` by default.
        wait: True to return only when the run has ended.
        start: False to only prepare the run: ``gnnqlab worker --from-environment FOLDER`` under torchrun, srun or
            mpirun starts its ranks.
        on: ``gq.Slurm(...)``, or ``"slurm:nodes=2"`` as on the command line, to submit the run to a queue; ``workers``
            is then the number of ranks of the job.
        name: a short text for lists of runs; ``run.annotate`` changes it later, with tags and note.
        tags: short texts that several runs share; ``gq.runs(tag=...)`` lists them.
        note: a text about the run.
        **settings: see :func:`gnnqlab.configure`: ``epochs``, ``seed``, ``layers``, ``hidden``, ``dropout``,
            ``lr``, ``task`` (``"links"``), ``bits``, ``device``, ``hosts``, ``workers_per_host``, ``link``,
            ``comm_share`` and so on. With a ``comm_share``, short runs calibrate the rate of the link first.

    Raises:
        ValueError: if a name, a setting or a value is wrong.
        TypeError: if ``graph`` is not a graph.
        RuntimeError: if the run folder cannot be written.
    """
    annotation = Annotation(name, tags, note)
    if start and on is None:
        config = configure(graph, model=model, system=system, workers=workers, **settings)
        return local.launch(config, root=out, wait=wait, prepare=annotation.write)
    from gnnqlab.launch.prepared import prepare_run, shared_graph

    if on is not None:
        on = _as_slurm(on, workers)
        workers = on.require_workers(workers)
    graph_name = shared_graph(graph, out, node_features=settings.get("node_features", "given"))
    config = configure(graph_name, model=model, system=system, workers=workers, **settings)
    run = prepare_run(config, root=out)
    annotation.write(run.folder)
    if on is not None and start:
        on.submit(run)
    return run.wait() if wait and start else run


def _as_slurm(on: Slurm | str, workers: int | None) -> Slurm:
    from gnnqlab.launch.slurm import Slurm, slurm_place

    if isinstance(on, str):
        return slurm_place(on, 2 if workers is None else workers)
    if not isinstance(on, Slurm):
        raise TypeError(f"on must be gq.Slurm(...) or a text such as slurm:nodes=2, got {on!r}")
    return on
