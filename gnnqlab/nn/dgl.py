"""Low-bit products for unmodified DGL models.

Inside ``with tango():`` a model's matrix products run on integer codes, forward and backward (TANGO, Chen et al., SC
2023, whose artifact changes DGL's sources instead):

* ``torch.nn.functional.linear`` and ``torch.matmul`` with a weight matrix, ``@`` with a parameter;
* ``dgl.ops.segment_mm`` and larger ``gather_mm``: a weight for each type, as in ``TypedLinear``, also inside messages;
* aggregation by ``update_all`` with built-in functions: ``copy_u``, ``copy_e`` and ``u_mul_e`` with ``sum`` or
  ``mean``, as in ``GraphConv``, ``SAGEConv``, ``GATConv`` and similar layers; together with the line above,
  ``RelGraphConv`` and ``HGTConv``;
* ``u_add_v`` and ``u_dot_v`` if ``exact_logits=False``.

All other operations run unchanged; products among them are counted in :attr:`Tango.unchanged_products`: maxima,
batched matrices (``bmm``: ``RelGraphConv`` with block-diagonal weights), ``@`` between results, other dtypes.
``edge_softmax`` is never quantized.

Full precision must be requested, since a model does not reveal which layer precedes the loss: ``exact=`` lists modules
whose products stay in float32, usually the last layer. Edge scalars (attention logits, link scores) stay in float32
with ``exact_logits=True``: an exponential amplifies their errors, and section 3.2 of the paper exempts them, though
section 3.3 quantizes them.

A block applies to the thread that opened it, while it is open; of nested blocks the innermost applies. Other threads
run PyTorch and DGL unchanged. A backward pass uses the block of its forward pass, wherever it runs.
"""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.compute.codes import Quantized
from gnnqlab.compute.edge_products import EdgeAdd, EdgeDot, EdgeSum, WeightedSum
from gnnqlab.compute.gradients import LinearByType, LinearFunction
from gnnqlab.compute.int8 import Int8Products, QuantizedProducts
from gnnqlab.compute.products import PassRows
from gnnqlab.former_names import FormerMember
from gnnqlab.kernels.sparse.head_sums import WAYS
from gnnqlab.nn.dgl_edges import edges_of

__all__ = ["Tango", "tango"]

_passes = itertools.count()  # numbers the openings of all blocks, so that noise differs


def tango(
    *,
    bits: int = 8,
    scale: str = "row",
    rounding: str = "stochastic",
    exact: nn.Module | Sequence[nn.Module] = (),
    exact_logits: bool = True,
    head_way: str = "measured",
    seed: int = 0,
) -> Tango:
    """Create a context manager in which unmodified DGL models train with products of integer codes; see the module.

    Args:
        bits, scale, rounding: as for :class:`gnnqlab.compute.int8.Int8Products`.
        exact: modules whose products stay in float32, usually the layer before the loss.
        exact_logits: keep edge scalars in float32. With one scale per row, the scalar of a single head is its own
            scale, so the sum of both ends is exact in either case.
        head_way: method of aggregating heads, one of :data:`gnnqlab.kernels.sparse.head_sums.WAYS`: all in one pass,
            one by one, or the faster of the two, measured once per process.
        seed: seed of the rounding noise, which differs each time the block is opened.

    Raises:
        ValueError: if a setting is unknown.

    Example:
        .. code-block:: python

            with gq.tango(exact=model.last):
                loss = functional.cross_entropy(model(graph, features), labels)
            loss.backward()
    """
    if isinstance(bits, str):
        raise ValueError(f"bits must be a number here, got {bits!r}; an automatic choice needs epochs")
    settings = Int8Products(bits=bits, scale=scale, rounding=rounding)
    modules = (exact,) if isinstance(exact, nn.Module) else tuple(exact)
    if head_way not in WAYS:
        raise ValueError(f"head_way must be one of {WAYS}, got {head_way!r}")
    products = QuantizedProducts(settings)
    products.head_way = head_way
    return Tango(products, modules, exact_logits, seed)


