"""Emulated hosts on one machine: network namespaces joined by links of a given rate.

    two hosts     host 0 ===== host 1                  a veth pair, shaped at both ends
    more          host 0 ===== switch ===== host 1     a bridge in its own namespace, all ends shaped
                                 ‖
                              host 2

Sockets, bytes and the bottleneck are real; only the latency of distance is missing. Nothing outside the namespaces is
changed: every link is created inside them. Their names contain the pid and start time of their owner, and a small
janitor process removes them when the owner has ended for any reason. Standard library only.

Two settings keep the rate accurate (measured for a 1 Gbit link, 1.4 to 20 MB in both directions at once over Gloo):

* Frames of at most half a millisecond, and a token bucket (``tc tbf``) of little more than one frame: small frames cost
  processor time that a network card would not take (16 % of an epoch at 1500 bytes, 2 % at 60 000), and a large bucket
  makes small messages faster than the link.
* TCP without slow start after a pause, and Reno, which does not reduce its window on a link without loss: with the
  default settings each burst after a pause was up to 12 % slower than the rate.
"""

import contextlib
import dataclasses
import itertools
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

from gnnqlab.launch.worker_target import import_path
from gnnqlab.run import processes
from gnnqlab.train.link import INTERFACE, MAX_HOSTS, parse_link

__all__ = ["EmulatedHosts", "Goodput", "available", "leftovers", "remove_leftovers"]

_NAMESPACES = Path("/run/netns")
_NAME = re.compile(r"gnnq-(?P<pid>\d+)-(?P<start>\d+)-\d+-(h\d+|switch)")
_MTU = (1_500, 60_000)  # bounds of a frame, bytes
_FRAME_S = 0.5e-3  # duration of a frame on the link
_WAKE_S = 0.1e-3
"""Allowance for a late timer of the bucket: with space for one frame only, the link lost 3 % of its rate."""
_QUEUE_S = 0.4  # longest wait in the queue of a link; beyond it frames are dropped
_ATTEMPTS = 5
_MAX_BYTES = 64_000_000  # of a goodput measurement
_COUNTER = itertools.count()


def available() -> str | None:
    """Return the reason why this machine cannot emulate hosts, ``None`` if it can; tests it with temporary hosts."""
    if not sys.platform.startswith("linux"):
        return f"network namespaces need Linux, this is {sys.platform}"
    missing_commands = [command for command in ("ip", "tc") if shutil.which(command) is None]
    if missing_commands:
        return f"missing command: {', '.join(missing_commands)}; install iproute2"
    if os.geteuid() != 0:
        return "network namespaces need root"
    hosts = EmulatedHosts(2, "1gbit")
    try:
        hosts.up()
    except RuntimeError as error:
        return str(error)
    finally:
        hosts.down()
    return None


@dataclasses.dataclass(frozen=True)
class Goodput:
    """Measured rate of a plain socket over a link and nominal rate, in bytes per second."""

    measured: float
    nominal: float

    @property
    def share(self) -> float:
        """Goodput divided by nominal rate; slightly below 1, because frames have headers."""
        return self.measured / self.nominal


