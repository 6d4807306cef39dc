"""BNS-GCN (Wan et al., MLSys 2022): a random share of the halo in each epoch, rescaled so that sums keep their mean."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.message.sampler import BoundarySampling
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.system import System, register_system

__all__ = ["bns_gcn"]


@register_system
def bns_gcn(*, p: float = 0.1, attention: str = "weights") -> System:
    """BNS-GCN: each halo row kept with probability p in an epoch, for all layers and both directions (Algorithm 1).

    p = 0.1 is the authors' advice and what SYLVIE compares with; p = 1 is Vanilla, p = 0 trains workers apart. The
    paper samples for sums; what attention does with a sample is a choice, see :class:`BoundarySampling`.
    """
    return replace(vanilla(), name="bns-gcn", sampler=BoundarySampling(p=p, attention=attention))
