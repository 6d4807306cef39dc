"""Times transfers between workers, for the cost model ``seconds = θ · bytes + γ`` of each device pair."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gnnqlab.message.transport.transport import Direct, Transport

__all__ = ["SIZES", "held_bytes", "sizes_up_to", "time_transfers"]

SIZES = (4 * 2**10, 64 * 2**10, 512 * 2**10)
"""Bytes of the timed messages: from where latency rules to where the rate does. Few, because training waits for
them; what its own messages take is learnt from those."""
_LEAST = 64 * 2**10
"""Bytes that the largest of them has in any case: below, a line would be drawn through latencies alone."""


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """Return the bytes of messages that tell what those of a training take, the largest no larger than its largest.

    A training of small messages over a slow link would else stand still for many epochs' time while half a megabyte
    travels five times over each pair.

    Args:
        largest: bytes of the largest message; the same number on all workers.

    Example:
        >>> sizes_up_to(80_000), sizes_up_to(10**9) == SIZES
        ((625, 10000, 80000), True)
    """
    top = min(max(largest, _LEAST), SIZES[-1])
    return tuple(top * size // SIZES[-1] for size in SIZES)


def held_bytes(sizes: tuple[int, ...]) -> int:
    """Return the bytes of buffers that :func:`time_transfers` holds at most on one worker.

    A message of the largest size each way, while those of the size before are not freed yet.

    Args:
        sizes: bytes of the messages, ascending.

    Example:
        >>> held_bytes((1, 10, 100))
        220
    """
    return 2 * sum(sizes[-2:])


def time_transfers(
    rank: int,
    workers: int,
    *,
    transport: Transport | None = None,
    sizes: tuple[int, ...] = SIZES,
    repeats: int = 5,
) -> dict[int, list[tuple[int, float]]]:
    """Time messages of several sizes in ring rounds: in round k, rank r sends to r + k and receives from r − k.

    Args:
        rank: this worker.
        workers: P; every worker must call this together.
        transport: moves the messages; by default :class:`Direct`.
        sizes: bytes of the messages.
        repeats: transfers of each size; at least five, because one sample is noise.

    Returns:
        For each sender the ``(bytes, seconds)`` of its messages as this worker, their receiver, saw them.

    Raises:
        ValueError: if there are fewer than five repeats.
    """
    if repeats < 5:
        raise ValueError(f"repeats must be at least 5, for medians that hold, got {repeats}")
    transport = transport or Direct(rank, workers)
    seen: dict[int, list[tuple[int, float]]] = {}
    for k in range(1, workers):
        source, target = (rank - k) % workers, (rank + k) % workers
        dist.barrier()  # once: whoever has both sent and received a message is as far as its neighbours
        for size in sizes:
            outgoing, incoming = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
            for _ in range(repeats):
                transfer = transport.post({target: outgoing}, {source: incoming})
                transfer.wait()
                seen.setdefault(source, []).append((size, transfer.seconds[source]))
    return seen
