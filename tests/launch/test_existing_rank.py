"""Ranks that another program has started: torchrun for real, srun and mpirun by their variables or for real."""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.launch import Run, worker
from gnnqlab.launch.existing_rank import rank_command
from gnnqlab.launch.guarded import new_run
from gnnqlab.train.processors import BOUND
from tests.launch.conftest import FAKE, Bench, config
from tests.launch.test_cluster import free_port
from tests.slow_down import HANG_S, wait_until

SETTINGS = {"workers": 2, "epochs": 6, "hidden": 8, "threads_per_worker": 1, "checkpoint_every": 2}


def variables(starter: str, rank: int, workers: int) -> dict[str, str]:
    """Variables of a rank on one machine."""
    if starter == "srun":
        names = {"SLURM_PROCID": rank, "SLURM_LOCALID": rank, "SLURM_STEP_NUM_TASKS": workers, "SLURM_NODEID": 0}
        names |= {"SLURM_STEP_TASKS_PER_NODE": workers, "SLURM_STEP_NODELIST": "n1"}
    else:
        names = {"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank}
        names |= {"OMPI_COMM_WORLD_SIZE": workers, "OMPI_COMM_WORLD_LOCAL_SIZE": workers}
    return {name: str(value) for name, value in names.items()}


def prepared(bench: Bench, workers: int, **launch_settings: object) -> Path:
    return new_run(config(workers, **launch_settings), root=bench.root / "runs", state="prepared")


def start(folder: Path, starter: str, workers: int) -> list["subprocess.Popen[bytes]"]:
    port = {"MASTER_PORT": str(free_port())}
    ranks = []
    for rank in range(workers):
        environ = {**os.environ, **port, **variables(starter, rank, workers)}
        command, environment = rank_command(folder, environ, fit=FAKE)
        ranks.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL))
    return ranks


@pytest.mark.parametrize("workers", [1, 2, 3])
@pytest.mark.parametrize("starter", ["srun", "mpirun"])
def test_ranks_of_a_starter_train_to_the_end(bench: Bench, starter: str, workers: int) -> None:
    folder = prepared(bench, workers)
    assert Run(folder).status == "prepared"
    assert [rank.wait(timeout=HANG_S) for rank in start(folder, starter, workers)] == [0] * workers
    run = Run(folder)
    assert run.status == "finished" and len(list(folder.glob("records-rank*.jsonl"))) == workers


def test_failed_rank_ends_the_others_with_its_cause(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000, GNNQLAB_FAULT='{"kind": "kill", "rank": 1, "phase": "wait", "epoch": 3}')
    folder = prepared(bench, 2)
    assert [rank.wait(timeout=HANG_S) for rank in start(folder, "srun", 2)] == [1, 1]
    assert Run(folder).cause == "rank 1 was killed (signal 9, SIGKILL) in epoch 3 while waiting for boundary messages"
    # A second start does not see the first one's failure.
    bench.set(FAKE_EPOCHS=5, GNNQLAB_FAULT="")
    assert [rank.wait(timeout=HANG_S) for rank in start(folder, "srun", 2)] == [0, 0]
    assert Run(folder).status == "finished"


def test_rank_that_cannot_start_is_named(bench: Bench) -> None:
    folder = prepared(bench, 1)
    [rank] = start(folder, "srun", 1)
    assert rank.wait(timeout=HANG_S) == 0
    command, environment = rank_command(prepared(bench, 1), {**os.environ, **variables("srun", 0, 1)})
    command[-3:] = ["gnnqlab.launch.no_such_module", command[-2]]
    assert subprocess.run(command, env=environment, timeout=HANG_S).returncode == 1
    assert Run(command[command.index("--") - 1]).cause.startswith("rank 0 ended with code 1 before the workers were")