@dataclass(eq=False)
class Tango:
    """Context manager with quantized products; it may be reopened, by one thread at a time."""

    products: QuantizedProducts
    exact: tuple[nn.Module, ...]
    exact_logits: bool
    seed: int
    quantized_products: dict[str, int] = field(default_factory=dict)
    """Number of quantized products in forward passes, by kind, since the block was created."""
    unchanged_products: dict[str, int] = field(default_factory=dict)
    """Number of products that ran unchanged, by kind, without those in float32 by request."""
    _hooks: list[Any] = field(default_factory=list)
    _paused: int = 0
    _open: bool = False

    taken = FormerMember("quantized_products")
    left = FormerMember("unchanged_products")

    @property
    def quantized(self) -> Quantized:
        """Numbers of quantized elements and of operand elements, forward and backward."""
        return self.products.quantized

    def __enter__(self) -> Tango:
        if self._open:
            raise RuntimeError("a block cannot be opened while it is open; call tango() for another one")
        _install()
        self._open, self._paused = True, 0
        empty_ids = torch.empty(0, dtype=torch.int64)
        # The number of the opening stands for the epoch, which has 32 bits.
        self.products.begin(PassRows(empty_ids, self.seed, next(_passes) % 2**32))
        for module in self.exact:
            self._hooks.append(module.register_forward_pre_hook(self._pause))
            self._hooks.append(module.register_forward_hook(self._resume, always_call=True))  # also after an exception
        _blocks().append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _blocks().remove(self)
        while self._hooks:
            self._hooks.pop().remove()
        self._open = False
        _uninstall()

    @contextmanager
    def exactly(self) -> Iterator[None]:
        """Run products in float32 within a part of the block."""
        self._paused += 1
        try:
            yield
        finally:
            self._paused -= 1

    def _pause(self, *_: Any) -> None:
        self._paused += 1

    def _resume(self, *_: Any) -> None:
        self._paused -= 1

    def linear(self, x: Tensor, weight: Tensor) -> Tensor | None:
        """Compute ``x weight``, or return None unless ``x`` is at least a matrix, ``weight`` a matrix, both float32."""
        if weight.dim() != 2 or x.dim() < 2 or not _float32(x, weight) or 0 in x.shape:
            self._leave("dense")
            return None
        self._take("dense")
        product: Tensor = LinearFunction.apply(x if x.dim() == 2 else x.reshape(-1, x.shape[-1]), weight, self.products)
        return product.view(*x.shape[:-1], weight.shape[1])  # (M, O) -> (..., O)

    def by_type(self, x: Tensor, weights: Tensor, lengths: Tensor) -> Tensor | None:
        """Multiply each segment of rows by the weight of its type, or return None unless both are float32.

        Args:
            x: rows sorted by type, ``(N, D)``.
            weights: ``(types, D, O)``.
            lengths: rows of each type, ``(types,)``.
        """
        if weights.dim() != 3 or x.dim() != 2 or not _float32(x, weights) or 0 in (*x.shape, *weights.shape):
            self._leave("by type")
            return None
        self._take("by type")
        product: Tensor = LinearByType.apply(x, weights, tuple(lengths.tolist()), self.products)  # (N, D) -> (N, O)
        return product

    def sums(self, gidx: Any, op: str, reduce: str, lhs: Tensor | None, rhs: Tensor | None) -> Tensor | None:
        """Compute DGL's ``gspmm`` for one edge type, or return None unless it is a sum of float32 rows."""
        kind = f"{op} {reduce}"
        if reduce != "sum" or not _float32(*(each for each in (lhs, rhs) if each is not None)):
            self._leave(kind)
            return None
        edges = edges_of(gidx)
        if op in ("copy_lhs", "copy_rhs"):
            rows = lhs if op == "copy_lhs" else rhs
            assert rows is not None
            if rows.numel() == 0:
                self._leave(kind)
                return None
            self._take(kind)
            matrix = _flat(rows).contiguous()  # (n, columns)
            if op == "copy_lhs":
                return self.products.aggregate(edges.matrix, matrix).view(-1, *rows.shape[1:])
            # ``copy_rhs`` sums rows of edges: the incidence matrix has a column per edge.
            node_sums: Tensor = EdgeSum.apply(matrix, edges.incidence, self.products)
            return node_sums.view(-1, *rows.shape[1:])
        heads = None if lhs is None or rhs is None or op != "mul" else _heads(lhs, rhs)
        if heads is None:
            self._leave(kind)
            return None
        assert lhs is not None and rhs is not None
        self._take(kind)
        weights = edges.by_row(rhs.reshape(-1, heads))  # (E, K)
        # (N, K, D), (E, K) -> (targets, K, D).
        sums: Tensor = WeightedSum.apply(weights, lhs.reshape(len(lhs), heads, -1), edges.matrix, self.products)
        return sums.view(-1, *lhs.shape[1:])

    def numbers(self, gidx: Any, op: str, lhs: Tensor, rhs: Tensor) -> Tensor | None:
        """Compute DGL's ``gsddmm`` on both ends of edges, or return None unless it adds or multiplies equal shapes."""
        if op not in ("add", "dot") or lhs.shape[1:] != rhs.shape[1:] or not _float32(lhs, rhs) or lhs.numel() == 0:
            self._leave(op)
            return None
        self._take(op)
        edges, inner_shape = edges_of(gidx), lhs.shape[1:]
        # ``dot`` sums over the last dimension; ``add`` has a result for each number.
        columns = inner_shape[-1] if op == "dot" and inner_shape else 1
        function = EdgeDot if op == "dot" else EdgeAdd
        shape = (-1, math.prod(inner_shape) // columns, columns) if op == "dot" else (-1, math.prod(inner_shape))
        edge_values: Tensor = function.apply(lhs.reshape(shape), rhs.reshape(shape), edges.matrix, self.products)
        # Back to DGL's order of edges, and to its shape of results.
        return edges.by_number(edge_values).view(-1, *((*inner_shape[:-1], 1) if op == "dot" else inner_shape))

    def _take(self, kind: str) -> None:
        self.quantized_products[kind] = self.quantized_products.get(kind, 0) + 1

    def _leave(self, kind: str) -> None:
        self.unchanged_products[kind] = self.unchanged_products.get(kind, 0) + 1


def _float32(*tensors: Tensor) -> bool:
    return all(each.dtype == torch.float32 for each in tensors)


def _heads(rows: Tensor, edges: Tensor) -> int | None:
    """Return the number of heads of edge weights, or None if an edge has a weight for each feature."""
    if math.prod(edges.shape[1:]) == 1:
        return 1  # one weight per edge
    if rows.dim() == edges.dim() and edges.shape[-1] == 1 and edges.shape[1:-1] == rows.shape[1:-1]:
        return math.prod(edges.shape[1:])
    return None


def _flat(rows: Tensor) -> Tensor:
    """Return rows as a matrix; a matrix is returned itself, so that products can reuse its cached operand."""
    return rows if rows.dim() == 2 else rows.reshape(len(rows), -1)


_thread = threading.local()
_lock = threading.Lock()
_originals: list[tuple[Any, str, Any]] = []
_opened = 0


def _blocks() -> list[Tango]:
    """Return the blocks that are open on this thread, the innermost last."""
    if not hasattr(_thread, "blocks"):
        _thread.blocks = []
    blocks: list[Tango] = _thread.blocks
    return blocks


def _block() -> Tango | None:
    """Return the innermost block of this thread, or None if there is none or it is paused."""
    blocks = _blocks()
    return blocks[-1] if blocks and not blocks[-1]._paused else None


def _install() -> None:
    """Replace the products of PyTorch and DGL by ones that check for an open block; only for the first block."""
    global _opened
    # Blocks of all threads share the replacements: the first installs them, the last removes them.
    with _lock:
        if _opened == 0:
            _replace(torch.nn.functional, "linear", _linear)
            _replace(torch, "matmul", _matmul)
            _replace(torch, "bmm", _bmm)
            _replace(Tensor, "__matmul__", _matmul_operator)
            try:
                from dgl import backend
                from dgl.ops import sddmm, spmm
            except ImportError:
                pass  # without DGL only dense products are replaced, for instance in models of torch_geometric
            else:
                _replace(spmm, "gspmm_internal", _gspmm)
                _replace(sddmm, "gsddmm_internal", _gsddmm)
                _replace(backend, "segment_mm", _segment_mm)
                _replace(backend, "gather_mm", _gather_mm)
        _opened += 1


def _uninstall() -> None:
    global _opened
    with _lock:
        _opened -= 1
        while _opened == 0 and _originals:
            place, name, original = _originals.pop()
            if original is None:
                delattr(place, name)  # the original is an inherited attribute, so nothing is to be restored
            else:
                setattr(place, name, original)


def _replace(place: Any, name: str, make: Callable[[Any], Any]) -> None:
    # None for an inherited attribute: it is then deleted at the end, not restored.
    _originals.append((place, name, vars(place).get(name)))
    setattr(place, name, make(getattr(place, name)))


def _linear(original: Any) -> Any:
    def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Any:
        block = _block()
        product = None if block is None else block.linear(input, weight.t())  # (O, D) -> (D, O)
        if product is None:
            return original(input, weight, bias)
        return product if bias is None else product + bias

    return linear


def _matmul(original: Any) -> Any:
    def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Any:
        block = _block()
        product = None if block is None or out is not None else block.linear(input, other)
        return original(input, other, out=out) if product is None else product

    return matmul


def _matmul_operator(original: Any) -> Any:
    def matmul_operator(self: Tensor, other: Any) -> Any:
        block, product = _block(), None
        # A product of two results may have any meaning; a parameter is a weight.
        if block is not None and isinstance(other, nn.Parameter):
            product = block.linear(self, other)
        elif block is not None:
            block._leave("@")
        return original(self, other) if product is None else product

    return matmul_operator


def _bmm(original: Any) -> Any:
    def bmm(*operands: Any, **settings: Any) -> Any:
        block = _block()
        if block is not None:
            block._leave("bmm")
        return original(*operands, **settings)

    return bmm


def _segment_mm(original: Any) -> Any:
    def segment_mm(a: Tensor, b: Tensor, seglen_a: Tensor) -> Any:
        block = _block()
        if block is None:
            return original(a, b, seglen_a)
        product = block.by_type(a, b, seglen_a)
        with block.exactly():  # products inside the original are not counted again
            return original(a, b, seglen_a) if product is None else product

    return segment_mm


def _gather_mm(original: Any) -> Any:
    def gather_mm(*operands: Any, **settings: Any) -> Any:
        block = _block()
        if block is None:
            return original(*operands, **settings)
        block._leave("gather_mm")  # DGL uses it up to width 8, and segment_mm for wider rows
        with block.exactly():
            return original(*operands, **settings)

    return gather_mm


def _gspmm(original: Any) -> Any:
    def gspmm(gidx: Any, op: str, reduce_op: str, lhs_data: Tensor | None, rhs_data: Tensor | None) -> Any:
        block = _block()
        sums = None if block is None else block.sums(gidx, op, reduce_op, lhs_data, rhs_data)
        return original(gidx, op, reduce_op, lhs_data, rhs_data) if sums is None else sums

    return gspmm


def _gsddmm(original: Any) -> Any:
    def gsddmm(gidx: Any, op: str, lhs_data: Any, rhs_data: Any, lhs_target: str = "u", rhs_target: str = "v") -> Any:
        block, ends = _block(), (lhs_target, rhs_target)
        edge_values = None
        if block is not None and not block.exact_logits and op in ("add", "dot"):
            if ends == ("u", "v"):
                edge_values = block.numbers(gidx, op, lhs_data, rhs_data)
            elif ends == ("v", "u"):
                edge_values = block.numbers(gidx, op, rhs_data, lhs_data)  # both operations are symmetric
            else:
                block._leave(op)
        return original(gidx, op, lhs_data, rhs_data, lhs_target, rhs_target) if edge_values is None else edge_values

    return gsddmm
