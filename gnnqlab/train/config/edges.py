"""Which model and system can train on a graph whose edges have features."""

from __future__ import annotations

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.nn.models.registry import ModelSettings, edges_in
from gnnqlab.systems.system import System

__all__ = ["require_edges"]


def require_edges(model: ModelSettings, system: System, edge_features: int) -> None:
    """Refuse features of edges where somebody would not look at them.

    They lie with the destination of their edge under a cut of nodes; under a cut of edges a node's edges lie on
    several workers, and blocks come without. A model that has terms of both ends and the edge needs whole rows of this
    epoch, and computes its terms in float32.

    Args:
        model, system: of the run.
        edge_features: how many each edge has; 0 for none.

    Raises:
        ValueError: saying what refuses them, and the ways out.

    Example:
        >>> from gnnqlab.systems import cdfgnn
        >>> require_edges(ModelSettings(name="graphsage"), cdfgnn(), 2)
        Traceback (most recent call last):
        ValueError: exchange Replicas has parts of the sums over a node's edges, got a graph whose edges have featu...
    """
    if not edge_features:
        return
    use = edges_in(model.name)
    if use == "none":
        refuse_features(f"model {model.name}", "looks at nodes alone")
    if (cuts := system.exchange.takes_cuts_of) != "nodes":
        parts, blocks = "has parts of the sums over a node's edges", "moves blocks of rows without their edges"
        refuse_features(f"exchange {type(system.exchange).__name__}", parts if cuts == "edges" else blocks)
    if use == "rows" and (reason := _no_whole_rows(system)):
        raise ValueError(
            f"model {model.name} has a term for each edge and its two rows, got {reason}, or model graphsage, or take "
            "graph.without_edge_features()"
        )


def _no_whole_rows(system: System) -> str:
    """Say what keeps whole float32 rows of this epoch from a worker, and what does not; empty if nothing does."""
    schedule = type(system.schedule).__name__
    if system.schedule.lag:
        return f"schedule {schedule}, whose rows are of an epoch before; choose Synchronous() or Overlapped()"
    if system.schedule.in_turn:
        return f"schedule {schedule}, which has the rows of one worker at a time; choose Synchronous() or Overlapped()"
    if system.sampler.p < 1.0:
        return f"sampler {type(system.sampler).__name__}, which leaves rows out; choose AllRows()"
    if not system.compute.remade:
        return f"compute {type(system.compute).__name__}, which has no such term; choose float32"
    return ""