@pytest.mark.parametrize(
    ("launch_settings", "world_size", "text"),
    [
        ({}, 3, "the world size must be the workers of the run, got 3 ranks of srun for 2 workers"),
        ({"retries": 1}, 2, "retries work only where gnnqlab starts the workers, got retries 1"),
        ({"hosts": 2}, 2, "hosts work only where gnnqlab starts the workers, got hosts 2"),
    ],
)
def test_ranks_that_contradict_the_run_are_refused(
    bench: Bench, launch_settings: dict[str, object], world_size: int, text: str
) -> None:
    folder = prepared(bench, 2, **launch_settings)
    shutil.rmtree(folder / "tmp")
    with pytest.raises(ValueError, match=text):
        rank_command(folder, variables("srun", 0, world_size))
    assert Run(folder).stop().status == "stopped" and "never started" in Run(folder).cause


def test_folder_without_a_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        main(["worker", "--from-environment", str(tmp_path)])
    assert end.value.code == 2 and "a rank needs a prepared run, got no config.json" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main(["worker", str(tmp_path)])
    assert "got no --from-environment; add it" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("gpus", "local_rank", "is_bound", "index"),
    [(4, 2, False, 2), (1, 2, True, 0), (4, 2, True, 2), (1, 0, False, 0), (1, 1, False, None), (2, 2, True, None)],
)
def test_rank_with_one_visible_gpu_uses_it(
    monkeypatch: pytest.MonkeyPatch, gpus: int, local_rank: int, is_bound: bool, index: int | None
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    chosen: list[int] = []
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    if index is None:
        with pytest.raises(
            RuntimeError, match=f"needs one GPU per worker, got local rank {local_rank} and {gpus} GPUs"
        ):
            worker._device("cuda", "nccl", local_rank, is_bound=is_bound)
    else:
        assert worker._device("cuda", "nccl", local_rank, is_bound=is_bound).index == index and chosen == [index]


def test_only_starters_that_bind_may_show_one_gpu(bench: Bench) -> None:
    folder = prepared(bench, 1)
    for starter, bound in (("srun", "1"), ("mpirun", "1")):
        assert rank_command(folder, variables(starter, 0, 1))[1][BOUND] == bound
    torchrun = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    assert rank_command(folder, torchrun)[1][BOUND] == ""
    shutil.rmtree(folder / "tmp")


def losses(folder: Path) -> list[list[float]]:
    return [
        [json.loads(line)["loss"] for line in path.read_text().splitlines()]
        for path in sorted(folder.glob("records-rank*.jsonl"))
    ]


@pytest.mark.slow
def test_torchrun_trains_as_a_plain_launch_and_continues_after_a_signal(bench: Bench) -> None:
    root, settings = bench.root / "runs", {**SETTINGS, "epochs": 300}
    plain = gq.launch("sbm:60,3,4", out=root, wait=True, **settings)
    run = gq.launch("sbm:60,3,4", out=root, start=False, **settings)
    assert run.status == "prepared"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
    log = f"--log-dir={bench.root / 'torchrun'}"
    command = [*torchrun, log, "-m", "gnnqlab", "worker", "--from-environment", str(run.folder)]
    ranks = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    wait_until(lambda: run.epoch >= 3, what="the fourth epoch")
    ranks.send_signal(signal.SIGTERM)  # torchrun sends it to its ranks
    ranks.wait(timeout=HANG_S)
    assert run.status == "stopped" and "interrupted by SIGTERM at epoch" in run.cause
    subprocess.run(command, check=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
    assert run.status == "finished" and losses(run.folder) == losses(plain.folder)
    with pytest.raises(ValueError, match="a run must not have finished"):
        rank_command(run.folder, variables("srun", 0, 2))


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("mpirun") is None, reason="no mpirun on this machine")
def test_mpirun_trains_as_a_plain_launch(bench: Bench) -> None:
    root = bench.root / "runs"
    plain = gq.launch("sbm:60,3,4", out=root, wait=True, **SETTINGS)
    run = gq.launch("sbm:60,3,4", out=root, start=False, **SETTINGS)
    bench.set(OMPI_ALLOW_RUN_AS_ROOT=1, OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1)
    command = ["mpirun", "-np", "2", "--oversubscribe", sys.executable, "-m", "gnnqlab", "worker", "--from-environment"]
    subprocess.run([*command, str(run.folder)], check=True, timeout=HANG_S, stdin=subprocess.DEVNULL)
    assert run.status == "finished" and losses(run.folder) == losses(plain.folder)
