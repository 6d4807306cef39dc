"""A launched run without faults, from start to end, and refusals before the start."""

import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from gnnqlab.errors import LaunchRefused
from gnnqlab.kernels import native
from gnnqlab.launch import Run, launch, local, runs
from gnnqlab.run import folder as files
from gnnqlab.run.progress import Progress
from gnnqlab.train.processors import usable_processors
from tests.cases import each
from tests.launch.conftest import FAKE, REPOSITORY, Bench, config, wait_until
from tests.slow_down import HANG_S, in_time

pytestmark = pytest.mark.usefixtures("cold")


def test_a_run_from_launch_to_its_end(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.set(FAKE_UNTIL="running")  # otherwise the guard's first check may come after all epochs
    began = time.monotonic()
    run = bench.launch(workers=2)
    returned_s = time.monotonic() - began
    first_s = returned_s + wait_until(lambda: run.epoch >= 1, what="the first epoch")
    assert run.wait(progress=True) is run
    assert (run.status, run.epoch, run.errors) == ("finished", 4, [])
    assert Run(run.folder).status == "finished"
    assert [event["event"] for event in run.events] == ["launched", "starting", "running", "finished"]
    assert run.config == config(2)
    assert {path.name for path in run.folder.glob("records-*")} == {"records-rank0.jsonl", "records-rank1.jsonl"}
    assert "loss=0.2000" in capsys.readouterr().err
    print(f"launch returned after {returned_s:.2f} s, first epoch after {first_s:.2f} s")
    assert in_time(returned_s, 2.0)
    assert [found.id for found in runs(bench.root / "runs")] == [run.id]
    run.stop()  # of a finished run: nothing
    assert run.status == "finished"


def test_workers_have_default_signals_their_own_cores_and_no_compiler(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")  # set for all tests, and followed
    bench.fit = "tests.launch.fakes:inspect"
    run = bench.launch(workers=2).wait()
    facts = [files.read_json(run.folder / f"facts{rank}.json") or {} for rank in range(2)]
    cores = len(os.sched_getaffinity(0))
    assert all(fact["default_signals"] and fact["parent_death"] == signal.SIGKILL for fact in facts)
    assert all(fact["temporary"] == str(run.folder / "tmp") for fact in facts)
    assert all(fact["threads"] == max(1, usable_processors() // 2) for fact in facts)
    assert not any(fact["dynamo"] for fact in facts)  # importing torch._dynamo would cost 2 s per worker
    if cores >= 2:
        assert not set(facts[0]["cores"]) & set(facts[1]["cores"])
    assert "a line for the log" in run.log(1) and "a line for the log" not in run.log(0)


@each("start_method", ["fork", "spawn"])
def test_workers_use_the_threads_of_omp_num_threads(start_method: str, bench: Bench) -> None:
    bench.set(OMP_NUM_THREADS=3)
    bench.fit = "tests.launch.fakes:inspect"
    run = bench.launch(workers=1, start_method=start_method).wait(timeout=HANG_S)
    assert (files.read_json(run.folder / "facts0.json") or {})["threads"] == 3


def test_a_run_started_without_fork(bench: Bench) -> None:
    run = bench.launch(workers=1, start_method="spawn", threads_per_worker=1).wait(timeout=HANG_S)
    assert run.status == "finished"


def test_stopping_at_the_end_of_a_block_and_two_runs_at_once(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    with bench.launch(workers=2) as first, bench.launch(workers=2) as second:
        bench.running(first), bench.running(second)
        assert len({run.id for run in runs(bench.root / "runs")}) == 2
        with pytest.raises(TimeoutError, match=r"must end within the timeout of 0.1 s, got status running"):
            first.wait(timeout=0.1)
        first.stop()
        assert first.status == "stopped" and first.wait() is first
        at = second.epoch
        wait_until(lambda: second.epoch > at, what="the other run going on")
        assert second.status == "running"
    assert second.status == "stopped"
    assert "stopped by SIGTERM" in repr(second)


def test_an_interrupt_while_waiting_stops_the_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    run = bench.running(bench.launch(workers=1))
    # Tests that run in the background ignore an interrupt from the start.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "show", lambda *shown: os.kill(os.getpid(), signal.SIGINT))  # once it waits
            with pytest.raises(KeyboardInterrupt):
                run.wait(timeout=HANG_S)
    finally:
        signal.signal(signal.SIGINT, before)
    assert run.status == "stopped"


def test_a_detached_run_outlives_its_launcher_and_is_found_again(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    code = (
        "from tests.launch.conftest import FAKE, config; from gnnqlab.launch import launch; "
        f"launch(config(2, detach=True), root={str(bench.root / 'runs')!r}, fit=FAKE)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=REPOSITORY, check=True)
    (run,) = runs(bench.root / "runs")
    bench.running(run)
    at = run.epoch
    wait_until(lambda: run.epoch > at, what="progress without the launcher")
    run.stop(HANG_S)
    assert run.status == "stopped" and not bench.processes()


def test_bench_finds_shared_memory_left_by_its_own_processes(bench: Bench) -> None:
    code = (
        "import mmap, os; path = f'/dev/shm/gnnqlab-test-{os.getpid()}'; file = open(path, 'w+b'); "
        "file.truncate(4096); shared = mmap.mmap(file.fileno(), 4096); print(path, flush=True); input()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        path = Path(child.stdout.readline().decode().strip())
        try:
            assert bench.processes() == [child.pid]
            child.kill()
            child.wait()
            assert bench.shared_memory() == [path]
        finally:
            path.unlink()
    assert bench.shared_memory() == []


def test_waiting_for_the_run_within_launch(bench: Bench) -> None:
    assert launch(config(1), root=bench.root / "runs", wait=True, fit=FAKE).status == "finished"


@each("place", ["/proc/gnnqlab-runs", "file/runs"])
def test_a_place_that_cannot_be_written_is_named(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("file").write_text("no folder")
    said = f"the folder of a run must be writable, got .*{place}.*pass out=.*GNNQLAB_RUNS"
    with pytest.raises(RuntimeError, match=said):
        launch(config(), root=place)


def test_a_gpu_that_is_not_there_is_refused_before_anything_starts(tmp_path: Path) -> None:
    if torch.cuda.is_available():
        pytest.skip("this machine has a CUDA device")
    with pytest.raises(ValueError, match="device must be one that PyTorch .* finds here, got 'cuda'; choose 'cpu'"):
        launch(config(device="cuda"), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_slow_kernels_are_reported_unless_the_user_selected_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GNNQLAB_KERNELS", raising=False)
    assert local._slow_kernels("cpu") == ""
    reason = "no library was built; run make kernels"
    missing = {"backend": "reference", "reason": reason, "cuda_reason": "built without"}
    monkeypatch.setattr(native, "status", lambda: missing)
    said = "several times slower than compiled ones: no library was built; run make kernels"
    assert said in local._slow_kernels("cpu")
    assert "plain PyTorch on the GPU, several times slower than compiled ones: built" in local._slow_kernels("cuda")
    monkeypatch.setattr(native, "status", lambda: {"backend": "reference", "reason": None, "cuda_reason": None})
    assert local._slow_kernels("cpu") == local._slow_kernels("cuda") == ""
    monkeypatch.setattr(native, "status", lambda: missing)
    monkeypatch.setenv("GNNQLAB_KERNELS", "reference")
    assert local._slow_kernels("cpu") == "", "no message that the kernels are off if the user turned them off"


def test_kernels_and_gpus_that_are_not_there_are_refused_before_anything_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNNQLAB_KERNELS", "foo")
    with pytest.raises(ValueError, match="GNNQLAB_KERNELS must be one of .*, got 'foo'"):
        launch(config(), root=tmp_path / "runs")
    monkeypatch.delenv("GNNQLAB_KERNELS")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with pytest.raises(ValueError, match=r"'nccl' needs one GPU per worker, got 3 workers and 1 GPU\(s\); choose"):
        launch(config(device="cuda", backend="nccl"), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_disk_without_room_is_named_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Usage(NamedTuple):
        free: int = 12345

    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage())
    with pytest.raises(LaunchRefused, match=r"must fit on its disk, got at least 67\.1 .* where 12\.3 kB are free on"):
        launch(config(), root=tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_modules_that_moved_to_the_room_run_are_deprecated_aliases() -> None:
    with pytest.warns(DeprecationWarning, match=r"gnnqlab\.launch\.folder is gnnqlab\.run\.folder now"):
        assert importlib.import_module("gnnqlab.launch").folder is files
