"""Check that a model and a system support edge features."""

from __future__ import annotations

from gnnqlab.graph.edge_data import refuse_features
from gnnqlab.nn.models.registry import ModelSettings, edges_in
from gnnqlab.systems.system import System

__all__ = ["require_edges"]


def require_edges(model: ModelSettings, system: System, edge_features: int) -> None:
    """Raise if a graph has edge features that the model or the system would ignore.

    Under an edge-cut they are stored with the destination of their edge. Under a vertex-cut the edges of a node are
    spread over several workers, exchanges of blocks send rows without edges, and exchanges of columns have parts of the
    rows of an edge. A model with terms of both ends and the edge needs complete rows of the present epoch, and computes
    these terms in float32.

    Args:
        model, system: of the run.
        edge_features: number of features per edge; 0 for none.

    Raises:
        ValueError: with the part that does not support them, and the alternatives.

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
        refuse_features(f"model {model.name}", "uses features of nodes only")
    if (cuts := system.exchange.takes_cuts_of) != "nodes":
        reasons = {
            "edges": "has parts of the sums over a node's edges",
            "columns": "splits the columns of rows, and an edge's features belong to whole rows",
        }
        reason = reasons.get(cuts, "moves blocks of rows without their edges")
        refuse_features(f"exchange {type(system.exchange).__name__}", reason)
    if use == "rows" and (reason := _no_whole_rows(system)):
        raise ValueError(
            f"model {model.name} has a term for each edge and its two rows, got {reason}, or model graphsage, or take "
            "graph.without_edge_features()"
        )


def _no_whole_rows(system: System) -> str:
    """Return the part that denies a worker complete float32 rows of this epoch, with an alternative; empty if none."""
    schedule = type(system.schedule).__name__
    if system.schedule.lag:
        return f"schedule {schedule}, which uses rows of an earlier epoch; choose Synchronous() or Overlapped()"
    if system.schedule.in_turn:
        return f"schedule {schedule}, which has the rows of one worker at a time; choose Synchronous() or Overlapped()"
    if system.sampler.p < 1.0:
        return f"sampler {type(system.sampler).__name__}, which omits rows; choose AllRows()"
    if not system.compute.remade:
        return f"compute {type(system.compute).__name__}, which does not support such terms; choose float32"
    return ""
