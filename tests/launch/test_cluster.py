"""The printed commands for several machines run: on this machine twice, and in two network namespaces."""

import contextlib
import os
import random
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnnqlab.cli import main
from gnnqlab.launch import Run, slurm_script, torchrun_command
from gnnqlab.launch.network import interface_address
from gnnqlab.launch.worker_target import argument
from gnnqlab.run import folder as files
from tests.launch.conftest import FAKE, Bench, config, wait_until
from tests.slow_down import HANG_S, in_time


def free_port() -> int:
    """Return an unused port below the ephemeral ones: it stays free until torchrun takes it."""
    least = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    for port in random.SystemRandom().sample(range(2048, max(least, 32768)), 100):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port
    raise AssertionError("a hundred ports in a row are taken")


def lines(
    bench: Bench,
    address: str = "127.0.0.1",
    interfaces: tuple[str, str] = ("lo", "lo"),
    roots: tuple[str, str] = ("runs", "runs"),
) -> list[str]:
    port = free_port()
    return [
        torchrun_command(
            config(2), 2, node, address, port, interfaces[node], run_id="both", root=str(bench.root / roots[node])
        )
        + f" {argument(FAKE)}"  # the workers' last argument
        for node in range(2)
    ]


def state(bench: Bench, node: int) -> dict[str, object]:
    return files.read_json(bench.root / "runs" / "both" / files.node_name("status", node)) or {}


