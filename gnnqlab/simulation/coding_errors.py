"""Error of each row after encoding and decoding, message by message as in an exchange."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.kernels.noise import stream
from gnnqlab.message.codecs.codec import Codec, Noise, Stochastic
from gnnqlab.partition.cut import cut_name

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["coding_errors"]


def coding_errors(
    parts: Parts,
    widths: Mapping[tuple[int, int], int],
    *,
    rows: Tensor | None = None,
    codec: Codec | None = None,
    layer: int = 0,
    epoch: int = 0,
    seed: int = 0,
) -> dict[tuple[int, int], float]:
    """Return the squared error of every halo row of one forward exchange, by ``(worker with the halo row, node)``.

    ``|decode(encode(h)) - h|^2``, summed in float64 over the elements of a row, with the noise of this epoch of a run
    with this seed.

    Args:
        parts: an edge-cut.
        widths: bits by ``(worker with the halo row, node)``, as from
            `gnnqlab.lab.figures.graph_drawing.message_widths`.
        rows: a row for each node, float32 ``(N, D)``, in any unit; by default the graph's features, which the first
            exchange sends.
        codec: ``Stochastic()`` by default.
        layer: layer of the messages, from 0; part of the noise's key.
        epoch: epoch of the messages; also part of the key.
        seed: of the noise.

    Returns:
        Errors in squared units of the rows.

    Raises:
        ValueError: if the cut is not an edge-cut, features are sparse, there is not one row per node, or a halo row
            has no bit-width.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> exact = coding_errors(parts, {(0, 5): 32, (0, 7): 32, (1, 3): 32, (1, 4): 32})
        >>> sum(exact.values())
        0.0
    """
    if parts.shards[0].cuts != "nodes":
        raise ValueError(
            f"errors of halo rows need an edge-cut, got {cut_name(parts.shards[0].cuts)}; choose another partitioner"
        )
    values = parts.graph.features if rows is None else rows
    if not torch.is_tensor(values):
        raise ValueError("rows must be a matrix, got sparse features; pass rows=, of a trained model for instance")
    if values.dim() != 2 or len(values) != parts.graph.num_nodes:
        raise ValueError(f"rows must be ({parts.graph.num_nodes}, D), a row for each node, got {tuple(values.shape)}")
    # (N, D) float32, contiguous, as the kernels need it.
    matrix, coder, errors = values.float().contiguous(), codec or Stochastic(), {}
    for shard in parts.shards:
        for route in shard.plan("forward").receive:
            nodes = route.ids.tolist()
            pairs = [(shard.rank, node) for node in nodes if (shard.rank, node) not in widths]
            if pairs:
                raise ValueError(
                    f"every halo row needs a bit-width, got none for (worker, node) {pairs[:3]}; use message_widths"
                )
            if not nodes:
                continue
            # (rows of the message,) uint8
            bits = torch.tensor([widths[shard.rank, node] for node in nodes], dtype=torch.uint8)
            layout = coder.layout(bits, len(nodes), matrix.shape[1])
            order = torch.arange(len(nodes)) if layout.order is None else layout.order  # rows sorted by bit-width
            ids = route.ids[order]  # in wire order
            segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
            # The same noise key as in a channel: the receiver is numbered by its distance from the sender.
            noise = Noise(seed, epoch, stream("forward", layer), (shard.rank - route.peer - 1) % parts.workers)
            coder.encode(matrix, ids, ids, layout, segment, noise)
            output = coder.rows(len(nodes), matrix.shape[1], matrix.device)  # (rows, D)
            coder.decode(segment, layout, output, torch.arange(len(nodes)), accumulate=False, ids=ids, noise=noise)
            squares = (output.double() - matrix[ids].double()).square().sum(dim=1)  # (rows,) float64
            errors.update({(shard.rank, int(node)): float(square) for node, square in zip(ids, squares)})
    return errors