class EmulatedHosts:
    """Hosts 0 to ``hosts - 1``, each a network namespace with one interface; up inside a ``with`` block.

    Args:
        hosts: number of hosts, 2 to 64.
        link: rate of every host's link in each direction, for instance ``1gbit``.

    Raises:
        ValueError: if there are too few or too many hosts, or the link is invalid.

    Example:
        >>> EmulatedHosts(2, "1gbit").frame_bytes, EmulatedHosts(2, "10mbit").frame_bytes
        (60000, 1500)
    """

    def __init__(self, hosts: int, link: str) -> None:
        if not 2 <= hosts <= MAX_HOSTS:
            raise ValueError(f"emulated hosts must number 2 to {MAX_HOSTS}, got {hosts}")
        self.hosts, self.link = hosts, link
        self.rate = parse_link(link)
        self._names: list[str] = []
        self._janitor: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def __enter__(self) -> Self:
        self.up()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.down()

    @property
    def frame_bytes(self) -> int:
        """Longest frame (MTU): the bytes that the link sends in half a millisecond, within bounds."""
        min_bytes, max_bytes = _MTU
        return max(min_bytes, min(max_bytes, int(self.rate / 8 * _FRAME_S)))

    @property
    def burst_bytes(self) -> int:
        """Token bucket of the rate limit: bytes that an idle link sends at once, slightly more than one frame."""
        # The MTU is without the header of a frame, and a bucket smaller than a frame lets none pass.
        return self.frame_bytes + 64 + int(self.rate / 8 * _WAKE_S)

    # -- up and down ----------------------------------------------------------------------------------------------

    def up(self) -> None:
        """Create namespaces and links, after removing those of owners that have ended.

        Raises:
            RuntimeError: if the machine does not allow it.
        """
        if self._names:
            return
        remove_leftovers()
        own_pid = os.getpid()
        # Pid and start time of the owner, so that leftovers of a dead one are recognised.
        prefix = f"gnnq-{own_pid}-{processes.start_time(own_pid)}-{next(_COUNTER)}"
        self._owner = own_pid
        self._names = [f"{prefix}-h{host}" for host in range(self.hosts)]
        if self.hosts > 2:
            self._names.append(f"{prefix}-switch")
        try:
            self._janitor = _start_janitor(self._names)  # before anything it would have to remove exists
            for name in self._names:
                _run("ip", "netns", "add", name)
            self._join()
            for host in range(self.hosts):
                self._configure(host)
            self.shape(self.link)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """Remove everything, also after a failed or repeated call; does nothing in a forked child of the owner."""
        names, self._names = self._names, []
        janitor, self._janitor = self._janitor, None
        if self._owner != os.getpid():
            return
        _remove(names)
        if janitor is not None:
            assert janitor.stdin is not None
            janitor.stdin.close()  # it checks the namespaces once more and ends
            janitor.wait()

    def shape(self, link: str) -> None:
        """Set the rate of all links; open connections continue."""
        self.rate, self.link = parse_link(link), link
        for name, interface in self._ends():
            _run("ip", "-n", name, "link", "set", interface, "mtu", str(self.frame_bytes))
            limit = ("burst", str(self.burst_bytes), "latency", f"{_QUEUE_S * 1e3:.0f}ms")
            rate = ("rate", f"{self.rate}bit")
            _run("tc", "-n", name, "qdisc", "replace", "dev", interface, "root", "tbf", *rate, *limit)

    def _join(self) -> None:
        if self.hosts == 2:
            first, second = self._names
            _wire(first, INTERFACE, second, INTERFACE)
            return
        switch = self._names[-1]
        _run("ip", "-n", switch, "link", "add", "switch", "type", "bridge")
        _run("ip", "-n", switch, "link", "set", "switch", "up")
        for host in range(self.hosts):
            _wire(self._names[host], INTERFACE, switch, f"port{host}")
            _run("ip", "-n", switch, "link", "set", f"port{host}", "master", "switch")
            _run("ip", "-n", switch, "link", "set", f"port{host}", "up")

    def _configure(self, host: int) -> None:
        name = self._names[host]
        _run("ip", "-n", name, "link", "set", "lo", "up")
        _run("ip", "-n", name, "address", "add", f"{self.address(host)}/24", "dev", INTERFACE)
        _run("ip", "-n", name, "link", "set", INTERFACE, "up")
        settings = {"tcp_congestion_control": "reno", "tcp_slow_start_after_idle": "0"}
        text = "; ".join(f"echo {value} > /proc/sys/net/ipv4/{key}" for key, value in settings.items())
        _run(*self.command(host, ["sh", "-ec", text]))

    def _ends(self) -> list[tuple[str, str]]:
        """Return both ends of all links, as namespace and interface."""
        ends = [(name, INTERFACE) for name in self._names[: self.hosts]]
        if self.hosts > 2:
            ends += [(self._names[-1], f"port{host}") for host in range(self.hosts)]
        return ends if self._names else []

    # -- use ------------------------------------------------------------------------------------------------------

    def command(self, host: int, argv: list[str]) -> list[str]:
        """Return the command line that runs ``argv`` on a host.

        Raises:
            RuntimeError: if the hosts are not up.
        """
        self._check(host)
        if not self._names:
            raise RuntimeError("emulated hosts must be up to run a command; use them in a with block, or call up()")
        return ["ip", "netns", "exec", self._names[host], *argv]

    @property
    def namespaces(self) -> tuple[str, ...]:
        """Network namespace of each host, while they are up."""
        return tuple(self._names[: self.hosts])

    @property
    def janitor(self) -> int | None:
        """Pid of the janitor while the hosts are up; it must outlive the owner, to remove the namespaces."""
        return None if self._janitor is None else self._janitor.pid

    def address(self, host: int) -> str:
        """Return the IPv4 address of a host, reachable from the other hosts only."""
        self._check(host)
        return f"10.99.0.{host + 1}"

    def interface(self, host: int) -> str:
        """Return the name of the host's interface to the link (``GLOO_SOCKET_IFNAME``)."""
        self._check(host)
        return INTERFACE

    def goodput(self, source: int = 0, target: int = 1, *, seconds: float = 0.3) -> Goodput:
        """Measure a link with a plain socket transfer of about ``seconds`` at its nominal rate, 64 MB at most.

        On a busy machine the receiver may wake so late that most bytes are already in its buffer: then the transfer is
        repeated with twice the bytes, up to five times.

        Raises:
            RuntimeError: if a transfer fails, takes twenty times its nominal time, or cannot be measured.
        """
        # At least twenty buckets, so that the full bucket at the start hardly matters.
        num_bytes = int(min(_MAX_BYTES, max(20 * self.burst_bytes, self.rate / 8 * seconds)))
        for attempt in range(_ATTEMPTS):
            timed_bytes, took_s = self._time_transfer(source, target, min(num_bytes << attempt, _MAX_BYTES))
            if timed_bytes > num_bytes / 2:
                return Goodput(measured=timed_bytes / took_s, nominal=self.rate / 8)
        raise RuntimeError(
            f"at least half of {num_bytes} bytes must be timed on a link of {self.link}, got {timed_bytes} in attempt "
            f"{_ATTEMPTS}: the processors are too busy for the measurement"
        )

    def _time_transfer(self, source: int, target: int, num_bytes: int) -> tuple[int, float]:
        """Return the timed bytes of a transfer, and their seconds."""
        seconds = num_bytes * 8 / self.rate
        limit_s = 5 + 20 * seconds
        script = [sys.executable, "-m", "gnnqlab.launch.goodput"]
        environment = os.environ | import_path()
        with contextlib.ExitStack() as stack:
            receiver = stack.enter_context(
                _transfer(self.command(target, [*script, "receive", self.address(target), str(limit_s)]), environment)
            )
            assert receiver.stdout is not None
            # Printed once the receiver listens, so the sender is never too early.
            port = receiver.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"emulated host {target} must open a socket, got none: {_errors(receiver)}")
            arguments = ["send", self.address(target), port, str(num_bytes), str(limit_s)]
            sender = stack.enter_context(_transfer(self.command(source, [*script, *arguments]), environment))
            try:
                answer, _ = receiver.communicate(timeout=limit_s + 5)
                sender.wait(timeout=5)
            except subprocess.TimeoutExpired as error:
                raise RuntimeError(
                    f"{num_bytes} bytes must cross a link of {self.link} within {limit_s:.0f} s, got a timeout"
                ) from error
            if receiver.returncode or sender.returncode:
                raise RuntimeError(f"a transfer over a link of {self.link} must succeed, got {_errors(sender)}")
        timed_bytes, took_s = json.loads(answer)
        return timed_bytes, took_s

    def _check(self, host: int) -> None:
        if not 0 <= host < self.hosts:
            raise ValueError(f"host must lie in [0, {self.hosts}), got {host}")


