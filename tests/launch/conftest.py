"""Launched runs of a fake training, and a check after each test that all their processes and files are gone."""

import functools
import os
import secrets
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnnqlab.launch import Run, launch
from gnnqlab.launch.emulated import available
from gnnqlab.launch.guarded import STARTER
from gnnqlab.run import processes
from gnnqlab.train.config.run_config import LaunchSettings, RunConfig, TrainSettings
from tests.slow_down import HANG_S, wait_until

REPOSITORY = Path(__file__).parents[2]
FAKE = "tests.launch.fakes:fit"
GONE_S = 5.0
"""The promised limit: within these seconds after its end, nothing of a run is left, however it ended."""


def config(workers: int = 3, **launch_settings: object) -> RunConfig:
    """A run whose training is ``tests.launch.fakes:fit``."""
    return RunConfig(
        graph="unused",
        workers=workers,
        train=TrainSettings(epochs=5),
        launch=LaunchSettings(**launch_settings),  # type: ignore[arg-type]
    )


class Bench:
    """Helpers of a test that launches runs and observes their processes."""

    def __init__(self, root: Path, environment: pytest.MonkeyPatch) -> None:
        self.root, self._environment = root, environment
        self.fit = FAKE
        self._shared: set[Path] = set()
        self._mark = f"GNNQLAB_TEST_MARK={secrets.token_hex(8)}"
        environment.setenv(*self._mark.split("="))
        environment.setenv("PYTHONPATH", str(REPOSITORY))
        environment.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        environment.setenv("TMPDIR", str(root / "temporary"))
        (root / "temporary").mkdir(parents=True)

    def set(self, **variables: object) -> None:
        for name, value in variables.items():
            self._environment.setenv(name, str(value))

    def launch(self, workers: int = 3, **launch_settings: object) -> Run:
        """Launch a run; a stopped run gets the time that its guard needs on a busy machine."""
        run = launch(config(workers, **launch_settings), root=self.root / "runs", fit=self.fit)
        run.stop = functools.partial(run.stop, HANG_S)  # type: ignore[method-assign]
        return run

    def running(self, run: Run) -> Run:
        """Wait until the run trains, and return it; imports are slow on a busy machine."""
        wait_until(lambda: run.epoch >= 1 and run.status != "starting", what="the first epoch")
        assert run.status == "running", run.errors
        self.processes()  # records their shared memory
        return run

    def processes(self) -> list[int]:
        """Return all processes of the launched runs, found by a mark in their environment."""
        found = []
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                environment = Path(f"/proc/{name}/environ").read_bytes()
            except OSError:
                continue
            if self._mark.encode() in environment.split(b"\0"):
                found.append(int(name))
                self._shared |= _shared_memory(int(name))
        return found

    def shared_memory(self) -> list[Path]:
        """Return the shared memory of the launched runs' processes that still exists."""
        return sorted(path for path in self._shared if path.exists())

    def guard(self, run: Run) -> int:
        return run._guards()[0][0]

    def agent(self, run: Run) -> int:
        children = [process for process in processes.tree(self.guard(run)) if process.parent == self.guard(run)]
        assert len(children) == 1
        return children[0].pid


def _shared_memory(pid: int) -> set[Path]:
    """Return the named files under ``/dev/shm`` that a process has mapped."""
    try:
        lines = Path(f"/proc/{pid}/maps").read_text().splitlines()
    except OSError:
        return set()
    names = (line.split(maxsplit=5)[5] for line in lines if "/dev/shm/" in line)
    return {Path(name) for name in names if not name.endswith(" (deleted)")}


@pytest.fixture
def cold(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each run as a user's run starts, from nothing: for tests of the start itself, see `tests/warm.py`."""
    monkeypatch.delenv(STARTER, raising=False)


@pytest.fixture(scope="session")
def possible() -> None:
    """Skip the tests if this machine cannot emulate hosts."""
    reason = available()
    if reason is not None:
        pytest.skip(f"no emulated hosts: {reason}")


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bench]:
    bench = Bench(tmp_path, monkeypatch)
    yield bench
    try:
        wait_until(lambda: not bench.processes(), promised_s=GONE_S, what=f"the end of {bench.processes()}")
    finally:
        for pid in bench.processes():
            os.kill(pid, signal.SIGKILL)
    assert not bench.shared_memory()
    assert not list((tmp_path / "temporary").iterdir())
    assert not list(tmp_path.glob("runs/*/tmp"))
