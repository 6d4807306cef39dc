"""Time transfers between workers, for the cost model ``seconds = θ · bytes + γ`` of each device pair."""

from __future__ import annotations

import torch
import torch.distributed as dist

from gnnqlab.message.transport.transport import Direct, Transport

__all__ = ["SIZES", "held_bytes", "sizes_up_to", "time_transfers"]

SIZES = (4 * 2**10, 64 * 2**10, 512 * 2**10)
"""Bytes of the timed messages, from latency-bound to bandwidth-bound. Few, because training waits for them; the times
of training's own messages refine the model later."""
_LEAST = 64 * 2**10
"""Minimum bytes of the largest timed message; with less the line would be fitted to latencies only."""


def sizes_up_to(largest: int) -> tuple[int, ...]:
    """Return the message sizes to time for a training whose largest message has ``largest`` bytes.

    Larger sizes would stall a training of small messages on a slow link: each pair transfers every size five times.

    Args:
        largest: bytes of the largest message; equal on all workers.

    Example:
        >>> sizes_up_to(80_000), sizes_up_to(10**9) == SIZES
        ((625, 10000, 80000), True)
    """
    largest_size = min(max(largest, _LEAST), SIZES[-1])
    return tuple(largest_size * size // SIZES[-1] for size in SIZES)  # the proportions of SIZES


def held_bytes(sizes: tuple[int, ...]) -> int:
    """Return the maximum bytes of the buffers of :func:`time_transfers` on one worker.

    A send and a receive buffer of the largest size, while those of the previous size are not freed yet.

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
        workers: P; the call is collective over all workers.
        transport: transport of the messages; by default :class:`Direct`.
        sizes: bytes of the messages.
        repeats: transfers of each size, at least five, because single times vary.

    Returns:
        Sender -> ``(bytes, seconds)`` of its messages, measured by this worker, the receiver.

    Raises:
        ValueError: if there are fewer than five repeats.
    """
    if repeats < 5:
        raise ValueError(f"repeats must be at least 5, for reliable medians, got {repeats}")
    transport = transport or Direct(rank, workers)
    times: dict[int, list[tuple[int, float]]] = {}
    for k in range(1, workers):
        source, target = (rank - k) % workers, (rank + k) % workers  # every worker has one sender and one receiver
        dist.barrier()  # once per round: later, each transfer synchronizes a worker with both of its neighbours
        for size in sizes:
            send_buffer, receive_buffer = torch.zeros(size, dtype=torch.uint8), torch.zeros(size, dtype=torch.uint8)
            # Repeated, because single times vary.
            for _ in range(repeats):
                transfer = transport.post({target: send_buffer}, {source: receive_buffer})
                transfer.wait()
                times.setdefault(source, []).append((size, transfer.seconds[source]))
    return times
