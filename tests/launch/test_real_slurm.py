"""Runs of a real SLURM: a controller and two nodes on this machine, installed where root and apt allow."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.launch.slurm import Slurm
from gnnqlab.run.job import read_job
from gnnqlab.train.checkpoints.checkpoint import newest_checkpoint
from tests.launch.conftest import Bench
from tests.launch.fakes import UNHURRIED
from tests.launch.test_cluster import free_port
from tests.launch.test_existing_rank import losses
from tests.launch.test_slurm import TRAINING
from tests.slow_down import HANG_S, wait_until

pytestmark = pytest.mark.slow
APT_S = 120.0
"""Seconds for the installation, and again for the start of the nodes; later the tests are skipped."""
PACKAGES = ("slurmctld", "slurmd", "slurm-client", "munge")


def installed() -> str:
    """Install SLURM if it is missing; return the reason why it cannot be used."""
    if os.geteuid() != 0:
        return "its daemons need root"
    if shutil.which("slurmctld") and shutil.which("slurmd") and shutil.which("munged"):
        return ""
    if not shutil.which("apt-get"):
        return "it is not installed, and there is no apt-get"
    apt = ["apt-get", "install", "--yes", "--no-install-recommends", *PACKAGES]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            apt, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=APT_S
        )
    except subprocess.TimeoutExpired:
        return f"apt-get took more than {APT_S} s"
    return "" if done.returncode == 0 else f"apt-get cannot install it: {done.stderr[-300:]}"


def configuration(folder: Path) -> str:
    host, ports = socket.gethostname(), [free_port() for _ in range(4)]
    return f"""ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/slurmd-%n.pid
SlurmdLogFile={folder}/slurmd-%n.log
SlurmdSpoolDir={folder}/spool-%n
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
KillWait=20
SlurmdTimeout=300
JobRequeue=1
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=1000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=1000
PartitionName=all Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
"""


@pytest.fixture(scope="module")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A running SLURM; its configuration file."""
    pytest.importorskip("submitit")
    if reason := installed():
        pytest.skip(f"no SLURM: {reason}")
    folder = tmp_path_factory.mktemp("slurm")
    (folder / "state").mkdir()
    (folder / "munge.key").write_bytes(os.urandom(128))
    (folder / "munge.key").chmod(0o400)
    (folder / "slurm.conf").write_text(configuration(folder))
    own_files = [f"--{name}-file={folder}/munge.{name}" for name in ("key", "log", "pid", "seed")]
    environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf")}
    try:
        # They put themselves into the background.
        for command in (
            ["munged", "--force", f"--socket={folder}/munge.socket", *own_files],
            ["slurmctld"],
            ["slurmd", "-N", "n1"],
            ["slurmd", "-N", "n2"],
        ):
            done = subprocess.run(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
            )
            if done.returncode != 0:  # as in a container without the rights that it needs
                pytest.skip(f"no SLURM: {command[0]} cannot start here: {done.stderr.decode()[-300:]}")
        for _ in range(int(APT_S)):
            states = subprocess.run(["sinfo", "-h", "-o", "%T %D"], env=environment, capture_output=True).stdout
            if states == b"idle 2\n":
                break
            time.sleep(1)
        else:  # for instance without the control groups that slurmd needs
            pytest.skip(f"no SLURM: its two nodes do not become idle here, they are {states.decode()!r}")
        yield folder / "slurm.conf"
    finally:
        for path in sorted(folder.glob("*.pid"), reverse=True):  # slurmd, slurmctld, munged
            if text := path.read_text().strip():
                with contextlib.suppress(ProcessLookupError):  # a test has killed it, and has failed before its restart
                    os.kill(int(text), signal.SIGTERM)


def test_two_nodes_train_as_a_plain_launch_queue_requeue_and_stop(slurm: Path, bench: Bench) -> None:
    # The names of the nodes are this machine's only for SLURM.
    bench.set(SLURM_CONF=slurm, MASTER_ADDR="127.0.0.1")
    root: Path = bench.root / "runs"
    plain = gq.launch("sbm:60,3,4", out=root, workers=2, wait=True, **TRAINING)
    run = gq.launch("sbm:60,3,4", out=root, on=Slurm(nodes=2), **TRAINING)
    assert run.status in ("queued", "starting", "running")
    assert run.wait(HANG_S).status == "finished" and losses(run.folder) == losses(plain.folder)

    endless = {**TRAINING, "epochs": 1_000_000, "observers": UNHURRIED, "checkpoint_every": 1000}
    first = gq.launch("sbm:60,3,4", out=root, on=Slurm(nodes=2), **endless)
    second = gq.launch("sbm:60,3,4", out=root, on=Slurm(nodes=2), **endless)
    wait_until(lambda: first.epoch >= 3 and second.cause, what="the fourth epoch and a reason to wait")
    assert second.status == "queued" and "waits in the queue since" in second.cause
    assert second.stop().status == "stopped"

    job = read_job(first.folder)
    assert job is not None
    subprocess.run(["scancel", "--signal=USR2", job.id], check=True)  # as before the time limit
    events = first.folder / "events.jsonl"
    wait_until(lambda: events.read_text().count('"event": "queued"') == 2, what="the way back into the queue")
    lines = (first.folder / "records-rank0.jsonl").read_text().splitlines()
    epoch = max(json.loads(line)["epoch"] for line in lines if line.endswith("}"))

    # SLURM delays a job that returns by two minutes. Some seconds are needed: a node refuses the credential of a job
    # that was revoked in the same second.
    wait_until(lambda: job.state() == ("PENDING", "BeginTime"), what="a job that waits for its time")
    assert first.status == "queued"
    subprocess.run(["scontrol", "update", f"jobid={job.id}", "starttime=now+5"], check=True)
    wait_until(lambda: first.epoch > epoch, what="an epoch of the second attempt")
    assert first.stop(HANG_S).status == "stopped"
    found = losses(first.folder)[0]
    assert found[:6] == losses(plain.folder)[0] and len(found) > epoch


