"""Graphs of other libraries in memory: DGL, PyTorch Geometric, networkx and SciPy."""

from gnnqlab.graph.convert.frameworks import from_dgl, from_pyg, to_dgl
from gnnqlab.graph.convert.networkx_graphs import from_networkx
from gnnqlab.graph.convert.scipy_matrices import from_scipy

__all__ = ["from_dgl", "from_networkx", "from_pyg", "from_scipy", "to_dgl"]
