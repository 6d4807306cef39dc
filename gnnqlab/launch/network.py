"""The network that several machines of a run share: checks of address, interface and port. Standard library only."""

from __future__ import annotations

import errno
import ipaddress
import socket

__all__ = ["check_first_machine", "require_interface", "require_port"]


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
