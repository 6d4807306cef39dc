"""The rendezvous of a run on one machine: a store that listens on the loopback only.

torchrun's ``--standalone`` opens its stores on every interface, ignoring ``--local-addr``, and any process that reaches
a store can impersonate a worker. The workers use the same store; Gloo's own sockets follow ``GLOO_SOCKET_IFNAME``.
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

__all__ = ["Loopback", "register_loopback"]

_BACKEND = "gnnqlab-loopback"
_ADDRESS = "127.0.0.1"
_TIMEOUT = datetime.timedelta(seconds=60)


class Loopback(RendezvousHandler):
    """Rendezvous of a run's only agent, with its store.

    Args:
        parameters: of torchrun.

    Raises:
        ValueError: if the run has several machines.
    """

    def __init__(self, parameters: RendezvousParameters) -> None:
        if parameters.max_nodes != 1:
            raise ValueError(f"the loopback joins workers of one machine only, got {parameters.max_nodes} machines")
        self._run_id = parameters.run_id
        # TCPStore itself binds to all interfaces, but accepts a socket that is already bound.
        listener = socket.socket()
        listener.bind((_ADDRESS, 0))
        port = listener.getsockname()[1]  # chosen by the kernel
        self._store = TCPStore(
            _ADDRESS, port, is_master=True, timeout=_TIMEOUT, multi_tenant=True, master_listen_fd=listener.detach()
        )

    @property
    def use_agent_store(self) -> bool:
        """True: workers join through the agent's store."""
        return True

    def get_backend(self) -> str:
        """Return the name of this rendezvous in torchrun's options."""
        return _BACKEND

    def next_rendezvous(self) -> RendezvousInfo:
        """Return rank 0 of 1 at once, because there is no other agent to wait for."""
        store_info = RendezvousStoreInfo(_ADDRESS, self._store.port)
        return RendezvousInfo(PrefixStore(self._run_id, self._store), 0, 1, store_info)

    def is_closed(self) -> bool:
        """Return False; workers are never restarted, so it makes no difference."""
        return False

    def set_closed(self) -> None:
        """Do nothing; there is no other agent to notify."""

    def num_nodes_waiting(self) -> int:
        """Return 0; there is no other agent."""
        return 0

    def get_run_id(self) -> str:
        """Return the run id of torchrun's options."""
        return self._run_id

    def shutdown(self) -> bool:
        """Return True; the store ends with the agent."""
        return True


def register_loopback(arguments: Iterable[str]) -> list[str]:
    """Register the rendezvous; return torchrun's arguments with it in place of ``--standalone``, for this process."""
    rendezvous_handler_registry.register(_BACKEND, Loopback)
    # torchrun requires an endpoint, but the store above has chosen its own port.
    options = [f"--rdzv-backend={_BACKEND}", f"--rdzv-endpoint={_ADDRESS}:0", f"--rdzv-id={uuid.uuid4()}"]
    return [word for argument in arguments for word in (options if argument == "--standalone" else [argument])]
