"""Fill colours of the nodes of a drawn graph: by owner, by copies, by bit-width, by error.

A node is central if all its neighbours are on its worker; otherwise it waits for rows of other workers.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from gnnqlab.bits.in_words import human_bits
from gnnqlab.lab.figures.theme import OKABE_ITO

if TYPE_CHECKING:
    from gnnqlab.lab.figures.waiting import Dependencies

__all__ = [
    "PALE",
    "STRONG",
    "Fill",
    "FillAssignment",
    "by_copies",
    "by_error",
    "by_owner",
    "by_pair",
    "by_shard",
    "by_width",
]

STRONG, PALE = 0.66, 0.24
"""Opacity of the colours of nodes that exchange rows, and of those that do not."""
_WORKERS = (
    *(OKABE_ITO[name] for name in ("blue", "orange", "green", "purple", "vermillion", "sky")), "#f0e442", "#7d7d7d",
    "#5b3a8e", "#8c564b", "#66a61e", "#e7298a", "#003c67", "#a6761d", "#1b7837", "#b3a0d6",
)  # fmt: skip
_WIDTHS = {1: "#d55e00", 2: "#e69f00", 3: "#dd8a5b", 4: "#cc79a7", 8: "#56b4e9", 16: "#0072b2", 32: "#009e73"}
_QUANTITY_COLOR, _OPACITIES = OKABE_ITO["vermillion"], (0.12, 0.28, 0.46, 0.66, 0.9)
"""Colour of a quantity, and its opacities from small to large values."""


@dataclass(frozen=True)
class Fill:
    """Colour of a cell and its meaning."""

    label: str
    color: str | None
    """``None`` for transparent."""
    cover: float = STRONG
    faint: bool = False
    """True to draw the picture of the node, if it has one, faintly too."""
    key: bool = True
    """True if the legend lists it."""


@dataclass(frozen=True)
class FillAssignment:
    """Fills and their assignment to nodes."""

    fills: tuple[Fill, ...]
    index_by_node: dict[int, int]
    """Node -> index of its fill."""

    @property
    def counts(self) -> dict[str, int]:
        """Number of nodes with each fill, by its label."""
        indices = list(self.index_by_node.values())  # one entry per node
        return {fill.label: indices.count(number) for number, fill in enumerate(self.fills)}


_REST = Fill("others", None, faint=True, key=False)


def by_owner(found: Dependencies, workers: int) -> FillAssignment:
    """Fill each node with its worker's colour, strong if it waits for other workers."""
    fills = [Fill(f"worker {rank}", _color(rank)) for rank in range(workers)]
    # Index: rank, or workers + rank if central.
    fills += [Fill(f"worker {rank}, central", _color(rank), PALE, key=False) for rank in range(workers)]
    return FillAssignment(
        tuple(fills), {node: owner + workers * found.central[node] for node, owner in found.owner.items()}
    )


def by_copies(found: Dependencies) -> FillAssignment:
    """Fill each node by the number of other workers that hold a copy of its row."""
    most_copies = max((len(holders) for holders in found.copies.values()), default=0)  # 0 without any copy
    fills = [Fill("no copy elsewhere", None, faint=True)]
    opacities = [_step_opacity(index, most_copies) for index in range(most_copies)]
    fills += [Fill(_copies(index + 1), _QUANTITY_COLOR, opacity) for index, opacity in enumerate(opacities)]
    return FillAssignment(tuple(fills), {node: len(found.copies.get(node, ())) for node in found.owner})


def by_shard(found: Dependencies, worker: int) -> FillAssignment:
    """Fill the nodes that one worker holds: its own ones, and copies in the colours of their owners."""
    # Owners of the copies on this worker.
    owners = sorted({found.owner[node] for node, holders in found.copies.items() if worker in holders})
    fills = [Fill(f"worker {worker}, waits", _color(worker)), Fill("its central nodes", _color(worker), PALE), _REST]
    fills += [Fill(f"copies of worker {owner}", _color(owner)) for owner in owners]
    indices = {}
    for node, owner in found.owner.items():
        if owner == worker:
            indices[node] = int(found.central[node])  # 0 waits for other workers, 1 is central
        else:
            indices[node] = 3 + owners.index(owner) if worker in found.copies.get(node, ()) else 2
    return FillAssignment(tuple(fills), indices)


def by_pair(found: Dependencies, sent: set[int], waits: set[int], sender: int, receiver: int) -> FillAssignment:
    """Fill the rows that one worker sends another, and the nodes there that wait for them."""
    fills = (
        Fill(f"rows that worker {sender} sends", _color(sender)),
        Fill(f"nodes of worker {receiver} that wait for them", _color(receiver)),
        Fill(f"worker {sender}", _color(sender), PALE / 2, faint=True, key=False),
        Fill(f"worker {receiver}", _color(receiver), PALE / 2, faint=True, key=False),
        _REST,
    )
    indices = {node: 2 if owner == sender else 3 if owner == receiver else 4 for node, owner in found.owner.items()}
    # Sent rows last: a node that both waits and is sent counts as sent.
    indices |= {node: 1 for node in waits if node in indices} | {node: 0 for node in sent if node in indices}
    return FillAssignment(fills, indices)


def by_width(found: Dependencies, widths: Mapping[int, int], *, rest: str = "not sent") -> FillAssignment:
    """Fill each node by the bit-width in which its row is sent."""
    sent_widths = sorted({width for node, width in widths.items() if node in found.owner})
    fills = [Fill(human_bits(width), _WIDTHS[width]) for width in sent_widths]
    fills.append(Fill(rest, None, faint=True))
    return FillAssignment(
        tuple(fills),
        {node: sent_widths.index(widths[node]) if node in widths else len(sent_widths) for node in found.owner},
    )


def by_error(found: Dependencies, errors: Mapping[int, float], *, rest: str = "not sent") -> FillAssignment:
    """Fill each node by the error of its decoded row, in up to five steps (quantiles) of equal numbers of rows."""
    values = np.array([error for node, error in errors.items() if node in found.owner])
    # Upper ends of the steps, without equal quantiles, between which a step would be empty.
    edges = np.unique(np.quantile(values, np.linspace(0, 1, len(_OPACITIES) + 1)[1:])) if len(values) else values
    opacities = [_step_opacity(index, len(edges)) for index in range(len(edges))]
    step_fills = [Fill(f"up to {edge:.2g}", _QUANTITY_COLOR, opacity) for edge, opacity in zip(edges, opacities)]
    fills = (*step_fills, Fill(rest, None, faint=True))
    indices = {
        node: int(np.searchsorted(edges, errors[node])) if node in errors else len(step_fills) for node in found.owner
    }  # a value at a step's upper end belongs to it
    return FillAssignment(fills, indices)


def _color(rank: int) -> str:
    return _WORKERS[rank % len(_WORKERS)]


def _step_opacity(index: int, steps: int) -> float:
    # Steps spread over the whole range of opacities.
    return _OPACITIES[-1] if steps <= 1 else _OPACITIES[round(index * (len(_OPACITIES) - 1) / (steps - 1))]


def _copies(count: int) -> str:
    return "1 copy" if count == 1 else f"{count} copies"
