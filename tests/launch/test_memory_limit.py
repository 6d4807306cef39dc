"""Deaths of workers for lack of memory: counters of control groups of both versions and of the machine."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from gnnqlab.launch import rank_monitor
from gnnqlab.launch.memory_limit import MemoryKills
from gnnqlab.run import folder as files
from tests.launch.test_rank_monitor import dead_rank, report_exit, witness

VERSION_2 = (
    "memory.events",
    "low 0\noom 3\noom_kill {}\n",
    {"memory.max": "512000000\n", "memory.peak": "511000000\n"},
)
VERSION_1 = (
    "memory/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill {}\n",
    {"memory/memory.limit_in_bytes": "512000000\n", "memory/memory.max_usage_in_bytes": "511000000\n"},
)  # fmt: skip


def write(root: Path, contents: dict[str, str]) -> None:
    for name, text in contents.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def kills_of(root: Path) -> MemoryKills:
    return MemoryKills(root, root / "membership", root / "vmstat")


@pytest.mark.parametrize(("counter", "text", "sizes"), [VERSION_2, VERSION_1], ids=["version 2", "version 1"])
def test_group_that_ran_out_of_memory_is_named_with_limit_and_use(
    tmp_path: Path, counter: str, text: str, sizes: dict[str, str]
) -> None:
    write(tmp_path, {counter: text.format(4), **sizes})
    kills = kills_of(tmp_path)
    assert kills.reason() == ""
    write(tmp_path, {counter: text.format(5)})
    assert kills.reason() == "out of memory: limit 512 MB, used 511 MB"


def test_innermost_limit_counts_and_groups_without_limit_do_not(tmp_path: Path) -> None:
    write(tmp_path, {"membership": "0::/jobs/one\n", "memory.events": "oom_kill 0\n", "memory.max": "max\n"})
    for name, limit in (("jobs", 900_000_000), ("jobs/one", 100_000_000)):
        write(tmp_path, {f"{name}/memory.events": "oom_kill 0\n", f"{name}/memory.max": f"{limit}\n"})
    kills = kills_of(tmp_path)
    for name in ("", "jobs/", "jobs/one/"):
        write(tmp_path, {f"{name}memory.events": "oom_kill 1\n"})
    assert kills.reason() == "out of memory: limit 100 MB"


def test_machine_that_ran_out_of_memory_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"vmstat": "nr_free_pages 7\noom_kill 2\n"})
    kills = kills_of(tmp_path)
    write(tmp_path, {"vmstat": "nr_free_pages 7\noom_kill 3\n"})
    assert kills.reason() == "out of memory: that of the machine"


def test_killed_rank_is_reported_with_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counter, text, sizes = VERSION_2
    group = tmp_path / "group"
    write(group, {counter: text.format(0), **sizes})
    monkeypatch.setattr(rank_monitor, "MemoryKills", lambda: kills_of(group))
    folder = files.create(tmp_path, "run")
    seeing = witness(folder, 2)
    report_exit(seeing, dead_rank(folder, 1), signal.SIGKILL)
    report_exit(seeing, dead_rank(folder, 0), signal.SIGTERM)
    write(group, {counter: text.format(1)})
    seeing.poll()
    assert seeing.errors[1].cause == (
        "rank 1 was killed (signal 9, SIGKILL), out of memory: limit 512 MB, used 511 MB, in epoch 2 while waiting for "
        "boundary messages"
    )
    assert "memory" not in seeing.errors[0].cause
    agent = seeing.agent_ended(signal.SIGKILL).cause
    assert ", was killed (signal 9, SIGKILL), out of memory: limit 512 MB, used 511 MB, in epoch 2" in agent
