"""The network that several machines of a run share: checks of address, interface and port. Standard library only."""

from __future__ import annotations

import errno
import fcntl
import ipaddress
import socket
import struct
from collections.abc import Sequence

__all__ = [
    "check_first_machine",
    "check_machine_network",
    "interface_address",
    "interface_towards",
    "listen",
    "require_interface",
    "require_port",
    "resolve",
    "split_address",
]

_FAR = "192.0.2.1"
"""An address for documentation, which no machine has (RFC 5737)."""


def require_interface(interface: str) -> None:
    """Raise if this machine has no network interface of a name.

    Raises:
        ValueError: with the interfaces of this machine.
    """
    interfaces = [name for _, name in socket.if_nameindex()]
    if interface not in interfaces:
        raise ValueError(
            f"interface must be one of this machine, {', '.join(interfaces)}, got {interface!r}; choose the one of the "
            "network that joins the machines"
        )


def require_port(address: str, port: int) -> None:
    """Raise if a port of this machine is taken.

    Raises:
        ValueError: with the port.
    """
    with _socket(address) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as the store: a closed connection does not count
        try:
            probe.bind((address, port))
        except OSError as error:
            if error.errno == errno.EADDRNOTAVAIL:
                raise ValueError(
                    f"address must be one of the first machine, got {address}, which this machine does not have; check "
                    "--address, and which machine is the first"
                ) from error
            # Another reason, such as a port below 1024 without the right to open it, has its own text.
            reason = "which another process uses" if error.errno == errno.EADDRINUSE else f"{error.strerror}"
            raise ValueError(
                f"port must be free on the first machine, got {port} of {address}, {reason}; choose another port"
            ) from error


def check_first_machine(address: str, port: int, interface: str) -> None:
    """Raise if this machine is the first of a run, and its interface is missing or its port is taken.

    Another machine's interfaces and ports cannot be seen from here, and a name is not looked up, which can take long.

    Raises:
        ValueError: with interface or port, and the choices.
    """
    if not 1 <= port <= 65535:
        raise ValueError(f"port must lie in [1, 65535], got {port}; choose a free port of the first machine")
    if _is_own(address):
        require_interface(interface)
        require_port(address, port)


def check_machine_network(interface: str, command: Sequence[str], *, is_first: bool) -> None:
    """Raise if a machine of a run has no such interface, or, as the first one, cannot open the run's store.

    A store that cannot be opened where the workers look for it would let all machines wait for many minutes.

    Args:
        interface: network interface of the workers.
        command: torchrun's command line with ``--rdzv-endpoint=HOST:PORT``, or another one.
        is_first: True on the first machine.

    Raises:
        ValueError: with interface, address or port.
    """
    require_interface(interface)
    option = "--rdzv-endpoint="
    endpoint = next((word.removeprefix(option) for word in command if word.startswith(option)), "")
    if endpoint and is_first:
        address, port = split_address(endpoint, 0)
        require_port(resolve(address), port)


def split_address(address: str, port: int) -> tuple[str, int]:
    """Return host and port of an address that may end in a port, as in ``torchrun --rdzv-endpoint``.

    Args:
        address: ``HOST`` or ``HOST:PORT``.
        port: the port of an address without one.

    Raises:
        ValueError: if the port is not a number.

    Example:
        >>> split_address("node1:29400", 29500), split_address("10.0.0.1", 29500), split_address("fd00::1", 29500)
        (('node1', 29400), ('10.0.0.1', 29500), ('fd00::1', 29500))
    """
    host, separator, end = address.rpartition(":")
    if not separator or ":" in host:  # an address of IPv6 has several colons
        return address, port
    if not end.isdecimal():
        raise ValueError(f"address must be HOST or HOST:PORT with a number as port, got {address!r}")
    return host, int(end)


def resolve(address: str) -> str:
    """Return the IPv4 address of a machine's name; an address is returned as it is.

    Raises:
        ValueError: if the name has no address.

    Example:
        >>> resolve("127.0.0.1")
        '127.0.0.1'
    """
    try:
        return address if ":" in address else socket.gethostbyname(address)
    except OSError as error:
        raise ValueError(
            f"address must be that of the first machine, got {address!r}, which has none: {error.strerror}; use its "
            "address in numbers, or a name that all machines know"
        ) from error


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that accepts connections to a port of this machine, the first of a run.

    Raises:
        ValueError: if the address belongs to another machine, or the port is taken.
    """
    target = resolve(address)
    require_port(target, port)
    if ipaddress.ip_address(target).is_loopback and address not in (target, "localhost"):
        target = ""  # many machines map their own name to a loopback address, which others cannot reach
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    return socket.create_server((target, port), family=family)


def interface_address(interface: str) -> str:
    """Return the IPv4 address of a network interface of this machine.

    Example:
        >>> interface_address("lo")
        '127.0.0.1'
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        request = struct.pack("256s", interface.encode()[:15])  # struct ifreq: a name of 15 characters and a zero
        try:
            answer = fcntl.ioctl(probe.fileno(), 0x8915, request)  # SIOCGIFADDR
        except OSError as error:
            raise RuntimeError(
                f"the interface must have an IPv4 address, got {interface!r}: {error.strerror}; "
                f"this machine has {', '.join(name for _, name in socket.if_nameindex())}"
            ) from error
    return socket.inet_ntoa(answer[20:24])  # struct ifreq: 16 bytes of name, family, port, address


def interface_towards(address: str) -> str:
    """Return the network interface over which this machine reaches an address.

    Many machines map their own name to a loopback address; for such a name the interface of the default route counts.

    Args:
        address: address or name of another machine, or of this one.

    Raises:
        ValueError: if the name has no address, or no interface leads to it.

    Example:
        >>> interface_towards("127.0.0.1")
        'lo'
    """
    try:
        target = socket.gethostbyname(address)
        if ipaddress.ip_address(target).is_loopback and address not in (target, "localhost"):
            target = _FAR
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((target, 9))  # of a datagram socket: nothing is sent
            own_address = probe.getsockname()[0]
    except OSError as error:
        raise ValueError(
            f"the address of rank 0 must be reachable from here, got {address}: {error.strerror}; set MASTER_ADDR to "
            "another one, or GLOO_SOCKET_IFNAME to the interface of the workers' network"
        ) from error
    for _, name in socket.if_nameindex():
        try:
            if interface_address(name) == own_address:
                return name
        except RuntimeError:  # without an IPv4 address
            continue
    raise ValueError(f"an interface of this machine must have the address {own_address}; set GLOO_SOCKET_IFNAME")


def _is_own(address: str) -> bool:
    """Return True if an address is one of this machine."""
    try:
        ipaddress.ip_address(address)
    except ValueError:
        return False
    with _socket(address) as probe:
        try:
            probe.bind((address, 0))  # 0: any free port
        except OSError:
            return False
    return True


def _socket(address: str) -> socket.socket:
    return socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
