"""The rendezvous of a run on one machine: a store that listens on the loopback and nowhere else.

torchrun's ``--standalone`` opens its stores on every interface, whatever ``--local-addr`` says, and whoever reaches a
store can speak for any worker. The workers use the same store; Gloo's own sockets go by ``GLOO_SOCKET_IFNAME``.
"""

import datetime
import socket
import uuid
from collections.abc import Iterable

from torch.distributed import PrefixStore, TCPStore
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStoreInfo,
    rendezvous_handler_registry,
)

__all__ = ["Loopback", "alone"]

_BACKEND = "gnnqlab-loopback"
_ADDRESS = "127.0.0.1"
_TIMEOUT = datetime.timedelta(seconds=60)


class Loopback(RendezvousHandler):
    """The one agent of a run and its store.

    Args:
        parameters: what torchrun was told.

    Raises:
        ValueError: if there shall be several machines.
    """

    def __init__(self, parameters: RendezvousParameters) -> None:
        if parameters.max_nodes != 1:
            raise ValueError(f"the loopback joins the workers of one machine, got {parameters.max_nodes} machines")
        self._run_id = parameters.run_id
        # TCPStore binds to all interfaces, but takes a socket that is bound already.
        listening = socket.socket()
        listening.bind((_ADDRESS, 0))
        port = listening.getsockname()[1]
        self._store = TCPStore(
            _ADDRESS, port, is_master=True, timeout=_TIMEOUT, multi_tenant=True, master_listen_fd=listening.detach()
        )

    @property
    def use_agent_store(self) -> bool:
        """True: workers join by the agent's store."""
        return True

    def get_backend(self) -> str:
        """Name by which torchrun is told to use it."""
        return _BACKEND

    def next_rendezvous(self) -> RendezvousInfo:
        """Nobody else comes: there is nothing to wait for."""
        place = RendezvousStoreInfo(_ADDRESS, self._store.port)
        return RendezvousInfo(PrefixStore(self._run_id, self._store), 0, 1, place)

    def is_closed(self) -> bool:
        """Workers are never started twice, so it makes no difference."""
        return False

    def set_closed(self) -> None:
        """Nobody else is to be told."""

    def num_nodes_waiting(self) -> int:
        """None: nobody else comes."""
        return 0

    def get_run_id(self) -> str:
        """The id that torchrun was given."""
        return self._run_id

    def shutdown(self) -> bool:
        """The store ends with the agent."""
        return True


def alone(arguments: Iterable[str]) -> list[str]:
    """Return torchrun's arguments with ``--standalone`` read as: on the loopback; for torchrun in this process."""
    rendezvous_handler_registry.register(_BACKEND, Loopback)
    here = [f"--rdzv-backend={_BACKEND}", f"--rdzv-endpoint={_ADDRESS}:0", f"--rdzv-id={uuid.uuid4()}"]
    return [word for given in arguments for word in (here if given == "--standalone" else [given])]
