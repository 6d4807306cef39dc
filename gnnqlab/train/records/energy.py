"""Energy of a machine: counters of processor packages and memory (RAPL) and of GPUs (NVML), where they can be read."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gnnqlab.train.records.recorder import Recorder

__all__ = ["Energy", "Meter", "find_meters", "gpu_meters", "rapl_meters"]

RAPL = Path("/sys/class/powercap")
"""Folder of Linux with the zones of all processor packages, of their cores and of their memory."""
_NVML = "libnvidia-ml.so.1"


class Meter:
    """Joules since the last call, from a counter that starts again at its limit.

    Args:
        name: name of the measured device.
        read: returns the counter.
        joules: joules of one count.
        limit: largest value of the counter; 0 if it does not start again.

    Example:
        >>> counts = iter([90, 95, 5])
        >>> meter = Meter("package-0", lambda: next(counts), joules=0.5, limit=99)
        >>> meter.take(), meter.take(), meter.take()
        (0.0, 2.5, 5.0)
    """

    def __init__(self, name: str, read: Callable[[], int], *, joules: float, limit: int = 0) -> None:
        self.name = name
        self._read, self._joules, self._limit = read, joules, limit
        self._before: int | None = None

    def take(self) -> float:
        """Return the joules since the last call; 0 at the first one."""
        count, before = self._read(), self._before
        self._before = count
        if before is None:
            return 0.0
        spent = count - before
        return self._joules * (spent + self._limit + 1 if spent < 0 else spent)


def find_meters() -> list[Meter]:
    """Return the meters of this machine that can be read; they count other programs, too."""
    return [*rapl_meters(RAPL), *gpu_meters()]


def rapl_meters(root: Path) -> list[Meter]:
    """Return the meters of processor packages and of their memory, in microjoules (Intel and AMD).

    Args:
        root: folder of the zones. Zones of cores are left out, since their package counts them.
    """
    meters = []
    for zone in sorted(root.glob("intel-rapl:*")):
        try:
            name = (zone / "name").read_text(encoding="ascii").strip()
            limit = int((zone / "max_energy_range_uj").read_text(encoding="ascii"))
            read = _reader(zone / "energy_uj")
            read()  # often for root only
        except (OSError, ValueError):
            continue
        if name.startswith("package") or name == "dram":
            meters.append(Meter(name, read, joules=1e-6, limit=limit))
    return meters


def _reader(path: Path) -> Callable[[], int]:
    return lambda: int(path.read_text(encoding="ascii"))


def gpu_meters(load: Callable[[str], Any] = ctypes.CDLL) -> list[Meter]:
    """Return the meters of NVIDIA's GPUs, in millijoules since the driver was loaded; none without its library.

    Args:
        load: loads a shared library.
    """
    try:
        nvml = load(_NVML)
    except OSError:
        return []
    count, meters = ctypes.c_uint(), []
    if nvml.nvmlInit_v2() or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)):  # 0 is success
        return []
    for index in range(count.value):
        device, value = ctypes.c_void_p(), ctypes.c_ulonglong()
        if nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(device)):
            continue

        def read(device: ctypes.c_void_p = device, value: ctypes.c_ulonglong = value) -> int:
            if code := nvml.nvmlDeviceGetTotalEnergyConsumption(device, ctypes.byref(value)):
                raise OSError(f"NVML must return the energy of a GPU, got error {code}")
            return value.value

        try:
            read()  # GPUs before Volta have no counter
        except OSError:
            continue
        meters.append(Meter(f"gpu-{index}", read, joules=1e-3))
    return meters


class Energy(Recorder):
    """Record the joules of this machine in the training part of an epoch, as ``energy_j``; nothing without a meter.

    Args:
        meters: on the first worker of a machine its meters; on the others none, so that a sum over workers is right.
    """

    def __init__(self, meters: list[Meter]) -> None:
        self._meters = meters
        self._joules = 0.0

    def begin(self, epoch: int) -> None:
        self._take()  # drops the time between two epochs

    def measure(self, epoch: int) -> None:
        self._joules = self._take()

    def figures(self) -> dict[str, Any]:
        return {"energy_j": round(self._joules, 4)} if self._meters else {}

    def _take(self) -> float:
        try:
            return sum(meter.take() for meter in self._meters)
        except (OSError, ValueError):  # a counter that can no longer be read must not end a training
            self._meters = []
            return 0.0
