"""Neighbour sums (SpMM) that read the halo as codes: received rows are not decoded to float32 rows first.

A table has 16 bytes for each halo row: where its codes lie, its zero-point and its scale. The kernel decodes a row at
each of its uses, in registers, so it pays where rows are used by few edges (:func:`reads_codes_faster`).

Letters: N owned rows, H halo rows, D columns, n rows of a message.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from gnnqlab.kernels import native
from gnnqlab.kernels.codec.rows import WIDTHS, decode_rows, split_bits
from gnnqlab.kernels.sparse.adjacency import Adjacency, Csr

__all__ = ["CodedRows", "MessageCodes", "reads_codes_faster", "sum_codes"]

# Matrix (3), start, stop, D; x, N, stride; table of the halo; out, stride, accumulate; threads.
_codec_sum = native.declare("codec_sum", "p p p i i i p i i p p i i i")
# payload, bytes; params, are bfloat16; bits, width, offsets; table, H, D; rows, n.
_locate_codes = native.declare("locate_codes", "p i p i p i p p i i p i")

_USES, _COLUMNS = 6, 64
"""Edges per source row below which, and columns from which, reading codes of 2 and 4 bits was 1.2 to 2.5 times as
fast as decoding, with 16 to 200 thousand rows, half or more of them in the halo, on AVX-512 and AVX2 (``gnnqlab bench
spmm``); of 8 or mixed bits with few columns 0.9 to 1.4 times. With more edges
:func:`gnnqlab.kernels.sparse.aggregate.spmm` rearranges float32 rows for the cache, and codes were 0.6 to 1.9 times as
fast. A rule for each row was not built."""


@dataclass(frozen=True, eq=False)
class MessageCodes:
    """Codes of some halo rows in a received message; the fields are arguments of `decode_rows`."""

    payload: Tensor
    """Bytes of the codes, uint8."""
    params: Tensor | None
    """Zero-point and scale of each row, ``(n, 2)`` float32 or bfloat16; ``None`` for float32 rows."""
    bits: int | Tensor
    """Bit-width of all rows, 32 for float32 rows; or 1, 2, 4 or 8 for each row, uint8 ``(n,)``."""
    offsets: Tensor | None
    """First byte of each row, int64 ``(n,)``; ``None`` for consecutive rows of one bit-width."""
    rows: Tensor
    """Halo row of each, int64 ``(n,)``, each at most once."""


@dataclass(frozen=True, eq=False)
class CodedRows:
    """Halo rows ``(H, D)`` as they were received; rows in no message are zeros.

    The bytes must not change while the rows are used.

    Example:
        >>> payload, params = torch.tensor([52], dtype=torch.uint8), torch.tensor([[0.0, 1.0]])
        >>> codes = MessageCodes(payload, params, 2, None, torch.tensor([1]))
        >>> CodedRows(2, 3, (codes,)).decoded().tolist()
        [[0.0, 0.0, 0.0], [0.0, 1.0, 3.0]]
    """

    num_rows: int
    columns: int
    messages: tuple[MessageCodes, ...]

    @property
    def shape(self) -> torch.Size:
        return torch.Size((self.num_rows, self.columns))

    def numel(self) -> int:
        return self.num_rows * self.columns

    @cached_property
    def table(self) -> Tensor:
        """Place, zero-point and scale of each row, int64 ``(H, 2)``, for the kernel on a CPU.

        Raises:
            ValueError: if a row, a bit-width or an offset is invalid.
        """
        table = torch.zeros(self.num_rows, 2, dtype=torch.int64)  # (H, 2)
        for codes in self.messages:
            bits_n, width = split_bits(codes.bits)
            sixteen = codes.params is not None and codes.params.dtype == torch.bfloat16
            if refusal := _locate_codes(
                codes.payload, codes.payload.numel(), codes.params, sixteen, bits_n, width, codes.offsets, table,
                self.num_rows, self.columns, codes.rows, codes.rows.numel(),
            ):  # fmt: skip
                raise ValueError(
                    f"rows must be in [0, {self.num_rows}), bits among {WIDTHS} or 32 for all, and codes inside their "
                    f"payload of {codes.payload.numel()} bytes, got an invalid one at position {refusal // 8}"
                )
        return table

    def decoded(self) -> Tensor:
        """Decode the rows to float32 ``(H, D)``."""
        first = self.messages[0].payload if self.messages else torch.empty(0)
        out = torch.zeros(self.num_rows, self.columns, device=first.device)
        for codes in self.messages:
            if codes.params is None:
                values = codes.payload.view(torch.float32)
                out[codes.rows] = values.view(codes.rows.numel(), self.columns)  # (4 n D,) uint8 -> (n, D)
            else:
                decode_rows(codes.payload, codes.params, codes.bits, codes.offsets, out, codes.rows)
        return out


def reads_codes_faster(adj: Adjacency, rows: tuple[int, int], x: Tensor) -> bool:
    """Return True if sums of some rows of a matrix should read codes of the halo, rather than decode it first.

    Args:
        adj: the matrix, ``(R, N + H)``.
        rows: ``(start, stop)``.
        x: owned rows, ``(N, D)``.

    Example:
        >>> adj = Adjacency(torch.tensor([0, 2, 4]), torch.tensor([0, 1, 0, 1], dtype=torch.int32), num_columns=2)
        >>> reads_codes_faster(adj, (0, 1), torch.zeros(1, 8))  # few columns
        False
    """
    num_owned, columns = x.shape
    # `spmm` is faster for owned rows. First what needs no value of a tensor on a GPU.
    if x.dtype != torch.float32 or not x.is_cpu or columns < _COLUMNS or num_owned > adj.num_columns // 2:
        return False
    if not native.active(x.device):
        return False
    return int(adj.indptr[rows[1]] - adj.indptr[rows[0]]) < _USES * adj.num_columns


def sum_codes(
    csr: Csr, start: int, stop: int, x: Tensor, halo: CodedRows, out: Tensor, *, accumulate: bool = False
) -> Tensor:
    """Sum the neighbours of some rows, reading codes of the halo.

    ``out[i] = sum over edges e of row i of w_e s[indices_e]``, where s holds the rows of ``x``, then ``Z + S q`` of
    each halo row. Values and the order of sums are those of decoding and summing, so the result is identical, bit for
    bit. :func:`gnnqlab.kernels.sparse.aggregate.spmm` checks the operands.

    Args:
        csr: the matrix; must be valid, with ``N + H`` columns.
        start, stop: rows of the matrix.
        x: float32 ``(N, D)`` with contiguous rows.
        halo: codes of the halo rows.
        out: float32 ``(stop - start, D)`` with contiguous rows, written and returned.
        accumulate: True to add to ``out``.
    """
    _codec_sum(
        *csr, start, stop, halo.columns, x, x.shape[0], x.stride(0), halo.table, out, out.stride(0), accumulate,
        native.threads(),
    )  # fmt: skip
    return out
