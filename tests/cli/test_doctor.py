"""`gnnqlab doctor` shows the limits of this process, and a way out for those that are too low."""

from __future__ import annotations

import resource
import socket
from pathlib import Path

import pytest

from gnnqlab.cli import doctor


def test_doctor_shows_each_limit_and_its_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(doctor, "cpu_quota", lambda: 1.5)
    monkeypatch.setattr(doctor, "usable_processors", lambda: 1)
    monkeypatch.setattr("gnnqlab.train.preflight.free_bytes", lambda device, workers: 2**29)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (32, 48))
    monkeypatch.setattr(socket, "if_nameindex", lambda: [(1, "eth7")])
    monkeypatch.setenv("OMP_NUM_THREADS", "many")
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "file" / "cache"))
    rows = {row["check"]: row for row in doctor.examine()}
    assert rows["cores"]["found"] == "1 (affinity 64, CPU quota 1.5)" and rows["cores"]["ok"] == "optional"
    assert "537 MB free for new processes" in rows["memory"]["found"] and rows["memory"]["ok"] == "optional"
    assert rows["OMP_NUM_THREADS"]["found"] == "many" and "unset it" in rows["OMP_NUM_THREADS"]["way_out"]
    assert rows["open files"]["found"] == "32, raised up to 48" and "raise it" in rows["open files"]["way_out"]
    assert rows["interfaces"]["found"] == "eth7" and "loopback" in rows["interfaces"]["way_out"]
    assert "set GNNQLAB_CACHE to a folder" in rows["cache"]["way_out"] and rows["cache"]["ok"] == "no"
    assert "B free" in rows["shared memory"]["found"] or rows["shared memory"]["way_out"]
