"""SYLVIE (Zhang et al., 2023): bit-widths by node and over time, adaptive staleness. Written from the paper alone."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.orchestrator import HALVES, Orchestrated
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.registry import register_system
from gnnqlab.systems.system import System

__all__ = ["sylvie"]


@register_system
def sylvie(
    *,
    delta: int = 5,
    momentum: float = 0.9,
    bit_widths: tuple[int, ...] = (1, 2, 4, 8),
    formula: str = "text",
    thresholds: tuple[float, ...] = HALVES,
    bound: int = 10,
    dropped_by: str = "owner",
    parameters: str = "bfloat16",
) -> System:
    """SYLVIE: 1 to 8 bits, more for nodes of high in-degree and as training slows; stale rows (1 epoch) until then.

    Sections IV-A (importance), V-A (Quant Orchestrator), V-B (Pipeline Adaptor). The authors published no code: this is
    implemented from the paper's text. The paper bounds staleness without a number; ``bound`` is ours. Eq. 5 contradicts
    its explanation (erratum SY-1): ``formula="printed"`` is the other reading, with fewer bits and larger errors. No
    reading of formula and ``thresholds`` reproduces all of Tables X, XI and XII (erratum SY-3, measured in
    :mod:`gnnqlab.course.experiments.sylvie_readings`). The defaults: the text where it contradicts the formula, since
    it explains the purpose of the rule, and the flatter thresholds, since Table XII, the only one that needs steep
    ones, is not reproduced by the text's formula with either.
    """
    bits = Orchestrated(bit_widths=bit_widths, delta=delta, momentum=momentum, formula=formula, thresholds=thresholds)
    return replace(
        vanilla(),
        name="sylvie",
        codec=Stochastic(parameters=parameters),
        bits=bits,
        schedule=AdaptivePipeline(bound=bound, dropped_by=dropped_by),  # section V-B
    )
