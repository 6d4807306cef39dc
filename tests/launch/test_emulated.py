"""Emulated hosts: what they create, that nothing of it is left, and rows that cross their wire."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gnnqlab.launch import goodput as ends
from gnnqlab.launch.emulated import EmulatedHosts, available, leftovers
from gnnqlab.run import processes
from gnnqlab.train.link import parse_link
from tests.launch.conftest import GONE_S, REPOSITORY, wait_until
from tests.slow_down import HANG_S, in_time

needs_hosts = pytest.mark.usefixtures("possible")


def namespaces(pid: int) -> list[str]:
    """Return the namespaces that a process owns."""
    return sorted(path.name for path in Path("/run/netns").glob(f"gnnq-{pid}-*"))


@pytest.fixture
def nothing_left() -> Iterator[None]:
    """Check that network links of the machine and processes of this test are the same after the test."""
    links, own = set(os.listdir("/sys/class/net")), os.getpid()
    before = {process.pid for process in processes.tree(own)}
    yield
    assert namespaces(own) == []
    # A link of another process may appear and disappear; one of ours would stay.
    wait_until(
        lambda: set(os.listdir("/sys/class/net")) <= links, promised_s=GONE_S, what="no new link of this machine"
    )
    assert {process.pid for process in processes.tree(own)} <= before


def test_settings_that_make_no_sense_are_refused() -> None:
    for hosts in (1, 65):
        with pytest.raises(ValueError, match=f"emulated hosts must number 2 to 64, got {hosts}"):
            EmulatedHosts(hosts, "1gbit")
    hosts = EmulatedHosts(2, "1gbit")
    with pytest.raises(ValueError, match=r"host must lie in \[0, 2\), got 2"):
        hosts.address(2)
    with pytest.raises(RuntimeError, match=r"emulated hosts must be up to run a command; use them in a with block"):
        hosts.command(0, ["true"])
    hosts.down()  # nothing to do


@pytest.mark.parametrize("link", ["1mbit", "100mbit", "1gbit", "10gbit", "100gbit"])
def test_a_frame_is_short_and_the_bucket_holds_little_more(link: str) -> None:
    hosts = EmulatedHosts(2, link)
    assert 1500 <= hosts.frame_bytes <= 60_000
    # A frame above 1500 bytes takes at most half a millisecond; the bucket adds the lateness of a timer.
    assert hosts.frame_bytes == 1500 or hosts.frame_bytes <= hosts.rate / 8 * 0.5e-3
    assert hosts.frame_bytes < hosts.burst_bytes <= hosts.frame_bytes + 64 + hosts.rate / 8 * 0.1e-3


def test_without_the_commands_the_reason_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert available() == "missing command: ip, tc; install iproute2"
    with pytest.raises(RuntimeError, match=r"emulated hosts need the command ip, got .*; install iproute2"):
        EmulatedHosts(2, "1gbit").up()


create_server = socket.create_server


class Late:
    """A listening socket that accepts after all bytes have been sent, as on a busy machine."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.server = create_server(address)
        self.sent = threading.Thread(target=ends.send, args=("127.0.0.1", self.getsockname()[1], 100_000, 5.0))
        self.settimeout = self.server.settimeout

    def getsockname(self) -> tuple[str, int]:
        name: tuple[str, int] = self.server.getsockname()
        return name

    def __enter__(self) -> Late:
        return self

    def __exit__(self, *error: object) -> None:
        self.server.close()

    def accept(self) -> tuple[socket.socket, object]:
        self.sent.start()
        self.sent.join()
        return self.server.accept()


def test_bytes_buffered_before_the_clock_starts_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends.socket, "create_server", Late)
    monkeypatch.setattr(ends, "_PIECE", 1 << 14)
    counted, took_s = ends.receive("127.0.0.1", 5.0)
    assert counted == 0 and took_s >= 0.0  # otherwise 90 kB in some microseconds


