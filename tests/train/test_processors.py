"""The processors and threads of workers: affinity, quotas of control groups, and the user's own number."""

from __future__ import annotations

from pathlib import Path

import pytest

from gnnqlab.train import processors
from tests.cases import each

V2, V1 = "0::/app/run\n", "5:memory:/x\n4:cpu,cpuacct:/app/run\n"


@pytest.mark.parametrize(
    ("files", "membership", "granted"),
    [
        ({}, V2, None),
        ({"cpu.max": "200000 100000"}, V2, 2.0),
        ({"cpu.max": "max 100000"}, V2, None),
        ({"cpu.max": "nonsense"}, V2, None),
        ({"cpu.max": "50000 100000"}, "", 0.5),
        # The smallest limit of the own group and of all groups above it counts, but not that of another group.
        ({"cpu.max": "max 100000", "app/cpu.max": "300000 100000", "app/run/cpu.max": "400000 100000"}, V2, 3.0),
        ({"app/other/cpu.max": "100000 100000"}, V2, None),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, V1, None),
        ({"cpu/cpu.cfs_quota_us": "150000", "cpu/cpu.cfs_period_us": "100000"}, V1, 1.5),
        (
            {"cpu,cpuacct/app/run/cpu.cfs_quota_us": "400000", "cpu,cpuacct/app/run/cpu.cfs_period_us": "100000"},
            V1,
            4.0,
        ),
        ({"cpu/x/cpu.cfs_quota_us": "400000", "cpu/x/cpu.cfs_period_us": "100000"}, V1, None),
    ],
)
def test_cpu_quota_is_the_smallest_of_a_fake_tree(
    files: dict[str, str], membership: str, granted: float | None, tmp_path: Path
) -> None:
    for name, text in files.items():
        (tmp_path / "groups" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "groups" / name).write_text(f"{text}\n")
    (tmp_path / "membership").write_text(membership)
    assert processors.cpu_quota(tmp_path / "groups", tmp_path / "membership") == granted


@pytest.mark.parametrize(
    ("setting", "requested", "quota", "expected"),
    [
        (3, 5, 2.0, (3, "threads_per_worker")),
        (None, 5, 2.0, (5, "OMP_NUM_THREADS")),
        (None, None, None, (32, "processors")),
        (None, None, 64.0, (32, "processors")),
        (None, None, 7.5, (3, "CPU quota of 7.5 processors")),
        (None, None, 0.5, (1, "CPU quota of 0.5 processors")),
    ],
)
def test_threads_follow_setting_then_variable_then_quota(
    setting: int | None, requested: int | None, quota: float | None, expected: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: set(range(64)))
    monkeypatch.setattr(processors, "cpu_quota", lambda: quota)
    assert processors.threads_per_worker(setting, requested, local_workers=2) == expected


@each("text", ["0", "-1", "two", "1.5", ",2"])
def test_invalid_number_of_requested_threads_is_refused(text: str) -> None:
    with pytest.raises(
        ValueError, match=f"OMP_NUM_THREADS must be a whole number of at least 1, got '{text}'; unset it"
    ):
        processors.requested_threads({"OMP_NUM_THREADS": text})
