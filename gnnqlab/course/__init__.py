"""The course: the graph of ten nodes, the figures of each notebook, and its exercises."""

from gnnqlab.course.ten_nodes import Halves, draw, ten_nodes

__all__ = ["Halves", "draw", "ten_nodes"]
