"""A student's own variant of the ten nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.course.numeric.exercise import graph_of
from gnnqlab.course.student import progress
from gnnqlab.course.ten_nodes import ten_nodes

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph

__all__ = ["my_graph"]


def my_graph() -> Graph:
    """Return the graph of ten nodes that a student's exercises are about; that of the notebooks without a name.

    ``course.draw(gq.partition(course.my_graph(), course.Halves(), workers=2))`` draws it.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> my_graph().num_edges
        44
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    return ten_nodes(graph_of(progress.student()))
