import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from gnnqlab.run import processes
from gnnqlab.train.fault import Fault
from gnnqlab.train.heartbeat import PHASES, Heartbeat, HeartbeatReader, read_warning
from tests.cases import each
from tests.steps import steps


def reader(path: Path) -> HeartbeatReader:
    found = HeartbeatReader.open(path)
    assert found is not None
    return found


def test_heartbeat_reader_returns_rank_process_phase_and_epoch(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "rank3", 3, node=1)
    watching = reader(tmp_path / "rank3")
    pulse = watching.read()
    assert (pulse.rank, pulse.node, pulse.pid, pulse.phase, pulse.epoch) == (3, 1, os.getpid(), "start", -1)
    assert pulse.start_time == processes.start_time(os.getpid())
    before = pulse.beats
    heartbeat.phase("compute", epoch=7)
    heartbeat.phase("evaluate", limit_s=90.0)
    pulse = watching.read()
    assert (pulse.phase, pulse.epoch, pulse.limit_s, pulse.beats - before) == ("evaluate", 7, 90.0, 2)
    heartbeat.phase("wait")
    assert watching.read().limit_s == 0.0
    watching.close()


def test_a_rank_times_its_epochs_itself(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "rank0")
    watching = reader(tmp_path / "rank0")
    heartbeat.phase("compute", epoch=50)  # the first one of a resumed training
    assert watching.read().epoch_s == 0.0
    began = watching.read().time_ns
    heartbeat.phase("wait", epoch=50)
    heartbeat.phase("compute", epoch=51)
    assert watching.read().epoch_s == (watching.read().time_ns - began) / 1e9 > 0.0
    heartbeat.phase("wait")
    assert watching.read().epoch_s > 0.0


@each("name", PHASES)
def test_every_phase_fits_the_file(tmp_path: Path, name: str) -> None:
    Heartbeat(tmp_path / "rank0").phase(name)
    assert reader(tmp_path / "rank0").read().phase == name


def test_a_missing_or_unfinished_file_has_no_reader(tmp_path: Path) -> None:
    assert HeartbeatReader.open(tmp_path / "rank0") is None
    (tmp_path / "rank0").write_bytes(b"")
    assert HeartbeatReader.open(tmp_path / "rank0") is None
    (tmp_path / "rank0").write_bytes(bytes(8192))
    assert HeartbeatReader.open(tmp_path / "rank0") is None


def test_an_unknown_phase_is_refused() -> None:
    with pytest.raises(ValueError, match="a phase must be one of start, load.*, got 'lunch'"):
        Heartbeat(None).phase("lunch")


def test_heartbeat_error_is_truncated_to_the_available_space(tmp_path: Path) -> None:
    heartbeat = Heartbeat(tmp_path / "rank0")
    watching = reader(tmp_path / "rank0")
    assert watching.error() is None
    heartbeat.fail(b"short")
    assert watching.error() == b"short"
    heartbeat.fail(b"x" * 100_000)
    assert 7000 < len(watching.error() or b"") < 8192
    assert watching.read().phase == "start"  # the rest of the file is untouched


def test_the_last_position_outlives_a_killed_process(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from gnnqlab.train.heartbeat import Heartbeat; "
        "h = Heartbeat(Path(sys.argv[1]), 1); h.phase('compute', epoch=4); h.phase('reduce')"
    )
    fault = json.dumps({"kind": "kill", "rank": 1, "phase": "reduce", "epoch": 4})
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "rank1")], env={**os.environ, "GNNQLAB_FAULT": fault}
    )
    assert ended.returncode == -signal.SIGKILL
    pulse = reader(tmp_path / "rank1").read()
    assert (pulse.phase, pulse.epoch) == ("reduce", 4)
    assert (tmp_path / "fault-rank1").read_text().isdigit()


def test_a_phase_costs_microseconds(tmp_path: Path) -> None:
    """A heartbeat reads the clock and writes to memory; it makes no system call."""
    heartbeat, called = Heartbeat(tmp_path / "rank0"), []

    def calls(frame: FrameType, event: str, argument: Any) -> None:
        if event == "c_call":
            called.append(argument.__name__)

    sys.setprofile(calls)
    heartbeat.phase("compute", epoch=1)
    sys.setprofile(None)
    assert called == ["get", "monotonic_ns", "pack", "setprofile"]
    assert steps(lambda: heartbeat.phase("wait", epoch=2)) < 300


def test_a_reader_finds_whole_records_while_one_is_written(tmp_path: Path) -> None:
    heartbeat, seen = Heartbeat(tmp_path / "rank0"), []
    heartbeat.phase("compute", epoch=3)
    found = reader(tmp_path / "rank0")

    class Limit:
        """A number that reads the heartbeat while it is converted."""

        def __float__(self) -> float:
            seen.append(found.read())
            return 9.0

    heartbeat.phase("wait", epoch=4, limit_s=Limit())  # type: ignore[arg-type]
    assert [(pulse.phase, pulse.epoch) for pulse in seen] == [("compute", 3)]
    assert (found.read().phase, found.read().epoch, found.read().limit_s) == ("wait", 4, 9.0)


def test_a_fault_meets_only_its_own_rank_phase_and_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_FAULT", '{"kind": "raise", "rank": 2, "phase": "encode", "epoch": 1}')
    assert Fault.from_environment(0, None) is None
    heartbeat = Heartbeat(None, 2)
    heartbeat.phase("encode", epoch=0)
    heartbeat.phase("compute", epoch=1)
    with pytest.raises(ArithmeticError, match="on purpose in phase encode"):
        heartbeat.phase("encode")
    heartbeat.phase("encode")  # the fault occurs once


def test_an_unknown_fault_is_refused() -> None:
    with pytest.raises(ValueError, match="the kind of a fault must be one of kill, stop.*, got 'lunch'"):
        Fault(kind="lunch", phase="wait")


def test_guard_does_not_import_torch_numpy_or_pandas() -> None:
    code = "import sys, gnnqlab.launch.guard; print(*{'torch', 'numpy', 'pandas'} & set(sys.modules))"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout.strip() == ""


def test_warning_is_read_until_it_is_withdrawn(tmp_path: Path) -> None:
    (tmp_path / "heartbeat").mkdir()
    assert read_warning(tmp_path) == ""
    ranks = [Heartbeat(tmp_path / "heartbeat" / f"rank{rank}", rank) for rank in range(2)]
    ranks[1].warn("checkpoint failed: disk full")
    assert read_warning(tmp_path) == "checkpoint failed: disk full"
    ranks[0].warn("x" * 10_000)
    ranks[1].fail(b"y" * 10_000)  # the error has a space of its own
    assert re.fullmatch("x{1000,1024}; checkpoint failed: disk full", read_warning(tmp_path))
    for heartbeat in ranks:
        heartbeat.warn("")
    assert read_warning(tmp_path) == "" and reader(tmp_path / "heartbeat" / "rank1").read().phase == "start"


def test_heartbeat_of_an_earlier_version_has_no_warning(tmp_path: Path) -> None:
    Heartbeat(tmp_path / "rank0")
    os.truncate(tmp_path / "rank0", 8192)
    assert reader(tmp_path / "rank0").warning() == "" and reader(tmp_path / "rank0").read().phase == "start"
