"""Machines that meet before their workers start: values of all, and one error on all."""

from __future__ import annotations

import errno
import itertools
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from gnnqlab.errors import LaunchRefused
from gnnqlab.launch.meeting import Meeting
from tests.launch.test_cluster import free_port
from tests.slow_down import HANG_S


def together(*machines: Callable[[], Any]) -> list[Any]:
    """Return the result of each machine, or its error."""

    def outcome(machine: Callable[[], Any]) -> Any:
        try:
            return machine()
        except (LaunchRefused, ValueError) as error:
            return error

    with ThreadPoolExecutor(len(machines)) as pool:
        return [future.result(HANG_S) for future in [pool.submit(outcome, machine) for machine in machines]]


def gathered(node: int, nnodes: int, port: int, **settings: Any) -> list[list[Any]]:
    with Meeting(node, nnodes, "127.0.0.1", port, **settings) as meeting:
        return [meeting.all_gather({"node": node}), meeting.all_gather(node * node)]


@pytest.mark.parametrize("nnodes", [1, 2, 3])
def test_all_machines_get_the_values_of_all(nnodes: int) -> None:
    port = free_port()
    expected = [[{"node": node} for node in range(nnodes)], [node * node for node in range(nnodes)]]
    for _ in range(2):  # the port is free again at once
        found = together(*(lambda node=node: gathered(node, nnodes, port) for node in reversed(range(nnodes))))
        assert found == [expected] * nnodes


def test_contradicting_machines_get_one_error() -> None:
    port = free_port()
    found = together(lambda: gathered(0, 2, port), lambda: gathered(1, 3, port))
    assert [str(error) for error in found] == ["all machines must get the same --nnodes, got 2 on machine 0 and 3 on "
                                               "machine 1"] * 2  # fmt: skip
    found = together(lambda: gathered(0, 3, port), lambda: gathered(1, 3, port), lambda: gathered(1, 3, port))
    assert len({str(error) for error in found}) == 1
    assert "every machine must have a --node-rank of its own below 3, got 1 for another one" in str(found[0])


def test_stranger_is_ignored() -> None:
    port = free_port()

    def stranger() -> None:
        for text in (b"GET / HTTP/1.0\r\n\r\n", b'{"node": "x"}\n', b"[1]\n"):
            for _ in range(1000):
                try:
                    with socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
                        connection.sendall(text)
                        connection.recv(100)
                    break
                except OSError:
                    continue

    def machine_1() -> Any:
        stranger()
        return gathered(1, 2, port)

    first, second = together(lambda: gathered(0, 2, port), machine_1)
    assert first == second == [[{"node": 0}, {"node": 1}], [0, 1]]


def test_missing_machine_is_named_at_the_end_of_the_time() -> None:
    seconds = itertools.count(0.0, 10.0)
    with pytest.raises(LaunchRefused, match="all 3 machines must be started within 30 s, got no machine 1, 2; start"):
        Meeting(0, 3, "127.0.0.1", free_port(), join_s=30.0, clock=lambda: next(seconds))
    with pytest.raises(LaunchRefused, match="machine 0 must answer at 127.0.0.1:.*Connection refused; start its"):
        Meeting(1, 3, "127.0.0.1", free_port(), join_s=30.0, clock=lambda: next(seconds))


def test_unreachable_machine_is_given_up_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    seconds = itertools.count(0.0, 4.0)
    with pytest.raises(LaunchRefused, match="machine 0 must answer at 10.9.8.7:29500, got: .*No route to host; start"):
        Meeting(1, 2, "10.9.8.7", 29500, clock=lambda: next(seconds))
    assert next(seconds) <= 24, "ten seconds, not the fifteen minutes in which it may be started"


def test_machine_that_leaves_ends_the_others() -> None:
    port = free_port()

    def leaves() -> None:
        Meeting(1, 2, "127.0.0.1", port).close()

    found = together(lambda: gathered(0, 2, port), leaves)
    assert str(found[0]).startswith("machine 1 must stay until the workers start, got: its connection is closed")


@pytest.mark.parametrize(
    ("node", "address", "text"),
    [
        (0, "192.0.2.1", "address must be one of the first machine, got 192.0.2.1, which this machine does not have"),
        (0, "no-such-name.invalid", "address must be that of the first machine, got 'no-such-name.invalid', which has"),
        (1, "no-such-name.invalid", "address must be that of the first machine, got 'no-such-name.invalid', which has"),
    ],
)
def test_wrong_address_is_refused_at_once(node: int, address: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Meeting(node, 2, address, free_port())


def test_taken_port_is_refused() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(ValueError, match="port must be free on the first machine"):
            Meeting(0, 2, "127.0.0.1", taken.getsockname()[1])
