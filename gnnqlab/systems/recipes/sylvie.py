"""SYLVIE (Zhang et al., 2023): widths by node and by time, staleness by time. Written from the paper, not from code."""

from __future__ import annotations

from dataclasses import replace

from gnnqlab.bits.orchestrator import HALVES, Orchestrated
from gnnqlab.exchange.schedules.pipeline import AdaptivePipeline
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems.recipes.vanilla import vanilla
from gnnqlab.systems.system import System, register_system

__all__ = ["sylvie"]


@register_system
def sylvie(
    *,
    delta: int = 5,
    momentum: float = 0.9,
    among: tuple[int, ...] = (1, 2, 4, 8),
    formula: str = "text",
    thresholds: tuple[float, ...] = HALVES,
    bound: int = 10,
    dropped_by: str = "owner",
    parameters: str = "bfloat16",
) -> System:
    """SYLVIE: 1 to 8 bits, wider for nodes of high in-degree and as training slows; until then rows an epoch old.

    Sections IV-A (importance), V-A (Quant Orchestrator), V-B (Pipeline Adaptor). No code of the authors is known: this
    is built from the paper's text. It bounds staleness without a number; ``bound`` is ours. Eq. 5 contradicts its
    explanation (erratum SY-1): ``formula="printed"`` is the other reading, which saves more and errs more. No reading
    of formula and ``thresholds`` reproduces all of Tables X, XI and XII (erratum SY-3, which
    :mod:`gnnqlab.course.experiments.sylvie_readings` measures). The default: the text where formula and text
    contradict, as it says what the rule is for, and the flatter thresholds, as the one table that asks for steep ones,
    XII, is out of the text's reach with either.
    """
    bits = Orchestrated(among=among, delta=delta, momentum=momentum, formula=formula, thresholds=thresholds)
    return replace(
        vanilla(),
        name="sylvie",
        codec=Stochastic(parameters=parameters),
        bits=bits,
        schedule=AdaptivePipeline(bound=bound, dropped_by=dropped_by),
    )
