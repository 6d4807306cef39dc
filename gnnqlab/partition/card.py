"""Card of a partitioned graph in a notebook: its quality, and a heat map of the rows sent between workers."""

from __future__ import annotations

from gnnqlab.cards import card
from gnnqlab.partition.cut import Cut, cut_name
from gnnqlab.partition.quality import Quality

__all__ = ["parts_card"]

_MOST_WORKERS = 16
"""Largest number of workers whose heat map fits a page."""


def parts_card(graph_name: str, cut: Cut, hosts: int, quality: Quality | None) -> str:
    """Return the card as HTML.

    Args:
        graph_name: name of the graph.
        cut: its assignment to workers.
        hosts: number of hosts.
        quality: measures of the cut; ``None`` if they are not known yet.
    """
    kind = cut_name(cut.kind).split(" ", 1)[1]  # without the article
    rows = {
        "kind": kind + (f", by {cut.library}" if cut.library else ""),
        "workers": f"{cut.workers} on {hosts} host{'s' if hosts > 1 else ''}",
    }
    title = f"Parts of {graph_name}"
    if quality is None:
        return card(title, rows | {"quality": "not measured yet; see .quality"})
    rows |= {
        "edges between workers": f"{quality.edge_cut:,} ({100 * quality.edge_cut_share:.1f} %)",
        "rows sent per exchange": f"{quality.inner + quality.outer:,}, of which {quality.outer:,} between hosts",
        **_repeats(quality),
        "stored rows per node": f"{quality.replication:.2f}",
        "largest worker / mean": f"{quality.node_imbalance:.2f} (nodes), {quality.edge_imbalance:.2f} (edges)",
        **({"advice": quality.advice} if quality.advice else {}),
    }
    return card(title, rows) + (_heat_map(quality.halo_rows.tolist()) if cut.workers <= _MOST_WORKERS else "")


def _repeats(quality: Quality) -> dict[str, str]:
    """Return the rows that multicast, or one copy per host, would save; nothing with two workers, where none is."""
    lines = {}
    if quality.repeated:
        share = 100 * quality.repeated / (quality.inner + quality.outer)
        lines["saved by multicast"] = f"{quality.repeated:,} of these rows ({share:.0f} %)"
    if quality.repeated_outer:
        share = 100 * quality.repeated_outer / quality.outer
        lines["saved by one copy per host"] = f"{quality.repeated_outer:,} of those between hosts ({share:.0f} %)"
    return lines


def _heat_map(rows: list[list[int]]) -> str:
    """Return a table of senders and receivers; more rows are darker on a light page, lighter on a dark one."""
    largest = max(map(max, rows)) or 1
    head = "".join(f"<th scope='col'>{receiver}</th>" for receiver in range(len(rows)))
    lines = "".join(
        f"<tr><th scope='row'>{sender}</th>"
        + "".join(
            f"<td style='text-align:right;background:rgba(86,130,180,{0.7 * count / largest:.2f})'>{count:,}</td>"
            for count in counts
        )
        + "</tr>"
        for sender, counts in enumerate(rows)
    )
    caption = "Rows sent per exchange, from worker (line) to worker (column)"  # wider than the table
    return f"<div>{caption}</div><table><tr><th></th>{head}</tr>{lines}</table>"
