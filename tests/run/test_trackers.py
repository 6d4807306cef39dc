"""Export of a run that trains to other tools: every epoch once, complete epochs only, with and without the tool."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from gnnqlab.run.run import Run
from gnnqlab.run.trackers.metrics import new_metrics
from tests.lab.synthetic_folder import Folder


class RecordedWriter:
    """Stands for the writer of TensorBoard and records its calls."""

    scalars: ClassVar[list[tuple[str, float, int]]] = []
    texts: ClassVar[list[str]] = []

    def __init__(self, folder: str) -> None:
        pass

    def __enter__(self):
        return self

    def __exit__(self, *error) -> None:
        pass

    def add_scalar(self, name, value, epoch, *, walltime) -> None:
        self.scalars.append((name, value, epoch))

    def add_text(self, name, text, *, walltime) -> None:
        self.texts.append(text)


@pytest.fixture
def writer(monkeypatch):
    monkeypatch.setattr(RecordedWriter, "scalars", [])
    monkeypatch.setattr(RecordedWriter, "texts", [])
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", SimpleNamespace(SummaryWriter=RecordedWriter))
    return RecordedWriter


def test_metrics_are_sums_or_the_slowest_worker_of_complete_epochs(tmp_path):
    folder = Folder(tmp_path)
    folder.write(range(2))
    folder.write(range(2, 3), ranks=[0])  # rank 1 is still in this epoch
    metrics = list(new_metrics(Run(folder.path), after=0))
    assert {metric.epoch for metric in metrics} == {1}
    values = {metric.name: metric.value for metric in metrics}
    assert values["loss"] == 1.0 and values["bytes_sent"] == 2048 and values["memory_bytes"] == 2e6
    records = Run(folder.path).records.query("epoch == 1 and rank == 1")
    assert values["epoch_s"] == records["epoch_s"].item()
    assert "val_score" not in values  # NaN: not evaluated


def test_export_to_tensorboard_while_a_run_trains_adds_new_epochs_once(tmp_path, writer):
    folder = Folder(tmp_path)
    run = Run(folder.path)
    run.export("tensorboard")
    assert writer.scalars == [] and "| train.lr | 0.01 |" in writer.texts[0]
    folder.write(range(3))
    folder.write(range(3, 4), ranks=[0])
    assert run.export("tensorboard") == folder.path / "tensorboard"
    run.export("tensorboard")
    assert [epoch for name, _, epoch in writer.scalars if name == "loss"] == [0, 1, 2]
    folder.write(range(3, 4), ranks=[1])
    run.export("tensorboard")
    assert [epoch for name, _, epoch in writer.scalars if name == "loss"] == [0, 1, 2, 3]
    assert len(writer.texts) == 1


def test_tensorboard_reads_the_exported_metrics(tmp_path):
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    folder = Folder(tmp_path)
    for epochs in (range(2), range(2, 4)):
        folder.write(epochs)
        place = Run(folder.path).export("tensorboard")
    events = accumulators.EventAccumulator(str(place)).Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [
        (epoch, pytest.approx(2 / (epoch + 1))) for epoch in range(4)
    ]


def test_exported_parquet_has_records_and_settings(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    folder = Folder(tmp_path)
    run = Run(folder.path)
    for epochs in (range(2), range(2, 4)):
        folder.write(epochs)
        path = run.export("parquet")
    table = parquet.read_table(path)
    assert table.to_pandas().equals(run.records)
    assert json.loads(table.schema.metadata[b"gnnqlab.settings"]) == run.settings
    assert [each.name for each in folder.path.glob("*.parquet*")] == ["records.parquet"]


class RecordedTracker:
    """Stands for the modules wandb and trackio, which have the same functions, and records their calls."""

    def __init__(self) -> None:
        self.starts: list[dict[str, Any]] = []
        self.logs: list[tuple[int, dict[str, float]]] = []
        self.finishes = 0

    def init(self, **settings: Any) -> RecordedTracker:
        self.starts.append(settings)
        return self

    def log(self, values: dict[str, float], *, step: int) -> None:
        self.logs.append((step, values))

    def finish(self) -> None:
        self.finishes += 1


@pytest.mark.parametrize(("tool", "mode"), [("wandb", "offline"), ("wandb", "online"), ("trackio", None)])
def test_export_by_epoch_adds_new_epochs_once(tmp_path, monkeypatch, tool, mode):
    for variable in ("WANDB_MODE", "WANDB_PROJECT", "TRACKIO_PROJECT"):
        monkeypatch.delenv(variable, raising=False)
    if mode == "online":
        monkeypatch.setenv("WANDB_MODE", "online")
    tracker = RecordedTracker()
    monkeypatch.setitem(sys.modules, tool, tracker)
    folder = Folder(tmp_path)
    run = Run(folder.path)
    folder.write(range(2))
    folder.write(range(2, 3), ranks=[0])
    assert run.export(tool) == folder.path / tool
    run.export(tool)
    assert [step for step, _ in tracker.logs] == [0, 1]
    folder.write(range(2, 3), ranks=[1])
    (folder.path / tool / "offline-run-1").mkdir()
    run.export(tool)
    # Offline, one folder has all epochs and replaces the earlier one: uploads of two folders would not be joined.
    assert [step for step, _ in tracker.logs[2:]] == ([0, 1, 2] if mode == "offline" else [2])
    assert (folder.path / tool / "offline-run-1").exists() == (mode != "offline")
    assert tracker.logs[1][1].keys() == {
        "loss", "train_score", "test_score", "epoch_s", "bytes_sent", "memory_bytes", "time_s",
    }  # fmt: skip
    assert tracker.logs[1][1]["loss"] == 1.0
    assert len(tracker.starts) == tracker.finishes == 2
    first = tracker.starts[0]
    assert (first["project"], first["name"], first["config"]["train.lr"]) == ("gnnqlab", run.id, 0.01)
    assert (first.get("mode"), first["resume"]) == (mode, None if mode == "offline" else "allow")


class RecordedClient:
    """Stands for the client of MLflow and records its calls."""

    stores: ClassVar[list[str]] = []
    params: ClassVar[dict[str, str]] = {}
    metrics: ClassVar[list[tuple[str, float, int, int]]] = []
    ends: ClassVar[list[str]] = []
    runs: ClassVar[list[str]] = []

    def __init__(self, *, tracking_uri: str) -> None:
        self.stores.append(tracking_uri)

    def get_experiment_by_name(self, name: str) -> None:
        return None

    def create_experiment(self, name: str, *, artifact_location: str | None) -> str:
        assert artifact_location is not None
        return "1"

    def create_run(self, experiment: str, *, start_time: int, run_name: str) -> SimpleNamespace:
        self.runs.append(run_name)
        return SimpleNamespace(info=SimpleNamespace(run_id="run-1"))

    def log_batch(self, run_id: str, *, params=(), metrics=()) -> None:
        assert run_id == "run-1" and len(params) <= 100 and len(metrics) <= 1000
        self.params.update(params)
        self.metrics.extend(metrics)

    def set_terminated(self, run_id: str, status: str) -> None:
        self.ends.append(status)


@pytest.fixture
def client(monkeypatch):
    for name, empty in (("stores", []), ("params", {}), ("metrics", []), ("ends", []), ("runs", [])):
        monkeypatch.setattr(RecordedClient, name, empty)
    module = SimpleNamespace(is_tracking_uri_set=lambda: False)
    tuples = SimpleNamespace(Metric=lambda *values: values, Param=lambda *values: values)
    monkeypatch.setitem(sys.modules, "sqlalchemy", SimpleNamespace())
    monkeypatch.setitem(sys.modules, "mlflow", module)
    monkeypatch.setitem(sys.modules, "mlflow.entities", tuples)
    monkeypatch.setitem(sys.modules, "mlflow.tracking", SimpleNamespace(MlflowClient=RecordedClient))
    return RecordedClient


def test_export_to_mlflow_makes_one_run_and_adds_new_epochs_once(tmp_path, client):
    folder = Folder(tmp_path)
    run = Run(folder.path)
    run.export("mlflow")
    assert client.metrics == [] and client.params["train.lr"] == "0.01" and client.runs == [run.id]
    folder.write(range(60))
    folder.write(range(60, 61), ranks=[0])
    for _ in range(2):
        assert run.export("mlflow") == folder.path / "mlflow"
    folder.write(range(60, 61), ranks=[1])
    folder.state("finished")
    run.export("mlflow")
    losses = [(value, epoch) for name, value, _, epoch in client.metrics if name == "loss"]
    assert losses == [(2 / (epoch + 1), epoch) for epoch in range(61)]
    assert client.runs == [run.id] and client.ends == ["FINISHED"]
    assert set(client.stores) == {f"sqlite:///{tmp_path.resolve() / 'mlflow.db'}"}


def test_mlflow_reads_the_exported_metrics(tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy")
    tracking = pytest.importorskip("mlflow.tracking")
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    folder = Folder(tmp_path)
    for epochs in (range(2), range(2, 4)):
        folder.write(epochs)
        exported = json.loads((Run(folder.path).export("mlflow") / "exported.json").read_text())
    history = tracking.MlflowClient(exported["store"]).get_metric_history(exported["run_id"], "loss")
    assert [(each.step, each.value) for each in history] == [(epoch, 2 / (epoch + 1)) for epoch in range(4)]


def test_wandb_writes_one_folder_with_all_epochs(tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.delenv("WANDB_MODE", raising=False)
    folder = Folder(tmp_path)
    for epochs in (range(2), range(2, 4)):
        folder.write(epochs)
        place = Run(folder.path).export("wandb")
    parts = list(place.glob("offline-run-*/*.wandb"))
    assert len(parts) == 1 and b"train_score" in parts[0].read_bytes()


def test_trackio_reads_the_exported_metrics(tmp_path, monkeypatch):
    storage = pytest.importorskip("trackio.sqlite_storage")
    for variable in ("TRACKIO_PROJECT", "TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setattr(storage, "TRACKIO_DIR", tmp_path / "trackio")
    folder = Folder(tmp_path)
    for epochs in (range(2), range(2, 4)):
        folder.write(epochs)
        Run(folder.path).export("trackio")
    logs = storage.SQLiteStorage.get_logs("gnnqlab", folder.path.name)
    assert [(each["step"], each["loss"]) for each in logs] == [(epoch, 2 / (epoch + 1)) for epoch in range(4)]


@pytest.mark.parametrize(
    ("tool", "module", "package"),
    [
        ("tensorboard", "torch.utils.tensorboard", "tensorboard"),
        ("parquet", "pyarrow", "pyarrow"),
        ("mlflow", "mlflow", "mlflow"),
        ("wandb", "wandb", "wandb"),
        ("trackio", "trackio", "trackio"),
    ],
)
def test_error_without_the_tool_has_its_pip_line(tmp_path, monkeypatch, tool, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RuntimeError, match=f"needs the package {package}, got .*; run pip install {package}"):
        Run(Folder(tmp_path).path).export(tool)
