"""Bit-widths of traced messages: a run's policy applied offline, in milliseconds.

Groups are cached by epoch and group size, so that λ can change without sorting rows again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.assigner.assemble import MessageGroups, assemble
from gnnqlab.bits.assigner.assigned import Assigned, AssignedWidths
from gnnqlab.bits.assigner.groups import group
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.policy_prediction import Place, Widths
from gnnqlab.bits.row import EXACT
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.message.codecs.codec import Codec, Stochastic
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.theory.cost import LinkCost
from gnnqlab.tune.traced import Trace, TracedMessage

__all__ = ["OfflineAssigner", "Widths"]

_STOCHASTIC = Stochastic()


@dataclass(frozen=True, eq=False)
class _MessageGroups:
    """Groups of one message, and the group of each row."""

    rows: np.ndarray
    beta: np.ndarray
    group_of_row: np.ndarray

    @classmethod
    def from_betas(cls, beta: Tensor, size: int) -> _MessageGroups:
        groups = group(beta, size)
        number = np.empty(beta.numel(), dtype=np.int64)
        number[groups.order.numpy()] = np.arange(beta.numel()) // size  # undo the sorting: (n,), group of each row
        return cls(groups.rows.numpy(), groups.beta.numpy(), number)


@dataclass(eq=False)
class OfflineAssigner:
    """Offline assigner: solves the assignments of one trace."""

    trace: Trace
    codec: Codec | ByDirection = _STOCHASTIC
    """Codec of the rows: gives their bytes and variance."""
    _groups: dict[tuple[int, int, bool, Place, _Weight], list[_MessageGroups]] = field(default_factory=dict)
    _betas: dict[tuple[int, Place, bool, _Weight], list[Tensor]] = field(default_factory=dict)
    _messages: dict[Place, list[TracedMessage]] = field(default_factory=dict)

    def with_codec(self, codec: Codec | ByDirection) -> OfflineAssigner:
        """Return an offline assigner for another codec; codecs with an equal formula of β share their cached groups."""
        return OfflineAssigner(self.trace, codec, self._groups, self._betas, self._messages)

    def codec_of(self, direction: str) -> Codec:
        """Return the codec of a direction's rows."""
        codec: Codec = of_direction(self.codec, direction)
        return codec

    def messages(self, place: Place) -> list[TracedMessage]:
        """Return the messages of a layer and direction."""
        if place not in self._messages:
            self._messages[place] = self.trace.messages_at(place)
        return self._messages[place]

    def variance_of(self, direction: str, columns: int) -> RowVariance:
        """Return the variance formula of a direction's rows; for a codec without one, that of min-max codes."""
        return self.codec_of(direction).row_variance(columns) or min_max(columns)

    def _variance(self, place: Place) -> RowVariance:
        return self.variance_of(place[1], self.messages(place)[0].columns)

    def betas(self, index: int, place: Place, *, as_released: bool = False) -> list[Tensor]:
        """Return β of every row of a place's messages at a traced epoch; ``as_released``: (Σα)² in place of Σα²."""
        return [each[0] for each in self._parts(index, place, as_released=as_released)]

    def _parts(self, index: int, place: Place, *, as_released: bool = False) -> list[Tensor]:
        """Return the terms of every row's variance, ``(K, n)`` for each message."""
        variance = self._variance(place)
        key = index, place, as_released, _weight(variance)  # codecs with one formula share an entry
        if key not in self._betas:
            self._betas[key] = [
                message.betas(index, variance, as_released=as_released) for message in self.messages(place)
            ]
        return self._betas[key]

    def groups(self, index: int, size: int, *, as_released: bool = False) -> dict[Place, list[_MessageGroups]]:
        """Return the groups of every message at a traced epoch."""
        groups_by_place = {}
        for place in self.trace.places:
            # Codecs with the same formula of β have the same groups.
            key = index, size, as_released, place, _weight(self._variance(place))
            if key not in self._groups:
                betas = self.betas(index, place, as_released=as_released)
                self._groups[key] = [_MessageGroups.from_betas(beta, size) for beta in betas]
            groups_by_place[place] = self._groups[key]
        return groups_by_place

    def problems(self, settings: Assigned, cost: LinkCost, *, index: int, transport: str) -> dict[Place, Problem]:
        """Build the bi-objective problem of every layer and direction."""
        problems = {}
        by_place = self.groups(index, settings.group_size, as_released=settings.as_released)
        for place, groups in by_place.items():
            messages = [
                MessageGroups(message.sender, message.receiver, message_group.rows, message_group.beta)
                for message, message_group in zip(self.messages(place), groups, strict=True)
            ]
            variance = self._variance(place)
            parts = self._parts(index, place, as_released=settings.as_released)
            totals = torch.stack([part.sum(1) for part in parts]).sum(0).tolist()  # (K, n) each -> (K,)
            problems[place] = assemble(
                messages,
                cost,
                columns=self.messages(place)[0].columns,
                lam=settings.lam,
                widths=settings.bit_widths,
                param_bytes=self.codec_of(place[1]).param_bytes,
                transport="ring" if transport == "ring" else "direct",
                width_shares=tuple(variance.relative(width, totals) for width in settings.bit_widths),
            )
        return problems

    def assign(self, settings: Assigned, cost: LinkCost, *, index: int, transport: str) -> dict[Place, list[Tensor]]:
        """Solve all problems and return the bit-width of every row.

        Args:
            settings: λ, group size and the bit-widths to choose from.
            cost: θ and γ of every pair.
            index: index of the traced epoch.
            transport: ``direct`` or ``ring``.
        """
        widths = {}
        for place, problem in self.problems(settings, cost, index=index, transport=transport).items():
            groups = self.groups(index, settings.group_size, as_released=settings.as_released)[place]
            ends = np.cumsum([each.rows.size for each in groups])[:-1]  # groups are in the order of the messages
            parts = np.split(solve(problem).widths, ends)
            widths[place] = [  # (G,) -> (n,) for each message
                torch.from_numpy(part[each.group_of_row]) for each, part in zip(groups, parts, strict=True)
            ]
        return widths

    def choose(self, policy: BitPolicy, epoch: int = 0) -> dict[Place, list[Tensor]]:
        """Return the bit-widths that a policy chooses in an epoch."""
        return {
            place: [
                # One number for all rows is expanded: () -> (n,).
                torch.as_tensor(EXACT if message.exact else policy.widths(message.rows(self.trace.seed), epoch)).expand(
                    message.num_rows
                )
                for message in self.messages(place)
            ]
            for place in self.trace.places
        }

    def build_policy(self, widths: Widths, settings: Assigned | None = None) -> AssignedWidths:
        """Return a policy with these bit-widths installed, for measurements."""
        policy = AssignedWidths(settings or Assigned())
        table = {
            # Cloned, because all elements of an expanded tensor share one byte.
            (message.layer, message.direction, message.sender, message.receiver): rows.to(torch.uint8).clone()
            for place, parts in widths.items()
            for message, rows in zip(self.messages(place), parts, strict=True)
        }
        policy.install(table)
        return policy

    def variance(self, widths: Widths, index: int) -> dict[Place, float]:
        """Return V of every layer and direction at a traced epoch, summed over rows."""
        variances = {}
        for place, parts in widths.items():
            variance = self._variance(place)
            variances[place] = sum(
                float(variance.evaluate_betas(betas, rows).sum())
                for betas, rows in zip(self._parts(index, place), parts, strict=True)
            )
        return variances

    def sent_bytes(self, widths: Widths) -> dict[Place, np.ndarray]:
        """Return the bytes between workers if every row is sent, ``(P, P)`` for every layer and direction."""
        bytes_by_place = {}
        for place, parts in widths.items():
            pair_bytes = np.zeros((self.trace.workers, self.trace.workers))
            for message, rows in zip(self.messages(place), parts, strict=True):
                codec = of_direction(self.codec, message.direction)
                # The codec's own layout, so that padding and parameters are counted as in a run.
                layout = codec.layout(to_codec_bits(rows), message.num_rows, message.columns)
                pair_bytes[message.sender, message.receiver] += layout.num_bytes
            bytes_by_place[place] = pair_bytes
        return bytes_by_place


def to_codec_bits(rows: Tensor) -> int | Tensor:
    """Convert the bit-widths of a message to a codec's input: one number if all are equal, else uint8 ``(n,)``."""
    first_bits = int(rows[0]) if rows.numel() else 0
    return first_bits if bool((rows == first_bits).all()) else rows.to(torch.uint8)


_Weight = tuple[tuple[str, ...], float]
"""Facts on which β depends: names of the statistics, and its unit."""


def _weight(variance: RowVariance) -> _Weight:
    return variance.spreads, variance.unit
