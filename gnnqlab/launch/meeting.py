"""Exchange of plain values between the machines of a run before its workers start. Standard library only.

The first machine listens at the address and port of the run, the others connect to it; every message is one line of
JSON. Machines are started by hand, one after the other, so all wait for the last one. Afterwards the port is free
again, for the store of the workers.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn

from gnnqlab.errors import LaunchRefused
from gnnqlab.launch.network import listen, resolve

__all__ = ["Meeting"]

_JOIN_S = 900.0
"""Time for all machines to be started."""
_ANSWER_S = 60.0
"""Time for a machine that has joined to answer."""
_REACH_S = 10.0
"""Time to reach the first machine's network; a machine that refuses connections may not have been started yet."""
_POLL_S = 0.2
_MOST_BYTES = 1 << 20
"""Longest line: a run's settings have a few thousand bytes."""


class Meeting:
    """Connection of this machine to the other machines of its run.

    Args:
        node: number of this machine, 0 for the first.
        nnodes: number of machines.
        address: address or name of the first machine.
        port: a free port of the first machine.
        join_s: seconds to wait for all machines.
        give_up: called while the first machine does not answer; returns its error, empty if it may still come.
        clock: returns monotonic seconds.

    Raises:
        ValueError: if the address has no machine, or is not the first machine's own, or the port is taken.
        LaunchRefused: if a machine is missing at the end of the time, or contradicts the others.
    """

    def __init__(
        self,
        node: int,
        nnodes: int,
        address: str,
        port: int,
        *,
        join_s: float = _JOIN_S,
        give_up: Callable[[], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._node, self._nnodes, self._place = node, nnodes, f"{address}:{port}"
        self._clock, self._deadline_s = clock, clock() + join_s
        self._join_s, self._give_up = join_s, give_up
        self._peers: dict[int, _Line] = {}
        """Connections by machine: on the first machine to all others, elsewhere to the first."""
        try:
            if node == 0:
                self._accept_all(address, port)
            else:
                self._connect(address, port)
        except BaseException:
            self.close()
            raise

    def all_gather(self, value: object) -> list[Any]:
        """Return the values of all machines, in the order of their numbers, on all of them.

        Args:
            value: a value that JSON can hold.

        Raises:
            LaunchRefused: if a machine has left or does not answer.
        """
        if self._node == 0:
            values = [json.loads(json.dumps(value)), *(self._receive(other) for other in range(1, self._nnodes))]
            for other in self._peers:
                self._send(other, {"values": values})
            return values
        self._send(0, value)
        return list(self._receive(0)["values"])

    def close(self) -> None:
        """Close all connections; the first machine's last, so that no connection of the port remains there."""
        for line in self._peers.values():
            if self._node == 0:
                line.wait_for_end()
            line.close()
        self._peers.clear()

    def __enter__(self) -> Meeting:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # -- the first machine ----------------------------------------------------------------------------------------

    def _accept_all(self, address: str, port: int) -> None:
        with listen(address, port) as listener:
            listener.settimeout(_POLL_S)
            self._announce()
            while len(self._peers) < self._nnodes - 1:
                with contextlib.suppress(TimeoutError):
                    self._welcome(_Line(listener.accept()[0]))
                if self._clock() > self._deadline_s:
                    missing = sorted(set(range(1, self._nnodes)) - self._peers.keys())
                    self._refuse_all(
                        f"all {self._nnodes} machines must be started within {self._join_s:.0f} s, got no machine "
                        f"{', '.join(map(str, missing))}; start the same command there, with its --node-rank"
                    )
        for other in self._peers:
            self._send(other, {"joined": True})

    def _welcome(self, line: _Line) -> None:
        """Add a machine that has connected; a stranger's connection is closed."""
        try:
            hello = line.receive(_REACH_S)
        except (OSError, ValueError):
            return line.close()
        if not isinstance(hello, dict) or type(node := hello.get("node")) is not int or "nnodes" not in hello:
            return line.close()
        twice = node in self._peers or node == 0
        self._peers[len(self._peers) + self._nnodes if twice else node] = line  # which gets a refusal below
        if hello["nnodes"] != self._nnodes:
            self._refuse_all(
                f"all machines must get the same --nnodes, got {self._nnodes} on machine 0 and {hello['nnodes']} on "
                f"machine {node}"
            )
        if twice or not 0 < node < self._nnodes:
            self._refuse_all(
                f"every machine must have a --node-rank of its own below {self._nnodes}, got {node} for another one"
            )

    def _refuse_all(self, text: str) -> NoReturn:
        """Send the cause to the machines that have joined, and raise it."""
        for other in self._peers:
            with contextlib.suppress(LaunchRefused):
                self._send(other, {"refused": text})
        raise LaunchRefused(text)

    # -- the other machines ---------------------------------------------------------------------------------------

    def _connect(self, address: str, port: int) -> None:
        target, unreachable_s = resolve(address), self._clock() + _REACH_S
        is_announced = False
        while 0 not in self._peers:
            if text := self._give_up():
                raise LaunchRefused(f"machine 0: {text}")
            try:
                self._peers[0] = _Line(socket.create_connection((target, port), timeout=_REACH_S))
            except OSError as error:
                # A machine that refuses a connection can be reached; its command may not have been started yet.
                limit_s = self._deadline_s if isinstance(error, ConnectionRefusedError) else unreachable_s
                if self._clock() > limit_s:
                    raise LaunchRefused(
                        f"machine 0 must answer at {self._place}, got: {error}; start its command, and check --address "
                        "and the firewall"
                    ) from error
                if not is_announced:
                    self._announce()
                    is_announced = True
                time.sleep(_POLL_S)
        self._send(0, {"node": self._node, "nnodes": self._nnodes})
        # The first machine answers when all have joined.
        answer = self._receive(0, max(self._deadline_s - self._clock(), _ANSWER_S))
        if "refused" in answer:
            raise LaunchRefused(str(answer["refused"]))

    def _announce(self) -> None:
        others = "the other machines" if self._node == 0 else "machine 0"
        print(
            f"machine {self._node} of {self._nnodes} waits for {others} at {self._place}", file=sys.stderr, flush=True
        )

    # -- messages -------------------------------------------------------------------------------------------------

    def _send(self, other: int, value: object) -> None:
        try:
            self._peers[other].send(value)
        except OSError as error:
            self._lose(other, error)

    def _receive(self, other: int, limit_s: float = _ANSWER_S) -> Any:
        try:
            return self._peers[other].receive(limit_s)
        except (OSError, ValueError) as error:
            self._lose(other, error)

    def _lose(self, other: int, error: Exception) -> NoReturn:
        raise LaunchRefused(
            f"machine {other} must stay until the workers start, got: {error}; see the output of its command"
        ) from error


class _Line:
    """One connection, with one JSON value per line."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._rest = b""

    def send(self, value: object) -> None:
        self._connection.settimeout(_ANSWER_S)
        self._connection.sendall(json.dumps(value).encode() + b"\n")

    def receive(self, timeout_s: float) -> Any:
        """Return the next value.

        Raises:
            OSError: if the other side has left (``ConnectionError``) or sends nothing in time (``TimeoutError``).
            ValueError: if the line is not JSON, or too long.
        """
        deadline_s = time.monotonic() + timeout_s
        while b"\n" not in self._rest:
            self._connection.settimeout(max(deadline_s - time.monotonic(), 0.001))
            piece = self._connection.recv(1 << 16)
            if not piece:
                raise ConnectionResetError("its connection is closed")
            self._rest += piece
            if len(self._rest) > _MOST_BYTES:
                raise ValueError(f"a line must have at most {_MOST_BYTES} bytes")
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def wait_for_end(self) -> None:
        """Wait until the other side has closed the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_WR)
            self._connection.settimeout(_REACH_S)
            while self._connection.recv(1 << 16):
                pass

    def close(self) -> None:
        self._connection.close()