@contextlib.contextmanager
def machines(commands: list[list[str]]) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run each command as if on a machine of its own; end it at the end of the block."""
    started = [subprocess.Popen(command, stdin=subprocess.DEVNULL) for command in commands]
    try:
        yield started
    finally:
        for machine in started:
            machine.terminate()
        for machine in started:
            machine.wait(timeout=HANG_S)


def test_a_fault_on_one_machine_ends_both(bench: Bench) -> None:
    bench.set(FAKE_EPOCHS=100_000, GNNQLAB_FAULT='{"kind": "kill", "rank": 1, "phase": "wait", "epoch": 3}')
    with machines([["bash", "-c", line] for line in lines(bench)]) as started:
        assert [machine.wait(timeout=HANG_S) for machine in started] == [1, 1]
    causes = sorted(str(state(bench, node)["cause"]) for node in range(2))
    # The rendezvous assigns the ranks, so either command may have started rank 1.
    assert re.match(r"rank 0 lost its connection to another worker, .*may be on another machine$", causes[0])
    assert causes[1] == "rank 1 was killed (signal 9, SIGKILL) in epoch 3 while waiting for boundary messages"


def test_machines_without_a_shared_folder_fail_before_training(bench: Bench, tmp_path: Path) -> None:
    with machines([["bash", "-c", line] for line in lines(bench, roots=("runs", "others"))]) as started:
        assert [machine.wait(timeout=HANG_S) for machine in started] == [1, 1]
    for root in ("runs", "others"):
        run = Run(bench.root / root / "both")
        assert run.status == "failed" and run.epoch == -1
        assert re.search(
            r"machines of one run must share its folder, got .*both, where rank\(s\) [01] do not find", run.cause
        )
        assert not list(run.folder.glob("records-*")) and not list(run.folder.glob(".seen-*"))


def test_printed_commands_state_that_the_folder_must_be_shared(capsys: pytest.CaptureFixture[str]) -> None:
    said = "All machines must have the same folder /disk/runs/"
    assert f"# {said}x on a shared disk" in slurm_script(config(2), 2, 29500, "lo", run_id="x", root="/disk/runs")
    main(["train", "--nnodes", "2", "--workers", "2", "--print-command", "--out", "/disk/runs"])
    assert capsys.readouterr().out.startswith(f"# {said}")


def test_slurm_script_runs_with_fake_slurm_commands(bench: Bench, tmp_path: Path) -> None:
    commands = tmp_path / "commands"
    commands.mkdir()
    # A long list, in two writes: a reader of its first line alone must not break the pipe.
    (commands / "scontrol").write_text("#!/bin/bash\necho node-a\nseq -f node-%g 20000\n")
    (commands / "srun").write_text(
        '#!/bin/bash\nnodes=1\nwhile [[ $1 == --* ]]; do [[ $1 == --nodes=* ]] && nodes="${1#--nodes=}"; shift; done\n'
        'for ((i = 0; i < nodes; i++)); do SLURM_NODEID=$i "$@" & jobs+=($!); done\n'
        'code=0; for job in "${jobs[@]}"; do wait "$job" || code=$?; done; exit $code\n'
    )
    for command in commands.iterdir():
        command.chmod(0o755)
    script = slurm_script(config(2), 2, free_port(), "lo", run_id="both", root=str(bench.root / "runs"))
    assert "#SBATCH --nodes=2\n" in script and "gpus" not in script
    folder = bench.root / "runs" / "both"
    script = script.replace(f"{folder}'\n", f"{folder} {argument(FAKE)}'\n")  # the workers' last argument
    assert FAKE in script
    environment = {**os.environ, "PATH": f"{commands}:{os.environ['PATH']}", "SLURM_JOB_NODELIST": "node-[a-b]"}
    subprocess.run(["bash", "-c", script], env=environment, stdin=subprocess.DEVNULL, check=True, timeout=HANG_S)
    assert [state(bench, node)["state"] for node in range(2)] == ["finished", "finished"]
    assert Run(folder).status == "finished"
    (folder / "records-rank1.jsonl").unlink()
    assert Run(folder).status == "failed"


@pytest.fixture
def namespaces() -> Iterator[tuple[str, str]]:
    """Two network namespaces joined by a virtual cable, 10.99.7.1 and 10.99.7.2; removed afterwards."""
    if os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("network namespaces need root and the ip command")
    names = (f"gnnq{os.getpid()}a", f"gnnq{os.getpid()}b")

    def ip(*words: str) -> None:
        subprocess.run(["ip", *words], check=True, capture_output=True)

    try:
        try:
            for name in names:
                ip("netns", "add", name)
            ip("link", "add", "wire0", "netns", names[0], "type", "veth", "peer", "name", "wire1", "netns", names[1])
            for number, name in enumerate(names):
                ip("-n", name, "addr", "add", f"10.99.7.{number + 1}/24", "dev", f"wire{number}")
                ip("-n", name, "link", "set", f"wire{number}", "up")
                ip("-n", name, "link", "set", "lo", "up")
        except subprocess.CalledProcessError as error:
            pytest.skip(f"this machine allows no network namespaces: {error.stderr.decode().strip()}")
        yield names
    finally:
        for name in names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def in_namespaces(bench: Bench, namespaces: tuple[str, str]) -> list[list[str]]:
    commands = lines(bench, "10.99.7.1", ("wire0", "wire1"))
    return [["ip", "netns", "exec", name, "bash", "-c", command] for name, command in zip(namespaces, commands)]


def training(bench: Bench) -> Run:
    folder = bench.root / "runs" / "both"
    wait_until(lambda: (folder / "config.json").exists(), what="the run folder")
    run = Run(folder)
    wait_until(lambda: run.epoch >= 1, what="the first epoch")
    return run


def test_two_machines_and_a_cut_wire(bench: Bench, namespaces: tuple[str, str]) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    with machines(in_namespaces(bench, namespaces)) as started:
        run = training(bench)
        subprocess.run(["ip", "-n", namespaces[0], "link", "set", "wire0", "down"], check=True)
        time.sleep(2)
        assert all(state(bench, node)["state"] in ("running", "stalled") for node in range(2))
        subprocess.run(["ip", "-n", namespaces[0], "link", "set", "wire0", "up"], check=True)
        at = run.epoch
        seconds = wait_until(lambda: run.epoch > at + 1, what="training after a short cut")
        print(f"wire cut for 2 s: training went on {seconds:.1f} s later")
    assert [machine.returncode for machine in started] == [143, 143]


@pytest.mark.slow
def test_a_wire_cut_for_good_ends_both_machines(bench: Bench, namespaces: tuple[str, str]) -> None:
    bench.set(FAKE_EPOCHS=100_000)
    with machines(in_namespaces(bench, namespaces)) as started:
        training(bench)
        subprocess.run(["ip", "-n", namespaces[0], "link", "set", "wire0", "down"], check=True)
        began = time.monotonic()
        assert [machine.wait(timeout=HANG_S) for machine in started] == [1, 1]
        print(f"wire cut for good: both machines ended after {time.monotonic() - began:.1f} s")
    assert in_time(time.monotonic() - began, 30.0)
    assert all("has waited for 20." in str(state(bench, node)["cause"]) for node in range(2))


def test_the_text_names_host_addresses_and_interface() -> None:
    first, second = (torchrun_command(config(4), 2, n, "10.0.0.1", 29400, "eth0", run_id="x") for n in range(2))
    for word in ("--nnodes=2", "--nproc-per-node=2", "--rdzv-endpoint=10.0.0.1:29400", "--rdzv-id=x"):
        assert word in first and word in second
    assert "GLOO_SOCKET_IFNAME=eth0" in first and "--node-rank=0" in first and "--node-rank=1" in second
    assert "c10d" not in first + second, "the elastic rendezvous unpickles what other machines write"
    assert "--node=0" in first and "--node=1" in second


def test_machines_that_cannot_share_the_workers_are_refused() -> None:
    with pytest.raises(ValueError, match="workers must be a multiple of the machines, got 3 workers on 2 machines"):
        torchrun_command(config(3), 2, 0, "10.0.0.1", 29400, "eth0")
    with pytest.raises(ValueError, match=r"node_rank must lie in \[0, 2\), got 2"):
        torchrun_command(config(4), 2, 2, "10.0.0.1", 29400, "eth0")


def test_an_interface_without_address_is_named() -> None:
    assert interface_address("lo") == "127.0.0.1"
    with pytest.raises(RuntimeError, match=r"must have an IPv4 address, got 'nowhere0': .*; this machine has .*lo"):
        interface_address("nowhere0")
