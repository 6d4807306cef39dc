"""Energy: counters of a machine that start again, GPUs through NVML's functions, and records with or without them."""

from __future__ import annotations

import ctypes
import json

import pytest

import gnnqlab as gq
from gnnqlab.run.summary import Summary
from gnnqlab.train.records.energy import Energy, gpu_meters, rapl_meters
from gnnqlab.train.records.record import summarize
from tests.train.test_record import record, write


def zone(root, number, name, count=100, limit=999):
    folder = root / f"intel-rapl:{number}"
    folder.mkdir(parents=True)
    for file, value in (("name", name), ("energy_uj", count), ("max_energy_range_uj", limit)):
        (folder / file).write_text(f"{value}\n")
    return folder / "energy_uj"


def test_packages_and_memory_are_read_and_cores_are_not_counted_twice(tmp_path):
    package, memory = zone(tmp_path, "0", "package-0"), zone(tmp_path, "0:1", "dram")
    zone(tmp_path, "0:0", "core")
    (tmp_path / "intel-rapl:1").mkdir()  # a zone without files, as for a user who may not read them
    meters = rapl_meters(tmp_path)
    assert [meter.name for meter in meters] == ["package-0", "dram"]
    recorder = Energy(meters)
    recorder.begin(0)
    package.write_text("40")  # started again at 999: 940 microjoules
    memory.write_text("160")
    recorder.measure(0)
    assert recorder.figures() == {"energy_j": 0.001}  # 940 + 60 microjoules
    memory.write_text("900")  # the time between two epochs
    recorder.begin(1)
    recorder.measure(1)
    assert recorder.figures() == {"energy_j": 0.0}
    package.unlink()
    recorder.begin(2)
    assert recorder.figures() == {} and rapl_meters(tmp_path / "missing") == []


class Library:
    """NVML with two GPUs, of which the second has no counter."""

    def __init__(self, status=0):
        self.status, self.millijoules = status, 5000

    def nvmlInit_v2(self):
        return self.status

    def nvmlDeviceGetCount_v2(self, count):
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index, device):
        device._obj.value = index + 1
        return 0

    def nvmlDeviceGetTotalEnergyConsumption(self, device, value):
        value._obj.value = self.millijoules
        return 0 if device.value == 1 else 3


def test_gpus_with_a_counter_are_read():
    library = Library()
    (meter,) = gpu_meters(lambda name: library)
    meter.take()
    library.millijoules += 250
    assert (meter.name, meter.take()) == ("gpu-0", 0.25)
    assert gpu_meters(lambda name: Library(status=9)) == []
    assert gpu_meters(lambda name: ctypes.CDLL("libnot-here.so")) == []


@pytest.mark.parametrize("measured", [True, False])
def test_a_summary_and_a_report_have_the_joules_of_an_epoch_if_they_were_measured(tmp_path, measured):
    (tmp_path / "config.json").write_text(json.dumps(gq.configure("digits").to_json()))
    for rank in (0, 1):  # only the first worker of a machine has them
        joules = [900.0, 2.0, 3.0, 4.0] if measured and rank == 0 else [None] * 4
        write(tmp_path, rank, [{**record(epoch, rank), "energy_j": spent} for epoch, spent in enumerate(joules)])
    summary = summarize(tmp_path)
    assert summary.get("energy_j") == (3.0 if measured else None)
    assert Summary(summary).formatted.get("energy_j") == ("3 J" if measured else None)
