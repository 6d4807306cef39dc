"""Inputs of a bit policy's prediction: messages of a trace, offline assignments, and importance of nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.bits.assigner.assigned import Assigned
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.bits.policy_prediction import Widths
from gnnqlab.former_names import FormerMember
from gnnqlab.theory.cost import LinkCost
from gnnqlab.tune.offline_assigner import OfflineAssigner

__all__ = ["TracePredictionContext"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TracePredictionContext:
    """Implementation of :class:`gnnqlab.bits.policy_prediction.PredictionContext` over the messages of one trace."""

    assigner: OfflineAssigner
    cost: LinkCost
    """θ and γ of every pair."""
    transport: str
    """``direct`` or ``ring``."""
    epoch: int | None = None
    base: int | None = None

    @property
    def losses(self) -> Sequence[float]:
        return self.assigner.trace.losses

    def widths_of(self, policy: BitPolicy, epoch: int) -> Widths:
        return self.assigner.choose(policy, epoch)

    ask = FormerMember("widths_of")

    def assign(self, settings: Assigned, epoch: int) -> Widths:
        index = self.assigner.trace.index(epoch)
        return self.assigner.assign(settings, self.cost, index=index, transport=self.transport)

    def importance(self, ids: Tensor) -> Tensor:
        return self._importance[ids]

    @cached_property
    def _importance(self) -> Tensor:
        shards = self.assigner.trace.shards
        importance = torch.zeros(shards[0].num_global_nodes)  # (V,)
        for shard in shards:
            importance[shard.owned] = shard.importance[: shard.num_owned]  # each node has one owner, so all are set
        return importance