@pytest.mark.parametrize(("counted", "attempts"), [((10, 60_000_000), [1, 2]), ((10, 20, 30, 40, 50), None)])
def test_goodput_repeats_an_incomplete_transfer_with_more_bytes(
    counted: tuple[int, ...], attempts: list[int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, asked = iter(counted), list[int]()

    def transferred(_hosts: EmulatedHosts, source: int, target: int, num_bytes: int) -> tuple[int, float]:
        asked.append(num_bytes)
        return next(answers), 0.5

    monkeypatch.setattr(EmulatedHosts, "_time_transfer", transferred)
    hosts = EmulatedHosts(2, "1gbit")
    if attempts is None:
        with pytest.raises(RuntimeError, match=r"must be timed on a link of 1gbit, got 50 in attempt 5"):
            hosts.goodput(seconds=0.1)
        assert [count / asked[0] for count in asked] == [1, 2, 4, 5.12, 5.12]
    else:
        assert hosts.goodput(seconds=0.1).measured == 1.2e8
        assert [count // asked[0] for count in asked] == attempts


@needs_hosts
@pytest.mark.parametrize("count", [2, 3])
def test_emulated_hosts_are_reachable_and_leave_no_namespaces(count: int, nothing_left: None) -> None:
    with EmulatedHosts(count, "1gbit") as hosts, EmulatedHosts(2, "1gbit") as others:
        hosts.up()  # again: nothing changes
        assert len(namespaces(os.getpid())) == (2 if count == 2 else 4) + 2
        assert len({hosts.command(host, [])[3] for host in range(count)} | {others.command(0, [])[3]}) == count + 1
        for host in range(count):
            shown = subprocess.run(hosts.command(host, ["ip", "-br", "-4", "address"]), capture_output=True, text=True)
            assert shown.stdout.split()[3].startswith(hosts.interface(host))
            assert shown.stdout.split()[5] == f"{hosts.address(host)}/24"
        assert 0 < hosts.goodput(count - 1, 0, seconds=0.1).share < 1.05  # a busy machine sends less
    hosts.down()  # again


@needs_hosts
def test_the_rate_is_held_and_can_be_changed(nothing_left: None) -> None:
    with EmulatedHosts(2, "200mbit") as hosts:
        for link in ("200mbit", "50mbit", "1gbit"):
            hosts.shape(link)
            assert kernel_rates(hosts) == [parse_link(link) / 8] * 2
            goodput = hosts.goodput(seconds=0.2)
            print(f"{link}: goodput {goodput.measured / 1e6:.1f} MB/s, {goodput.share:.2f} of the rate")
            assert goodput.nominal == parse_link(link) / 8
            # Frames have headers and a busy machine pauses; the bucket is at most a twentieth of the transfer.
            assert goodput.share < 1.05 and in_time(1 / goodput.share, 1 / 0.7)


def kernel_rates(hosts: EmulatedHosts) -> list[int]:
    """Return the bytes per second that the kernel lets through at each end of the wire."""
    found = []
    for host in range(hosts.hosts):
        command = hosts.command(host, ["tc", "-json", "qdisc", "show", "dev", hosts.interface(host)])
        (root,) = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        found.append(root["options"]["rate"])
    return found


_OWNER = """
import os, signal, sys
from gnnqlab.launch.emulated import EmulatedHosts
hosts = EmulatedHosts(3, "1gbit")
hosts.up()
print(len(hosts._names), flush=True)
{end}
"""
_ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "terminated": "os.kill(os.getpid(), signal.SIGTERM)",
    "forgotten": "os._exit(0)",
    "killed with its janitor": "os.kill(hosts._janitor.pid, 9); os.kill(os.getpid(), 9)",
}


def owner(end: str) -> subprocess.Popen[str]:
    """Start a process that makes three hosts and a switch, and then ends in the given way."""
    process = subprocess.Popen(
        [sys.executable, "-c", _OWNER.format(end=end)],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "4\n"
    return process


@needs_hosts
@pytest.mark.parametrize("end", ["killed", "terminated", "forgotten"])
def test_hosts_go_with_their_owner(end: str) -> None:
    with owner(_ENDS[end]) as process:
        process.wait()
        wait_until(lambda: not namespaces(process.pid), promised_s=GONE_S, what="the end of its namespaces")


@needs_hosts
def test_hosts_are_removed_with_their_owner_while_its_child_lives() -> None:
    code = "child = os.fork()\nif child == 0: signal.pause()\nprint(child, flush=True); os.kill(os.getpid(), 9)"
    with owner(code) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        try:
            wait_until(lambda: not namespaces(process.pid), promised_s=GONE_S, what="the end of its namespaces")
        finally:
            os.kill(child, signal.SIGKILL)


@needs_hosts
def test_new_hosts_remove_the_namespaces_that_a_killed_janitor_left(nothing_left: None) -> None:
    for _ in range(5):
        with owner(_ENDS["killed with its janitor"]) as process:
            process.wait()
        left = namespaces(process.pid)
        if set(left) <= set(leftovers()) and len(left) == 4:
            break  # else hosts of another process, made at this moment, have removed some already
    else:
        raise AssertionError(f"four namespaces must be left, got {left}")
    with EmulatedHosts(2, "1gbit") as hosts:
        assert not namespaces(process.pid)
        assert not set(leftovers()) & {hosts.command(host, [])[3] for host in range(2)}


@needs_hosts
def test_two_ranks_exchange_rows_across_the_wire(tmp_path: Path, nothing_left: None) -> None:
    with EmulatedHosts(2, "1gbit") as hosts:
        workers = []
        for rank in range(2):
            command = [sys.executable, "-m", "tests.launch.test_emulated", str(tmp_path), str(rank)]
            environment = os.environ | {
                "GLOO_SOCKET_IFNAME": hosts.interface(rank),
                "PYTHONPATH": str(REPOSITORY),
                "OMP_NUM_THREADS": "1",
            }
            workers.append(subprocess.Popen(hosts.command(rank, command), env=environment, cwd=REPOSITORY))
        try:
            assert [worker.wait(timeout=HANG_S) for worker in workers] == [0, 0]
        finally:
            for worker in workers:
                worker.kill()
    answers = [json.loads((tmp_path / f"rank{rank}.json").read_text()) for rank in range(2)]
    for answer in answers:
        assert answer["exact"]
        assert answer["worst_step"] <= 1.0 + 1e-5  # rounding to float32 in both directions
        # 300 rows of 64 float32, and of 16 bytes with two parameters: they crossed this interface.
        assert answer["sent"] >= 300 * 64 * 4 + 300 * (16 + 8)


def exchange_rows(folder: Path, rank: int) -> None:
    """Send rows 0, 2, 4 ... of this rank to the other, as float32 and in 2 bits; write the received rows."""
    import torch
    import torch.distributed as dist

    from gnnqlab.bits.policy import Fixed
    from gnnqlab.message.channels.channel import Channel
    from gnnqlab.message.codecs.codec import Codec, Float32, Stochastic
    from gnnqlab.message.transport.transport import Direct
    from gnnqlab.partition.plan import Plan, Route

    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(str(folder / "store"), 2), rank=rank, world_size=2)
    xs = [torch.randn(600, 64, generator=torch.Generator().manual_seed(worker)) for worker in range(2)]
    rows = torch.arange(0, 600, 2)
    send = Route(peer=1 - rank, rows=rows, ids=rows + 600 * rank, first=None)
    receive = Route(peer=1 - rank, rows=torch.arange(300), ids=rows + 600 * (1 - rank), first=0)
    plan = Plan(rank=rank, workers=2, send=(send,), receive=(receive,), accumulate=False)

    def exchanged(codec: Codec, bits: int) -> torch.Tensor:
        channel = Channel(
            layer=0,
            direction="forward",
            plan=plan,
            codec=codec,
            bits=Fixed(bits=bits),
            transport=Direct(rank, 2),
            seed=1,
        )
        halo = torch.full((300, 64), torch.nan)
        channel.post(xs[rank], halo, epoch=0).decode()
        return halo

    expected = xs[1 - rank][rows]
    low, high = torch.aminmax(expected, dim=1, keepdim=True)
    answer = {
        "exact": torch.equal(exchanged(Float32(), 32), expected),
        "worst_step": ((exchanged(Stochastic(), 2) - expected).abs() / ((high - low) / 3)).max().item(),
        "sent": int(Path("/sys/class/net/eth0/statistics/tx_bytes").read_text()),
    }
    (folder / f"rank{rank}.json").write_text(json.dumps(answer))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    exchange_rows(Path(sys.argv[1]), int(sys.argv[2]))
