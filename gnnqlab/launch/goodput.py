"""Sender and receiver of a plain socket transfer, in two processes; ``EmulatedHosts.goodput`` starts them.

``python -m gnnqlab.launch.goodput receive ADDRESS SECONDS`` prints its port, then ``[bytes, seconds]``;
``python -m gnnqlab.launch.goodput send ADDRESS PORT BYTES SECONDS`` sends to it. Standard library only.
"""

import array
import fcntl
import json
import socket
import sys
import termios
import time

__all__ = ["receive", "send"]

_PIECE = 1 << 18  # bytes
_WARM_SHARE = 0.1
"""The first part is not counted: the token bucket starts full, and TCP adapts its window."""


def receive(address: str, limit_s: float) -> tuple[int, float]:
    """Return the bytes received after the first tenth, and their seconds.

    Bytes in the socket's buffer when timing starts are not counted, because they arrived before: a receiver that wakes
    late counts few bytes instead of measuring a rate above that of the link.
    """
    with socket.create_server((address, 0)) as server:
        print(server.getsockname()[1], flush=True)  # the socket listens by now
        server.settimeout(limit_s)
        connection, _ = server.accept()
    buffer = bytearray(_PIECE)
    with connection:
        connection.settimeout(limit_s)
        warm_bytes = int(_WARM_SHARE * int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big"))
        received_bytes, counted_from, start_s = 0, 0, 0.0
        while count := connection.recv_into(buffer):
            received_bytes += count
            if not counted_from and received_bytes >= warm_bytes:
                start_s = time.perf_counter()
                counted_from = received_bytes + _waiting(connection)
        return received_bytes - counted_from, time.perf_counter() - start_s


def _waiting(connection: socket.socket) -> int:
    """Return the number of received bytes in the socket's buffer."""
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]


def send(address: str, port: int, num_bytes: int, limit_s: float) -> None:
    """Send ``num_bytes`` zeros after their count in eight bytes."""
    piece = bytes(_PIECE)
    deadline_s = time.monotonic() + limit_s
    with socket.create_connection((address, port), timeout=limit_s) as connection:
        connection.sendall(num_bytes.to_bytes(8, "big"))
        num_left = num_bytes
        # The timeout of the socket is for one piece; this limit is for all of them.
        while num_left and time.monotonic() < deadline_s:
            connection.sendall(piece[: min(num_left, _PIECE)])
            num_left -= min(num_left, _PIECE)


if __name__ == "__main__":
    if sys.argv[1] == "receive":
        print(json.dumps(receive(sys.argv[2], float(sys.argv[3]))))
    else:
        send(sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5]))
