"""How far each row is off once it has been coded and decoded again, message by message, as an exchange does it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.kernels.noise import stream
from gnnqlab.message.codecs.codec import Codec, Noise, Stochastic

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
    """Return the squared error of every halo row of one forward exchange, by ``(worker that holds the copy, node)``.

    ``|decode(encode(h)) - h|^2``, summed in float64 over the elements of a row, with the noise that this epoch of a run
    with this seed would draw.

    Args:
        parts: a cut of nodes.
        widths: bits by ``(worker that holds the copy, node)``, as `gnnqlab.lab.figures.graph_drawing.message_widths`
            gives them.
        rows: a row for each node, float32 ``(N, D)``, in any unit; by default the graph's features, which the first
            exchange sends.
        codec: ``Stochastic()`` by default.
        layer: whose messages these are, from 0; it is part of the noise's key.
        epoch: part of it too.
        seed: of the noise.

    Returns:
        Errors in the unit of the rows, squared.

    Raises:
        ValueError: if edges or blocks were cut, features are sparse, there is not a row for each node, or a halo row
            has no width.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> parts = partition(course.ten_nodes(), course.Halves(), workers=2)
        >>> exact = coding_errors(parts, {(0, 5): 32, (0, 7): 32, (1, 3): 32, (1, 4): 32})
        >>> sum(exact.values())
        0.0
    """
    if parts.shards[0].cuts != "nodes":
        raise ValueError(f"errors of rows are those of cuts of nodes, got one of {parts.shards[0].cuts}")
    given = parts.graph.features if rows is None else rows
    if not torch.is_tensor(given):
        raise ValueError("rows must be a matrix, got sparse features; pass rows=, of a trained model for instance")
    if given.dim() != 2 or len(given) != parts.graph.num_nodes:
        raise ValueError(f"rows must be ({parts.graph.num_nodes}, D), a row for each node, got {tuple(given.shape)}")
    matrix, coder, found = given.float().contiguous(), codec or Stochastic(), {}
    for shard in parts.shards:
        for route in shard.plan("forward").receive:
            nodes = route.ids.tolist()
            missing = [(shard.rank, node) for node in nodes if (shard.rank, node) not in widths]
            if missing:
                raise ValueError(
                    f"every halo row needs a width, got none for (worker, node) {missing[:3]}; take them from "
                    "message_widths"
                )
            if not nodes:
                continue
            bits = torch.tensor([widths[shard.rank, node] for node in nodes], dtype=torch.uint8)
            layout = coder.layout(bits, len(nodes), matrix.shape[1])
            order = torch.arange(len(nodes)) if layout.order is None else layout.order
            ids = route.ids[order]
            segment = torch.empty(layout.num_bytes, dtype=torch.uint8)
            noise = Noise(seed, epoch, stream("forward", layer), (shard.rank - route.peer - 1) % parts.workers)
            coder.encode(matrix, ids, ids, layout, segment, noise)
            out = coder.rows(len(nodes), matrix.shape[1], matrix.device)
            coder.decode(segment, layout, out, torch.arange(len(nodes)), accumulate=False, ids=ids, noise=noise)
            squares = (out.double() - matrix[ids].double()).square().sum(dim=1)
            found.update({(shard.rank, int(node)): float(square) for node, square in zip(ids, squares)})
    return found
