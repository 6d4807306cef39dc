"""The link of a run: made before its workers start, taken down after their end. Standard library only.

    guard --> hosts (network namespaces) and their janitor
          --> torchrun agent --> workers, each of which enters the namespace of its host

Where the machine does not allow namespaces the workers stay on its loopback and are slowed down to the rate, and
every summary says so.
"""

import ctypes
import os
from pathlib import Path
from typing import Any

from gnnqlab.launch.emulated import EmulatedHosts
from gnnqlab.run import folder as files
from gnnqlab.train.link import INTERFACE, Link

__all__ = ["RunLink", "enter"]

_CLONE_NEWNET = 0x40000000


class RunLink:
    """Makes the link that a run's settings ask for.

    Args:
        folder: the run folder; the link is described in its ``link.json``.
        launch: the launch settings, as in ``config.json``.
    """

    def __init__(self, folder: Path, launch: dict[str, Any]) -> None:
        self._folder = folder
        self._hosts, self._link, self._wire = launch["hosts"], launch["link"], launch["wire"]
        self._emulated: EmulatedHosts | None = None

    @property
    def spared(self) -> frozenset[int]:
        """Processes that stay until the link is down."""
        janitor = None if self._emulated is None else self._emulated.janitor
        return frozenset() if janitor is None else frozenset([janitor])

    def up(self) -> None:
        """Make the link and describe it.

        Raises:
            RuntimeError: if it has to be emulated and this machine does not allow that.
        """
        if self._hosts == 1:
            return
        reason = "it was asked for"
        if self._wire != "paced":
            try:
                return self._emulate()
            except RuntimeError as error:
                if self._wire == "emulated":
                    raise
                reason = str(error)
        Link(kind="paced", hosts=self._hosts, name=self._link, reason=reason).write(self._folder)
        files.append_event(self._folder, "paced link", link=self._link, text=reason)

    def down(self) -> None:
        """Take it down; also if it never was up."""
        if self._emulated is not None:
            self._emulated.down()

    def _emulate(self) -> None:
        self._emulated = hosts = EmulatedHosts(self._hosts, self._link)
        try:
            hosts.up()
            goodput = hosts.goodput(seconds=0.1)
        except RuntimeError:
            hosts.down()
            raise
        link = Link(
            kind="emulated",
            hosts=self._hosts,
            name=self._link,
            namespaces=hosts.namespaces,
            goodput=round(goodput.measured, 1),
        )
        link.write(self._folder)
        files.append_event(self._folder, "emulated link", link=self._link, goodput_share=round(goodput.share, 4))


def enter(namespace: str) -> None:
    """Move this thread, and threads it starts from now on, into the network of an emulated host.

    Sockets that are open stay where they are.

    Raises:
        RuntimeError: if the host is gone, or this process has not the right.
    """
    try:
        descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(f"the emulated host {namespace} must be up, got {error.strerror}") from error
    libc = ctypes.CDLL(None, use_errno=True)
    failed = libc.setns(descriptor, _CLONE_NEWNET)
    number = ctypes.get_errno()
    os.close(descriptor)
    if failed:
        raise RuntimeError(f"a worker must be allowed to enter {namespace}, got {os.strerror(number)}")
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE
