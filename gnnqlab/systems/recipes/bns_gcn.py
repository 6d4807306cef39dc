"""BNS-GCN (Wan et al., MLSys 2022): a random sample of the halo per epoch, rescaled so that sums are unbiased."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.message.samplers import BoundarySampling
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["bns_gcn"]


@register_system
def bns_gcn(*, p: float = 0.1, attention: str = "weights") -> System:
    """BNS-GCN: each halo row sampled with probability p per epoch, for all layers and both directions (Algorithm 1).

    p = 0.1 is recommended by the authors and used in SYLVIE's comparison; p = 1 is Vanilla, p = 0 trains without
    communication of embeddings. The paper samples for sums; attention over a sample is a choice of this package, see
    :class:`BoundarySampling`.
    """
    return replace(vanilla(), name="bns-gcn", sampler=BoundarySampling(p=p, attention=attention))
