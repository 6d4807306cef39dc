"""``run.export("mlflow")``: metrics of a run in a store of MLflow."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.run.folder import read_json, write_json
from gnnqlab.run.trackers.metrics import new_metrics, parameters

if TYPE_CHECKING:
    from gnnqlab.run.trained_run import TrainedRun

__all__ = ["export_mlflow"]

_STATE = "exported.json"
_EXPERIMENT = "gnnqlab"
_BATCH = 100
"""Values in one call; a server of MLflow accepts at most 100 parameters and 1000 metrics."""


def export_mlflow(run: TrainedRun) -> Path:
    """Write the metrics of a run for MLflow; a later call adds only the epochs since the last one.

    The store is that of ``MLFLOW_TRACKING_URI`` or ``mlflow.set_tracking_uri``; without them, the database
    ``mlflow.db`` next to the run folders, so that MLflow compares all of them. The experiment is
    ``MLFLOW_EXPERIMENT_NAME``, by default ``gnnqlab``.

    Args:
        run: the run, which may still train.

    Returns:
        The folder ``mlflow`` in the run folder, with the store and the id of MLflow's run in ``exported.json``.

    Raises:
        RuntimeError: if the package mlflow is not installed.

    Example:
        ``run.export("mlflow")``, then in a shell ``mlflow ui --backend-store-uri sqlite:///runs/mlflow.db``
    """
    try:
        import mlflow
        from mlflow.entities import Metric, Param
        from mlflow.tracking import MlflowClient

        is_store_set = mlflow.is_tracking_uri_set()
        if not is_store_set:
            import sqlalchemy  # noqa: F401  # opens the database; mlflow-skinny alone is without it
    except ImportError as error:
        raise RuntimeError(f"export to MLflow needs the package mlflow, got {error}; run pip install mlflow") from error

    folder = run.folder / "mlflow"
    folder.mkdir(exist_ok=True)
    exported = read_json(folder / _STATE)
    start_ms = int(1000 * os.path.getmtime(run.folder / "config.json"))
    root = run.folder.parent.resolve()
    # MLflow 3.13 and later refuse folders of files as a store; a database works in all versions.
    default_store = f"sqlite:///{root / 'mlflow.db'}"
    store = exported["store"] if exported else mlflow.get_tracking_uri() if is_store_set else default_store
    client = MlflowClient(tracking_uri=store)
    if exported is None:
        experiment_id = _experiment_id(client, (root / "mlartifacts").as_uri() if store == default_store else None)
        run_id = client.create_run(experiment_id, start_time=start_ms, run_name=run.id).info.run_id
        params = [Param(name, str(value)) for name, value in parameters(run.settings).items()]
        for first in range(0, len(params), _BATCH):
            client.log_batch(run_id, params=params[first : first + _BATCH])
        exported = {"store": store, "run_id": run_id, "epoch": -1}
        write_json(folder / _STATE, exported)  # before the metrics, so that no later call makes a second run
    metrics = list(new_metrics(run, after=int(exported["epoch"])))
    for first in range(0, len(metrics), _BATCH):
        batch = [
            Metric(metric.name, metric.value, start_ms + int(1000 * metric.time_s), metric.epoch)
            for metric in metrics[first : first + _BATCH]
        ]
        client.log_batch(exported["run_id"], metrics=batch)
    if metrics:
        write_json(folder / _STATE, {**exported, "epoch": metrics[-1].epoch})
    state = {"finished": "FINISHED", "failed": "FAILED", "stopped": "KILLED"}.get(run.status)
    if state is not None:
        client.set_terminated(exported["run_id"], state)
    return folder


def _experiment_id(client: Any, artifacts: str | None) -> str:
    """Return the id of the experiment, which is made if it does not exist."""
    name = os.environ.get("MLFLOW_EXPERIMENT_NAME", _EXPERIMENT)
    experiment = client.get_experiment_by_name(name)
    return str(
        client.create_experiment(name, artifact_location=artifacts) if experiment is None else experiment.experiment_id
    )
