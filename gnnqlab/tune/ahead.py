"""What a forecast shows a bit policy: the messages of a trace, the assigner at its desk, the importance of nodes."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.outlook import Widths
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.theory.cost import LinkCost
from gnnqlab.tune.assign import Desk

__all__ = ["Ahead"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Ahead:
    """An :class:`gnnqlab.bits.outlook.Outlook` over the messages of one trace."""

    desk: Desk
    cost: LinkCost
    """θ and γ of every pair."""
    transport: str
    """``direct`` or ``ring``."""
    epoch: int | None = None
    base: int | None = None

    def ask(self, policy: BitPolicy, epoch: int) -> Widths:
        return self.desk.chosen(policy, epoch)

    def assign(self, settings: Assigned, epoch: int) -> Widths:
        index = self.desk.trace.index(epoch)
        return self.desk.assigned(settings, self.cost, index=index, transport=self.transport)

    def importance(self, ids: Tensor) -> Tensor:
        return self._importance[ids]

    @cached_property
    def _importance(self) -> Tensor:
        shards = self.desk.trace.shards
        found = torch.zeros(shards[0].num_global_nodes)
        for shard in shards:
            found[shard.owned] = shard.importance[: shard.num_owned]
        return found
