"""Export of a run that trains to other tools: every epoch once, complete epochs only, with and without the tool."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import ClassVar

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


@pytest.mark.parametrize(
    ("tool", "module", "package"),
    [("tensorboard", "torch.utils.tensorboard", "tensorboard"), ("parquet", "pyarrow", "pyarrow")],
)
def test_error_without_the_tool_has_its_pip_line(tmp_path, monkeypatch, tool, module, package):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(RuntimeError, match=f"needs the package {package}, got .*; run pip install {package}"):
        Run(Folder(tmp_path).path).export(tool)
