"""The link of a run: created before its workers start, removed after their end. Standard library only.

    guard --> hosts (network namespaces) and their janitor
          --> torchrun agent --> workers, each of which enters the namespace of its host

If the machine does not allow namespaces, the workers use its loopback, throttled to the rate, and every summary
reports a paced link.
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
    """Link of a run, created from its launch settings.

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
        """Pids of processes that must run until the link is down."""
        janitor = None if self._emulated is None else self._emulated.janitor
        return frozenset() if janitor is None else frozenset([janitor])

    def up(self) -> None:
        """Create the link and write its description.

        Raises:
            RuntimeError: if it must be emulated and this machine does not allow that.
        """
        if self._hosts == 1:
            return
        reason = "requested by the setting wire"
        if self._wire != "paced":
            try:
                return self._emulate()
            except RuntimeError as error:
                if self._wire == "emulated":
                    raise
                reason = str(error)  # `auto`: use a paced link instead
        Link(kind="paced", hosts=self._hosts, name=self._link, reason=reason).write(self._folder)
        files.append_event(self._folder, "paced link", link=self._link, text=reason)

    def down(self) -> None:
        """Remove the link, if it is up."""
        if self._emulated is not None:
            self._emulated.down()

    def _emulate(self) -> None:
        self._emulated = hosts = EmulatedHosts(self._hosts, self._link)
        try:
            hosts.up()
            # A short transfer measures the rate that is really reached; link.json records it next to the nominal one.
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
    """Move this thread, and threads it starts from now on, into the network namespace of an emulated host.

    Open sockets remain in their old namespace.

    Raises:
        RuntimeError: if the host does not exist, or this process lacks permission.
    """
    try:
        descriptor = os.open(f"/run/netns/{namespace}", os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise RuntimeError(f"the emulated host {namespace} must be up, got {error.strerror}") from error
    libc = ctypes.CDLL(None, use_errno=True)
    status = libc.setns(descriptor, _CLONE_NEWNET)
    number = ctypes.get_errno()
    os.close(descriptor)
    if status:
        raise RuntimeError(f"a worker must be allowed to enter {namespace}, got {os.strerror(number)}")
    os.environ["GLOO_SOCKET_IFNAME"] = INTERFACE  # Gloo must use the interface to the other hosts