def submitted(bench: Bench, slurm: Path) -> gq.Run:
    """Return a run on two nodes that trains and has a checkpoint."""
    bench.set(SLURM_CONF=slurm, MASTER_ADDR="127.0.0.1")
    endless = {**TRAINING, "epochs": 1_000_000, "observers": UNHURRIED, "checkpoint_every": 3}
    run = gq.launch("sbm:60,3,4", out=bench.root / "runs", on=Slurm(nodes=2), **endless)
    wait_until(lambda: run.epoch >= 4, what="the fifth epoch")
    return run


def test_scancel_leaves_a_checkpoint_and_a_status(slurm: Path, bench: Bench) -> None:
    run = submitted(bench, slurm)
    job = read_job(run.folder)
    assert job is not None
    subprocess.run(["scancel", job.id], check=True)
    wait_until(lambda: run.status == "stopped" and job.state() == ("", ""), what="the end of the job")
    epoch = max(json.loads(line)["epoch"] for line in (run.folder / "records-rank0.jsonl").read_text().splitlines())
    assert run.cause.startswith(f"interrupted by SIGTERM at epoch {epoch}; resume with")
    newest = newest_checkpoint(run.folder)
    assert newest is not None and newest.epoch == epoch + 1
    Slurm(nodes=2).submit(run)
    wait_until(lambda: run.epoch > epoch, what="an epoch of the next job")
    assert run.stop(HANG_S).status == "stopped"


def of_node(bench: Bench, node: str) -> set[int]:
    """Return the processes of a node's tasks, and those of SLURM that hold them."""
    tasks = {pid for pid in bench.processes() if f"SLURMD_NODENAME={node}".encode() in environment_of(pid)}
    parents = {int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1]) for pid in tasks}
    holders = {pid for pid in parents - tasks if Path(f"/proc/{pid}/comm").read_text().startswith("slurmstepd")}
    return tasks | holders


def kill_at_once(pids: set[int]) -> None:
    """Kill processes as the failure of their machine does: none runs on after the end of another, none reports it."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
        if number == signal.SIGSTOP:
            wait_until(lambda: not any(map(runs, pids)), what=f"the halt of {pids}")


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "TZX"
    except (FileNotFoundError, ProcessLookupError):
        return False


def environment_of(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def test_killed_node_is_reported_and_its_run_continues(slurm: Path, bench: Bench) -> None:
    run = submitted(bench, slurm)
    job = read_job(run.folder)
    assert job is not None
    pid_file = slurm.parent / "slurmd-n2.pid"
    kill_at_once({int(pid_file.read_text()), *of_node(bench, "n2")})
    events = run.folder / "events.jsonl"
    wait_until(lambda: '"event": "node lost"' in events.read_text(), what="a report of the lost node")
    [lost] = [event for event in run.events if event["event"] == "node lost"]
    assert lost["ranks"] == [1] and "their node has failed; job " in lost["text"]
    # Not with the mark of this test's processes.
    environment = {"SLURM_CONF": str(slurm), "PATH": os.environ["PATH"]}
    subprocess.run(["slurmd", "-N", "n2"], env=environment, stdin=subprocess.DEVNULL, check=True)  # the node is back
    wait_until(lambda: job.state() in (("PENDING", "BeginTime"), ("PENDING", "None")), what="the way into the queue")
    assert run.status == "queued"
    subprocess.run(["scontrol", "update", f"jobid={job.id}", "starttime=now+5"], check=True)
    wait_until(lambda: run.epoch > lost["epoch"], what="an epoch of the second attempt")
    assert run.stop(HANG_S).status == "stopped"
    found = losses(run.folder)
    assert found[0][: len(found[1])] == found[1][: len(found[0])] and len(found[0]) > lost["epoch"]
