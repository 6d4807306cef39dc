"""Rival for whole epochs: GCN, GraphSAGE and GAT of ``dgl.nn``, on dense features or on stored values of sparse ones.

DGL's layers take dense rows. If 99.6 % of them are zeros, the first product dominates the epoch and hides the layers;
so there is a second rival with ``torch.sparse.mm`` over the stored values as first product, and DGL's aggregations.
Both compute the same function of the same weights.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional

if TYPE_CHECKING:
    from gnnqlab.graph.graph import Graph
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.loop.objective import Scores

__all__ = ["DglTraining", "Rival", "as_csr", "structure_of"]


class Rival(nn.Module):
    """Our model as a stack of ``dgl.nn`` layers.

    Args:
        structure: the graph as a DGL graph.
        model: ``gcn``, ``graphsage``, or ``gat`` of one head.
        settings: hidden size, depth and dropout.
        num_features, num_classes: columns in and out.
        sparse: True if features are a sparse CSR tensor.
    """

    def __init__(
        self, structure: Any, model: str, settings: ModelSettings, num_features: int, num_classes: int, *, sparse: bool
    ) -> None:
        from dgl.nn.pytorch import GATConv, GraphConv, SAGEConv

        super().__init__()
        self.structure, self.p = structure, settings.dropout
        widths = settings.widths(num_features, num_classes)  # columns of every layer, from input to output
        make: dict[str, Callable[[int, int], nn.Module]] = {
            "gcn": lambda width_in, width_out: GraphConv(width_in, width_out, norm="both"),
            "graphsage": lambda width_in, width_out: SAGEConv(width_in, width_out, "mean"),
            "gat": lambda width_in, width_out: GATConv(width_in, width_out, num_heads=1, allow_zero_in_degree=True),
        }
        self.convolutions = nn.ModuleList(make[model](*pair) for pair in itertools.pairwise(widths))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for width in widths[1:-1])  # no norm after the last layer
        if sparse:
            # only the first layer has sparse input
            layer_type = {"gcn": _SparseGraphConv, "graphsage": _SparseSAGEConv}[model]
            self.convolutions[0] = layer_type(self.convolutions[0], widths[1])  # shares its weights

    def forward(self, h: Tensor, blocks: Sequence[Any] | None = None) -> Tensor:
        """Return logits: over the whole structure, or over DGL's blocks, one per layer."""
        for index, convolution in enumerate(self.convolutions):
            if index > 0:
                h = functional.dropout(h, self.p, self.training)  # no dropout of the input features
            # (N, heads, F) -> (N, F), with one head
            h = convolution(self.structure if blocks is None else blocks[index], h).flatten(1)
            if index < len(self.norms):
                h = functional.relu(self.norms[index](h))
        return h


class _SparseGraphConv(nn.Module):
    """``GraphConv`` after a sparse product; projection and scaling by degrees commute."""

    def __init__(self, dense_layer: Any, width: int) -> None:
        from dgl.nn.pytorch import GraphConv

        super().__init__()
        self.weight = dense_layer.weight
        self.sums = GraphConv(width, width, norm="both", weight=False)  # aggregation without weights of its own
        self.sums.bias = dense_layer.bias

    def forward(self, structure: Any, x: Tensor) -> Tensor:
        rows: Tensor = self.sums(structure, torch.sparse.mm(x, self.weight))  # (N, D) sparse x (D, width) -> (N, width)
        return rows


class _SparseSAGEConv(nn.Module):
    """``SAGEConv`` with two sparse products as projections, before the aggregation, as DGL does for wide rows."""

    def __init__(self, dense_layer: Any, _: int) -> None:
        super().__init__()
        self.fc_self, self.fc_neigh = dense_layer.fc_self, dense_layer.fc_neigh

    def forward(self, structure: Any, x: Tensor) -> Tensor:
        from dgl import function

        with structure.local_scope():
            structure.ndata["h"] = torch.sparse.mm(x, self.fc_neigh.weight.t())
            # mean over in-neighbours of the projected rows
            structure.update_all(function.copy_u("h", "m"), function.mean("m", "neigh"))
            self_rows: Tensor = torch.sparse.mm(x, self.fc_self.weight.t()) + self.fc_self.bias
            return self_rows + structure.ndata["neigh"]


def structure_of(graph: Graph) -> Any:
    """Return the graph as a DGL graph, with all formats built."""
    import dgl

    # DGL needs a target per edge: expand the CSR pointer
    destination = torch.repeat_interleave(torch.arange(graph.num_nodes), graph.in_degrees)
    structure = dgl.graph((graph.indices.long(), destination), num_nodes=graph.num_nodes)
    structure.create_formats_()  # build all formats before the measurement
    return structure


def as_csr(graph: Graph) -> Tensor:
    """Return sparse features as a sparse CSR tensor of PyTorch.

    Raises:
        ValueError: if the features are dense.
    """
    from gnnqlab.graph.features import SparseRows

    rows = graph.features
    if not isinstance(rows, SparseRows):
        raise ValueError("features must be sparse for a product of stored values, got dense ones")
    csr = (rows.indptr.long(), rows.indices.long(), rows.values)
    with warnings.catch_warnings():  # PyTorch warns that CSR is a beta feature
        warnings.simplefilter("ignore")
        return torch.sparse_csr_tensor(*csr, rows.shape, check_invariants=True)


class DglTraining:
    """Training of ``dgl.nn`` layers with the interface of :class:`gnnqlab.train.loop.trainer.Trainer`.

    Args:
        graph: the whole graph.
        settings: settings of the model; ``gcn``, ``graphsage``, or ``gat`` of one head.
        seed: seed of weights and dropout, which DGL draws itself.
        lr: learning rate of Adam.
    """

    def __init__(self, graph: Graph, settings: ModelSettings, *, seed: int, lr: float) -> None:
        from gnnqlab.train.loop.node_labels import label_objective

        # weights of DGL's own initialization, without changing the caller's random state
        with torch.random.fork_rng(devices=()):
            torch.manual_seed(seed)
            self.network = Rival(
                structure_of(graph), settings.name, settings, graph.num_features, graph.num_classes, sparse=False
            )
        self.features = graph.features if isinstance(graph.features, torch.Tensor) else graph.features.to_dense()
        self.objective, self.seed = label_objective(graph), seed
        self.optimizer = torch.optim.Adam(self.network.parameters(), lr=lr)

    def epoch(self, epoch: int) -> float:
        """Train one epoch and return its loss."""
        self.network.train()
        with torch.random.fork_rng(devices=()):
            torch.manual_seed((self.seed << 20) + epoch)  # a different dropout mask in every epoch
            self.optimizer.zero_grad()
            loss = self.objective.loss(self.network(self.features))
            loss.backward()
        self.optimizer.step()
        return float(loss.detach())

    @torch.no_grad()
    def evaluate(self, epoch: int) -> Scores:
        """Return the scores of the current weights."""
        self.network.eval()
        return self.objective.scores(self.network(self.features), distributed=False)
