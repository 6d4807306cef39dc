"""Messages through host memory: the same bytes, and reused buffers."""

from __future__ import annotations

import torch

from gnnqlab.message.transport import staging
from gnnqlab.message.transport.staging import HostBuffers, Staged
from gnnqlab.message.transport.transport import TRANSPORTS, make_transport
from tests.cases import each
from tests.ranks import run_ranks


def test_the_smallest_buffer_that_fits_is_used_again():
    host = HostBuffers()
    small, large = host.take(10), host.take(100)
    host.give(large)
    host.give(small)
    assert host.take(8) is small and host.take(8) is large
    assert host.take(8).numel() == 8


def test_a_buffer_is_free_once_the_device_has_copied():
    class Event:
        waited = False

        def synchronize(self):
            self.waited = True

    host, event = HostBuffers(), Event()
    host.give(torch.zeros(4, dtype=torch.uint8), event)
    host.take(4)
    assert event.waited


def staged_exchange(rank, workers, name, lazily):
    """Three exchanges of messages that grow and shrink, staged although they are in host memory already."""
    staging.through_host = lambda device, group: True
    transport = make_transport(name, rank, workers)
    kept, results = [], []
    for size in (40, 80, 24):
        send = {peer: torch.full((size,), 16 * rank + peer, dtype=torch.uint8) for peer in range(workers)}
        del send[rank]
        receive = {peer: torch.zeros(size, dtype=torch.uint8) for peer in send}
        transfer = transport.post(send, receive)
        if not lazily:
            transfer.start()
        transfer.wait()
        results.append([bool((receive[peer] == 16 * peer + rank).all()) for peer in receive])
        kept.append(len(transport._host._free))
    return results, kept


@each("name", sorted(TRANSPORTS))
@each("lazily", [False, True])
def test_staged_bytes_are_the_bytes_sent(name, lazily):
    for results, kept in run_ranks(staged_exchange, 3, name, lazily):
        assert results == [[True, True]] * 3
        assert kept[2] == kept[1]  # the third exchange, a smaller one, allocated no new buffer


def test_staging_on_the_cpu_copies_no_tensors():
    send, receive = {1: torch.ones(3, dtype=torch.uint8)}, {1: torch.zeros(3, dtype=torch.uint8)}
    staged = Staged(send, receive, None, HostBuffers())
    assert not staged.copies and staged.on_host
    assert staged.send[1] is send[1] and staged.receive[1] is receive[1]
    assert Staged({1: torch.empty(0, dtype=torch.uint8)}, {}, None, HostBuffers()).send == {}
