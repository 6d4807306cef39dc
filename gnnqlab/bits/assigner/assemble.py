"""Construction of the bit-width problem of one layer and direction from its messages and the link costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gnnqlab.bits.assigner.problem import Index, Problem
from gnnqlab.bits.row import ParamBytes, two_parameters
from gnnqlab.theory.cost import LinkCost

__all__ = ["MessageGroups", "assemble"]

_FLOATS = two_parameters(4)


@dataclass(frozen=True, eq=False)
class MessageGroups:
    """Groups of one message; both arrays come from ``Groups`` of :mod:`gnnqlab.bits.assigner.groups`."""

    sender: int
    receiver: int
    rows: ArrayLike
    """Rows in each group."""
    beta: ArrayLike
    """Sum of β over each group."""


def assemble(
    messages: Sequence[MessageGroups],
    cost: LinkCost,
    *,
    columns: int,
    lam: float,
    widths: tuple[int, ...] = (2, 4, 8),
    param_bytes: ParamBytes = _FLOATS,
    transport: str = "direct",
    width_shares: tuple[float, ...] | None = None,
) -> Problem:
    """Build the problem of one layer and direction.

    Groups have the order of the messages, so ``np.split(solution.widths, ends)`` gives the bit-widths per message. A
    message without rows is left out.

    Args:
        messages: at most one per ordered pair of workers.
        cost: θ and γ of every pair.
        columns: D.
        lam: λ.
        widths: allowed bit-widths.
        param_bytes: bytes of quantization parameters per row at each bit-width, from the codec; by default a
            zero-point and a scale of four bytes each.
        transport: ``ring``: the slowest pair of each round counts (the paper); ``direct``: everything is posted at
            once, and the busiest sender or receiver counts.
        width_shares: factor of β at each bit-width, from the codec; ``1 / (2^b - 1)^2`` by default.

    Raises:
        ValueError: if a pair occurs twice, no message has rows, or the transport is unknown.
    """
    if transport not in ("ring", "direct"):
        raise ValueError(f"transport must be 'ring' or 'direct', got {transport!r}")
    entries = [(message, np.asarray(message.rows, dtype=np.int64)) for message in messages]
    pairs = [(message, rows) for message, rows in entries if rows.size]  # only pairs with rows are part of the problem
    if not pairs:
        raise ValueError("there must be at least one group of rows to assign a bit-width to, got no messages")
    senders = np.array([message.sender for message, _ in pairs])
    receivers = np.array([message.receiver for message, _ in pairs])
    if len(set(zip(senders.tolist(), receivers.tolist()))) < len(pairs) or (senders == receivers).any():
        raise ValueError("messages must be between two workers, and at most one for each ordered pair")
    if transport == "ring":
        # Each pair has a link of its own: a round lasts as long as its slowest pair (Eq. 10).
        pair_link, pair_far_link = np.arange(len(pairs)), None
        # In round r worker i sends to worker i + r; rounds without messages are left out of the numbering.
        link_round = np.unique((receivers - senders) % cost.workers, return_inverse=True)[1]
    else:
        pair_link, pair_far_link = _both_ends(senders, receivers)
        last_link = pair_link.max() if pair_far_link is None else pair_far_link.max()
        link_round = np.zeros(last_link + 1, dtype=np.int64)  # everything is posted in one round
    return Problem(
        widths=widths,
        columns=columns,
        lam=lam,
        group_pair=np.repeat(np.arange(len(pairs)), [rows.size for _, rows in pairs]),  # (G,)
        group_rows=np.concatenate([rows for _, rows in pairs]),
        group_beta=np.concatenate([np.asarray(message.beta, dtype=np.float64) for message, _ in pairs]),
        pair_link=pair_link,
        link_round=link_round,
        theta_s_per_byte=cost.theta_s_per_byte[senders, receivers],  # (P, P) -> (I,)
        gamma_s=cost.gamma_s[senders, receivers],
        param_bytes=param_bytes,
        pair_far_link=pair_far_link,
        width_shares=width_shares,
    )


def _both_ends(senders: Index, receivers: Index) -> tuple[Index, Index | None]:
    """Return the links that pairs queue on if everything is posted at once.

    An end with only one pair is never busier than the other end of that pair. So if no receiver has two senders, as
    with two workers, the links of the senders suffice; and vice versa.
    """
    # Links are numbered without gaps, because a problem refuses idle links.
    sender_link, receiver_link = (np.unique(ranks, return_inverse=True)[1] for ranks in (senders, receivers))
    if np.bincount(receiver_link).max() == 1:
        return sender_link, None
    if np.bincount(sender_link).max() == 1:
        return receiver_link, None
    return sender_link, sender_link.max() + 1 + receiver_link  # receiving ends after the sending ends
