"""Widths for traced messages: what a run's policy would choose, found in milliseconds.

Groups are kept by epoch and group size, so that λ can move without sorting rows again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from gnnqlab.bits.assigner.assemble import Message, assemble
from gnnqlab.bits.assigner.assigned import Assigned, AssignedWidths
from gnnqlab.bits.assigner.groups import group
from gnnqlab.bits.assigner.problem import Problem
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.policy_preview import Place, Widths
from gnnqlab.bits.row import EXACT
from gnnqlab.bits.variance import RowVariance, min_max
from gnnqlab.message.codecs.codec import Codec, Stochastic
from gnnqlab.message.direction import ByDirection, of_direction
from gnnqlab.theory.cost import LinkCost
from gnnqlab.tune.traced import Trace, TracedMessage

__all__ = ["OfflineAssigner", "Widths"]

_STOCHASTIC = Stochastic()


@dataclass(frozen=True, eq=False)
class _Grouped:
    """The groups of one message, and which of them each row is in."""

    rows: np.ndarray
    beta: np.ndarray
    group_of_row: np.ndarray

    @classmethod
    def of(cls, beta: Tensor, size: int) -> _Grouped:
        made = group(beta, size)
        number = np.empty(beta.numel(), dtype=np.int64)
        number[made.order.numpy()] = np.arange(beta.numel()) // size
        return cls(made.rows.numpy(), made.beta.numpy(), number)


@dataclass(eq=False)
class OfflineAssigner:
    """Solves the assignments of one trace."""

    trace: Trace
    codec: Codec | ByDirection = _STOCHASTIC
    """Writes the rows: what they take, and their variance, is asked of it."""
    _groups: dict[tuple[int, int, bool, Place, _Weight], list[_Grouped]] = field(default_factory=dict)
    _betas: dict[tuple[int, Place, bool, _Weight], list[Tensor]] = field(default_factory=dict)
    _here: dict[Place, list[TracedMessage]] = field(default_factory=dict)

    def writing(self, codec: Codec | ByDirection) -> OfflineAssigner:
        """Return the desk for another codec; what was sorted stays where its rows weigh the same."""
        return OfflineAssigner(self.trace, codec, self._groups, self._betas, self._here)

    def codec_of(self, direction: str) -> Codec:
        """Return the codec of a direction's rows."""
        codec: Codec = of_direction(self.codec, direction)
        return codec

    def messages(self, place: Place) -> list[TracedMessage]:
        """Return the messages of a layer and direction."""
        if place not in self._here:
            self._here[place] = self.trace.at(place)
        return self._here[place]

    def variance_of(self, direction: str, columns: int) -> RowVariance:
        """Return the variance of a direction's rows; a codec that has none is taken for codes between a row's ends."""
        return self.codec_of(direction).row_variance(columns) or min_max(columns)

    def _variance(self, place: Place) -> RowVariance:
        return self.variance_of(place[1], self.messages(place)[0].columns)

    def betas(self, index: int, place: Place, *, as_released: bool = False) -> list[Tensor]:
        """Return β of every row of a place's messages at a traced epoch; `as_released`: with (Σα)² in place of Σα²."""
        return [each[0] for each in self._parts(index, place, as_released=as_released)]

    def _parts(self, index: int, place: Place, *, as_released: bool = False) -> list[Tensor]:
        """What the variance of every row is made of, ``(K, n)`` for each message."""
        variance = self._variance(place)
        key = index, place, as_released, _weight(variance)
        if key not in self._betas:
            self._betas[key] = [
                message.betas(index, variance, as_released=as_released) for message in self.messages(place)
            ]
        return self._betas[key]

    def groups(self, index: int, size: int, *, as_released: bool = False) -> dict[Place, list[_Grouped]]:
        """Return the groups of every message at a traced epoch."""
        found = {}
        for place in self.trace.places:
            key = index, size, as_released, place, _weight(self._variance(place))
            if key not in self._groups:
                betas = self.betas(index, place, as_released=as_released)
                self._groups[key] = [_Grouped.of(beta, size) for beta in betas]
            found[place] = self._groups[key]
        return found

    def problems(self, settings: Assigned, cost: LinkCost, *, index: int, transport: str) -> dict[Place, Problem]:
        """Return the bi-objective problem of every layer and direction."""
        found = {}
        grouped = self.groups(index, settings.group_size, as_released=settings.as_released)
        for place, groups in grouped.items():
            messages = [
                Message(message.sender, message.receiver, each.rows, each.beta)
                for message, each in zip(self.messages(place), groups, strict=True)
            ]
            variance = self._variance(place)
            parts = self._parts(index, place, as_released=settings.as_released)
            totals = torch.stack([each.sum(1) for each in parts]).sum(0).tolist()
            found[place] = assemble(
                messages,
                cost,
                columns=self.messages(place)[0].columns,
                lam=settings.lam,
                widths=settings.among,
                param_bytes=self.codec_of(place[1]).param_bytes,
                transport="ring" if transport == "ring" else "direct",
                width_shares=tuple(variance.relative(width, totals) for width in settings.among),
            )
        return found

    def assigned(self, settings: Assigned, cost: LinkCost, *, index: int, transport: str) -> dict[Place, list[Tensor]]:
        """Return the widths that the assigner chooses.

        Args:
            settings: λ, group size and the widths to choose from.
            cost: θ and γ of every pair.
            index: which of the traced epochs.
            transport: ``direct`` or ``ring``.
        """
        widths = {}
        for place, problem in self.problems(settings, cost, index=index, transport=transport).items():
            groups = self.groups(index, settings.group_size, as_released=settings.as_released)[place]
            ends = np.cumsum([each.rows.size for each in groups])[:-1]
            parts = np.split(solve(problem).widths, ends)
            widths[place] = [
                torch.from_numpy(part[each.group_of_row]) for each, part in zip(groups, parts, strict=True)
            ]
        return widths

    def chosen(self, policy: BitPolicy, epoch: int = 0) -> dict[Place, list[Tensor]]:
        """Return the widths that a policy answers with in an epoch."""
        return {
            place: [
                torch.as_tensor(EXACT if message.exact else policy.widths(message.rows(self.trace.seed), epoch)).expand(
                    message.num_rows
                )
                for message in self.messages(place)
            ]
            for place in self.trace.places
        }

    def installed(self, widths: Widths, settings: Assigned | None = None) -> AssignedWidths:
        """Return a policy that answers with these widths, for measurements with them."""
        policy = AssignedWidths(settings or Assigned())
        table = {
            (message.layer, message.direction, message.sender, message.receiver): rows.to(torch.uint8).clone()
            for place, parts in widths.items()
            for message, rows in zip(self.messages(place), parts, strict=True)
        }
        policy.install(table)
        return policy

    def variance(self, widths: Widths, index: int) -> dict[Place, float]:
        """Return V of every layer and direction at a traced epoch, by the variance of each row."""
        found = {}
        for place, parts in widths.items():
            variance = self._variance(place)
            found[place] = sum(
                float(variance.at(betas, rows).sum())
                for betas, rows in zip(self._parts(index, place), parts, strict=True)
            )
        return found

    def sent_bytes(self, widths: Widths) -> dict[Place, np.ndarray]:
        """Return what travels from worker to worker, ``(P, P)`` for every layer and direction, if every row does."""
        found = {}
        for place, parts in widths.items():
            sent = np.zeros((self.trace.workers, self.trace.workers))
            for message, rows in zip(self.messages(place), parts, strict=True):
                codec = of_direction(self.codec, message.direction)
                layout = codec.layout(as_asked(rows), message.num_rows, message.columns)
                sent[message.sender, message.receiver] += layout.num_bytes
            found[place] = sent
        return found


def as_asked(rows: Tensor) -> int | Tensor:
    """Return the widths of a message as a codec takes them: one number where all are the same, else uint8."""
    first = int(rows[0]) if rows.numel() else 0
    return first if bool((rows == first).all()) else rows.to(torch.uint8)


_Weight = tuple[tuple[str, ...], float]
"""What β depends on: the spreads, and its unit."""


def _weight(variance: RowVariance) -> _Weight:
    return variance.spreads, variance.unit