def leftovers() -> list[str]:
    """Return the namespaces of emulated hosts whose owner has ended."""
    matches = {name: _NAME.fullmatch(name) for name in (os.listdir(_NAMESPACES) if _NAMESPACES.is_dir() else [])}
    return sorted(
        name
        for name, parts in matches.items()
        if parts and not processes.is_alive(int(parts["pid"]), int(parts["start"]))
    )


def remove_leftovers() -> list[str]:
    """Remove the namespaces of owners that have ended; return their names."""
    names = leftovers()
    _remove(names)
    return names


def _wire(first: str, first_end: str, second: str, second_end: str) -> None:
    peer = ("peer", "name", second_end, "netns", second)
    _run("ip", "link", "add", first_end, "netns", first, "type", "veth", *peer)


def _remove(names: list[str]) -> None:
    """Delete links and namespaces, if they exist."""
    for name in names:
        if (_NAMESPACES / name).exists():
            # A running process would keep its namespace alive, so its link is deleted explicitly.
            subprocess.run(["ip", "-n", name, "link", "delete", INTERFACE], capture_output=True)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)


def _run(*command: str) -> None:
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise RuntimeError(f"emulated hosts need the command {command[0]}, got {error}; install iproute2") from error
    except subprocess.CalledProcessError as error:
        raise RuntimeError(
            f"emulated hosts need the right to run {' '.join(command)!r}, got {error.stderr.strip() or error}"
        ) from error


@contextlib.contextmanager
def _transfer(command: list[str], environment: dict[str, str]) -> Iterator["subprocess.Popen[str]"]:
    """Start a process with its output in pipes; kill it at the end of the block if it still runs."""
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def _errors(process: subprocess.Popen[str]) -> str:
    process.kill()
    _, errors = process.communicate()
    return errors.strip().splitlines()[-1] if errors.strip() else f"exit code {process.returncode}"


# -- the janitor --------------------------------------------------------------------------------------------------


def _start_janitor(names: list[str]) -> subprocess.Popen[bytes]:
    owner = f"{os.getpid()}:{processes.start_time(os.getpid())}"
    return subprocess.Popen(
        [sys.executable, "-m", "gnnqlab.launch.emulated", owner, *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C in a terminal must reach the owner only
        env=os.environ | import_path(),
    )


def _janitor(owner: str, names: list[str]) -> None:
    """Wait until the owner ends or closes its pipe, then remove the namespaces."""
    # A signal to the whole session or machine must not end it before its owner.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    # A forked child may hold the pipe open, so the owner's pid is monitored as well.
    pid, start = map(int, owner.split(":"))
    pidfd = processes.open_pidfd(pid, start)
    if pidfd is not None:
        poll.register(pidfd, select.POLLIN)
    # Once a second the pid is checked as well, because pidfds may not be supported.
    while processes.is_alive(pid, start) and not poll.poll(1000):
        pass
    _remove(names)


if __name__ == "__main__":
    _janitor(sys.argv[1], sys.argv[2:])
