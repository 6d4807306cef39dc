"""``Graph``: one attributed graph in main memory, checked at construction.

Shape legend: N nodes, E edges, D features, F features of an edge, C classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from gnnqlab.attached import attached
from gnnqlab.graph.arguments import as_any_targets, as_features, as_mask
from gnnqlab.graph.arrays import GraphArrays
from gnnqlab.graph.checks import check_graph, check_trainable
from gnnqlab.graph.describe import describe, html_table, one_line
from gnnqlab.graph.edge_attributes import as_array
from gnnqlab.graph.edges import SelfLoops, build_csr
from gnnqlab.graph.features import degree_features
from gnnqlab.graph.ids import as_class_names, as_ids
from gnnqlab.graph.split import random_split
from gnnqlab.graph.storage import load_graph, save_graph

__all__ = ["Graph"]


@dataclass(frozen=True, eq=False, kw_only=True, repr=False)
class Graph(GraphArrays):
    """A graph as CSR by destination, with node features, targets and a split.

    Row ``v`` of ``(indptr, indices)`` lists, in ascending order, the sources ``u`` of the edges
    ``u -> v``, which node ``v`` aggregates. An undirected graph holds every edge in both directions.
    Use ``Graph.from_edges`` to build one from an edge list; the constructor takes arrays in their
    final form and checks each of them. Do not change the tensors afterwards: ``content_hash`` is
    computed once.

    A graph without labels (all -1, ``num_classes=0``) or without a split (three empty masks) can be
    partitioned; ``check_trainable`` checks the requirements of training.

    Args:
        name: name of the graph in reports.
        indptr: int64, shape ``(N + 1,)``.
        indices: int32, shape ``(E,)``, in ``[0, N)``.
        features: float32, shape ``(N, D)``, finite, or ``SparseRows`` of that shape; D may be 0.
        labels: int64, shape ``(N,)``, in ``[0, num_classes)`` or -1 for "unlabelled"; or uint8,
            shape ``(N, C)``, 0 or 1, when a node may have several classes; or float32, shape ``(N, K)``, numbers to
            predict (regression), NaN for "unknown".
        train_mask, val_mask, test_mask: bool, shape ``(N,)``, disjoint, over labelled nodes.
        num_classes: number of classes C, or of numbers to predict K.
        edge_weights: float32, shape ``(E,)`` in the order of ``indices``, finite and above 0, or ``None``.
        edge_features: float32, shape ``(E, F)`` in the order of ``indices``, finite, F at least 1, or ``None``.
        ids: the user's ids of the nodes, unique integers or texts, a NumPy array of shape ``(N,)``; ``None`` for their
            positions 0 to N - 1. See ``index_of``.
        class_names: names of the classes, a tuple of C texts or numbers; ``None`` for 0 to C - 1.
        notes: sentences on how the graph was read: what was detected, and what was left out and why.

    Raises:
        TypeError, ValueError: the text has the rule, the value and the way out.

    Example:
        >>> g = Graph.from_edges([0, 1], [1, 2], num_nodes=3, labels=[0, 1, 1], train_idx=[0, 1])
        >>> g.num_nodes, g.num_edges, g.in_degrees.tolist(), g.is_symmetric
        (3, 7, [2, 3, 2], True)
    """

    def __post_init__(self) -> None:
        check_graph(self)

    @classmethod
    def from_edges(
        cls,
        src: object,
        dst: object,
        *,
        num_nodes: int,
        edge_weights: object = None,
        edge_features: object = None,
        features: object = None,
        labels: object = None,
        targets: object = None,
        train_idx: object = None,
        val_idx: object = None,
        test_idx: object = None,
        name: str = "graph",
        num_classes: int | None = None,
        symmetrize: bool = True,
        deduplicate: bool = True,
        self_loops: SelfLoops = "add",
        ids: object = None,
        class_names: Sequence[Any] | None = None,
        notes: Sequence[str] = (),
    ) -> Graph:
        """Build a graph from an edge list in any order.

        The defaults are the papers' convention: symmetrize, keep each edge once, remove the given
        self loops and add exactly one per node.

        Args:
            src, dst: integers, shape ``(M,)``, the edges ``src[i] -> dst[i]``; any array-like.
            num_nodes: number of nodes N.
            edge_weights: ``None``, or finite numbers of at least 0, shape ``(M,)``; edges of weight 0 are dropped. An
                added self loop has weight 1; see ``build_csr``. Weights that are all 1 are dropped.
            edge_features: ``None``, or finite numbers, shape ``(M, F)`` or ``(M,)``. The reverse of an edge has its
                features, an added self loop zeros, and a deduplicated edge must have one row; see ``build_csr``.
            features: ``None``, anything array-like of shape ``(N, D)``, a ``scipy.sparse`` matrix
                or ``SparseRows``; converted to float32.
            labels: ``None``, integers of shape ``(N,)`` with -1 for "unlabelled", words of that shape with ``None``
                for "unlabelled", which become ``class_names``, or zeros and ones of shape ``(N, C)``.
            targets: ``None``, or numbers to predict in place of classes (regression), shape ``(N,)`` or ``(N, K)``,
                NaN for "unknown". Their scale matters: ``(y - y.mean()) / y.std()`` trains well.
            train_idx, val_idx, test_idx: node ids, or boolean masks of shape ``(N,)``. Without them the
                graph has no split; see ``with_random_split``.
            num_classes: C; by default the largest label plus one, or the number of label columns.
            symmetrize, deduplicate, self_loops: see ``build_csr``.
            ids: ``None``, or the id of each node, integers or texts; ``src`` and ``dst`` are positions nevertheless.
                :func:`gnnqlab.read_edges` reads edges between ids.
            class_names: ``None``, or a name for each class.
            notes: see the class.

        Raises:
            TypeError, ValueError: the text has the rule, the value and the way out.

        Example:
            >>> g = Graph.from_edges([0, 0], [1, 1], num_nodes=2, symmetrize=False, self_loops="keep")
            >>> g.indptr.tolist(), g.indices.tolist()
            ([0, 0, 1], [0])
        """
        structure = _structure(
            src,
            dst,
            edge_weights,
            edge_features,
            num_nodes=num_nodes,
            symmetrize=symmetrize,
            deduplicate=deduplicate,
            self_loops=self_loops,
        )
        target, known_classes, class_names = as_any_targets(labels, targets, num_nodes, num_classes, class_names)
        count = known_classes if num_classes is None else num_classes
        graph = cls(
            name=name,
            **structure,
            features=as_features(features, num_nodes),
            labels=target,
            train_mask=as_mask("train_idx", train_idx, num_nodes),
            val_mask=as_mask("val_idx", val_idx, num_nodes),
            test_mask=as_mask("test_idx", test_idx, num_nodes),
            num_classes=count,
            ids=as_ids(ids, num_nodes),
            class_names=as_class_names(class_names, count),
            notes=(*notes, *_edge_notes(src, dst, edge_weights, edge_features, self_loops)),
        )
        # Every reverse edge was added, so symmetry need not be computed.
        if symmetrize:
            graph.__dict__["is_symmetric"] = True
        return graph

    # ---- structure ---------------------------------------------------------------------------

    def with_edge_rules(
        self,
        *,
        symmetrize: bool = False,
        deduplicate: bool = False,
        self_loops: SelfLoops = "keep",
    ) -> Graph:
        """Return the graph with other edge rules; by default nothing changes.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=2)
            >>> g.num_edges, g.with_edge_rules(self_loops="remove").num_edges
            (4, 2)
        """
        if not symmetrize and not deduplicate and self_loops == "keep":
            return self
        structure = _structure(
            *self.edge_list(),
            self.edge_weights,
            self.edge_features,
            num_nodes=self.num_nodes,
            symmetrize=symmetrize,
            deduplicate=deduplicate,
            self_loops=self_loops,
        )
        lost = _edge_notes(*self.edge_list(), self.edge_weights, self.edge_features, self_loops)
        # Cached properties are not copied: other edges may be symmetric, or not.
        return Graph(**{**self._fields(), **structure, "notes": (*self.notes, *lost)})

    def without_edge_weights(self) -> Graph:
        """Return the graph without edge weights.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=2, edge_weights=[0.5])
            >>> g.edge_weights.tolist(), g.without_edge_weights().edge_weights
            ([1.0, 0.5, 0.5, 1.0], None)
        """
        # Not _replace(), since symmetry depends on the weights.
        return Graph(**{**self._fields(), "edge_weights": None})

    def without_edge_features(self) -> Graph:
        """Return the graph without edge features.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=2, edge_features=[[0.5, 2.0]])
            >>> g.edge_features.tolist(), g.without_edge_features().edge_features
            ([[0.0, 0.0], [0.5, 2.0], [0.5, 2.0], [0.0, 0.0]], None)
        """
        return self._replace(edge_features=None)

    # ---- targets and splits ------------------------------------------------------------------

    @property
    def train_idx(self) -> Tensor:
        """Training nodes, int64, ascending."""
        return self.train_mask.nonzero().flatten()

    @property
    def val_idx(self) -> Tensor:
        """Validation nodes, int64, ascending."""
        return self.val_mask.nonzero().flatten()

    @property
    def test_idx(self) -> Tensor:
        """Test nodes, int64, ascending."""
        return self.test_mask.nonzero().flatten()

    @property
    def has_split(self) -> bool:
        """True if there is a train split."""
        return bool(self.train_mask.any())

    def check_trainable(self, *, features: bool = True) -> None:
        """Check that the graph has features, labels and a train split.

        Args:
            features: False for a training that needs no features of the graph.

        Raises:
            ValueError: without features, labels or a train split.

        Example:
            >>> Graph.from_edges([0], [1], num_nodes=2, name="bare").check_trainable()
            Traceback (most recent call last):
            ValueError: training needs features, labels and a train split, graph 'bare' has no features, labels, ...
        """
        check_trainable(self, features=features)

    def with_degree_features(self) -> Graph:
        """Return the graph with 16 columns of its in-degrees as features, for a graph without features.

        See :func:`gnnqlab.graph.features.degree_features`; on a graph with edge weights degrees are their sums.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=2)
            >>> g.num_features, g.with_degree_features().num_features
            (0, 16)
        """
        return self._replace(features=degree_features(self.weighted_in_degrees))

    def with_split(self, train_idx: object, val_idx: object = None, test_idx: object = None) -> Graph:
        """Return the graph with another split, given as node ids or masks.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=2, labels=[0, 1]).with_split([0], [1])
            >>> g.train_idx.tolist(), g.val_idx.tolist()
            ([0], [1])
        """
        masks = {
            "train_mask": as_mask("train_idx", train_idx, self.num_nodes),
            "val_mask": as_mask("val_idx", val_idx, self.num_nodes),
            "test_mask": as_mask("test_idx", test_idx, self.num_nodes),
        }
        return self._replace(**masks)

    def with_random_split(self, *, seed: int = 0, train: float = 0.6, val: float = 0.2) -> Graph:
        """Return the graph with a random split over its labelled nodes, as ``load`` does for graphs without one.

        Args:
            seed, train, val: see ``random_split``.

        Raises:
            ValueError: if no node has a label, or a share is outside its range.

        Example:
            >>> g = Graph.from_edges([0], [1], num_nodes=5, labels=[0, 1, 0, 1, 0]).with_random_split()
            >>> [int(mask.sum()) for mask in (g.train_mask, g.val_mask, g.test_mask)]
            [3, 1, 1]
        """
        if not self.num_classes or not self.num_labelled:
            raise ValueError(f"a split needs labelled nodes, graph {self.name!r} has none; pass labels=")
        return self.with_split(*random_split(self.is_labelled.nonzero().flatten(), seed=seed, train=train, val=val))

    # ---- disk, display -----------------------------------------------------------------------

    def save(self, path: str | Path) -> Path:
        """Write a folder of plain ``.npy`` arrays and a ``graph.json``; return its path.

        An existing saved graph at that path is replaced in one step; anything else is refused.
        """
        return save_graph(self, Path(path))

    @classmethod
    def load(cls, path: str | Path, *, mmap: bool | None = None) -> Graph:
        """Read a folder written by ``save``.

        Args:
            path: the folder.
            mmap: True to map the arrays into memory instead of reading them; pages are read on
                first use and values are not checked again. By default True above 1 GiB.

        Raises:
            ValueError: if the folder is not a saved graph, or is damaged.
        """
        return load_graph(cls, Path(path), mmap=mmap)

    def to_dgl(self) -> Any:
        """Convert the graph to a ``dgl.DGLGraph``, see :func:`gnnqlab.graph.convert.frameworks.to_dgl`.

        Raises:
            RuntimeError: if DGL is not installed.
        """
        return attached("graph.to_dgl")(self)

    def describe(self) -> dict[str, Any]:
        """Return the main properties as numbers and strings that can be stored as JSON.

        Example:
            >>> Graph.from_edges([0], [1], num_nodes=2, name="pair").describe()["mean_degree"]
            2.0
        """
        return describe(self)

    def __repr__(self) -> str:
        return one_line(self)

    def _repr_html_(self) -> str:
        return html_table(self)

    # ---- inside ------------------------------------------------------------------------------

    def _fields(self) -> dict[str, Any]:
        return {field: getattr(self, field) for field in self.__dataclass_fields__}

    def _replace(self, **changes: Any) -> Graph:
        """Replace fields as ``dataclasses.replace``, and copy cached properties of an unchanged structure."""
        graph = Graph(**{**self._fields(), **changes})
        # The structure is unchanged, so these hold for the new graph, and need not be computed again.
        for field in ("is_symmetric", "in_degrees", "out_degrees"):
            if field in self.__dict__ and "indices" not in changes:
                graph.__dict__[field] = self.__dict__[field]
        return graph


def _structure(src: object, dst: object, weights: object, features: object, **rules: Any) -> dict[str, Any]:
    """Return the fields of a graph that depend on edge rules."""
    csr = build_csr(src, dst, weights, features, **rules)
    fields = {"indptr": csr.indptr, "indices": csr.indices, "edge_weights": _unless_all_one(csr.weights)}
    return fields if features is None else {**fields, "edge_features": csr.features}


def _edge_notes(src: object, dst: object, weights: object, features: object, self_loops: SelfLoops) -> tuple[str, ...]:
    """Return sentences on edges of weight 0, and on attributes of self loops that the edge rules replace."""
    if weights is None and features is None:
        return ()
    notes = []
    event = "replaced by one of weight 1 for each node" if self_loops == "add" else "removed"
    loops = as_array(src) == as_array(dst)  # (M,)
    if weights is not None:
        values = as_array(weights).reshape(-1)
        if count := int((values == 0).sum()):
            notes.append(f"{count} edges of weight 0 were left out")
        if self_loops != "keep" and (count := int(((values != 1) & loops).sum())):
            notes.append(f"{count} self loops with other weights than 1 were {event}; self_loops='keep' keeps them")
    if features is not None and self_loops != "keep":
        rows = as_array(features)[loops] != 0  # (loops, F) or (loops,)
        is_lost = rows.any(axis=1) if rows.ndim == 2 else rows
        if count := int(is_lost.sum()):
            event = "replaced by zeros" if self_loops == "add" else "removed"
            notes.append(f"features of {count} self loops were {event}; self_loops='keep' keeps them")
    return tuple(notes)


def _unless_all_one(weights: Tensor | None) -> Tensor | None:
    """Return weights, or ``None`` if all are 1, which is equivalent to an unweighted graph."""
    return None if weights is None or bool((weights == 1).all()) else weights
