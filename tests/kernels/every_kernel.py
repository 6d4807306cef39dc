"""Run every kernel once on small and odd shapes, for compute-sanitizer: `python every_kernel.py [cuda]`.

Results are tested elsewhere; here every access counts, so shapes are odd, rows are empty, long and unaligned.
"""

from __future__ import annotations

import sys

import torch

from gnnqlab.kernels import noise
from gnnqlab.kernels.codec import rows as codec
from gnnqlab.kernels.codec.linear import encode_linear
from gnnqlab.kernels.codec.quantize import NoiseCounter, quantize
from gnnqlab.kernels.codec.rotate import ROTATED_WIDTHS, decode_rotated, encode_rotated
from gnnqlab.kernels.codec.row_errors import NOTED, row_errors
from gnnqlab.kernels.dense.code_rows import pack_pairs
from gnnqlab.kernels.dense.int8_mm import int8_mm, int8_mm_scaled, int8_mm_transposed
from gnnqlab.kernels.rowwise.jumping_knowledge import JOINS, join
from gnnqlab.kernels.rowwise.nodewise import ACTIVATIONS, Mask, Norm, nodewise, nodewise_both
from gnnqlab.kernels.rowwise.residual import residual
from gnnqlab.kernels.rowwise.row_change import row_changes
from gnnqlab.kernels.sparse.adjacency import Adjacency
from gnnqlab.kernels.sparse.aggregate import aggregate, quantize_rows, spmm
from gnnqlab.kernels.sparse.attention import attend, sddmm_add, sddmm_dot, segment_softmax, weighted_sum
from gnnqlab.kernels.sparse.codec_sum import CodedRows, MessageCodes
from gnnqlab.kernels.sparse.int8_edges import (
    incidence,
    int8_attend_columns,
    int8_attend_rows,
    int8_sddmm_add,
    int8_sddmm_dot,
    int8_weighted_sum,
    quantized_sum,
)
from gnnqlab.kernels.sparse.vertex_cut import Ends, choose_masters, empty_copies, place_by_cost, place_by_worth

SETTINGS = {"seed": 7, "epoch": 1, "stream": 2}
COLUMNS = (1, 9, 64, 130, 602, 1030)
HEADS = ((1, 7), (2, 40), (4, 64), (1, 1030))
"""Heads and features of each."""
ROWS, OWNED, HALO, EDGES = 40, 30, 17, 3000


def every_kernel(device: str) -> int:
    """Run all kernels; return the number of calls."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator).to(device)

    edges = EDGES  # half of them in row 3: more than a long row has
    row_of = torch.randint(0, ROWS - 1, (edges,), generator=generator)
    row_of[: edges // 2] = 3
    indptr = torch.zeros(ROWS + 1, dtype=torch.int64)
    indptr[1:] = torch.bincount(row_of, minlength=ROWS).cumsum(0)
    indices = torch.randint(0, OWNED + HALO, (edges,), generator=generator, dtype=torch.int32)
    weights = torch.randn(edges, generator=generator)
    adj = Adjacency(indptr, indices, weights, num_columns=OWNED + HALO).to(device)
    ids = torch.arange(OWNED, device=device)
    calls = 0
    for columns in COLUMNS:
        x, halo, grad = random(OWNED, columns), random(HALO, columns), random(ROWS, columns)
        for kind in (lambda rows: rows, lambda rows: rows.bfloat16(), quantize_rows):
            spmm(adj, kind(x), kind(halo))
        spmm(adj, grad, transposed=True, rows=(OWNED, OWNED + HALO))
        for bits in codec.WIDTHS:
            payload = torch.zeros(OWNED * int(codec.row_bytes(columns, bits)), dtype=torch.uint8, device=device)
            params, out = torch.zeros(OWNED, 2, device=device), torch.zeros(OWNED, columns, device=device)
            codec.encode_rows(x, ids.flip(0), ids, bits, None, payload, params, **SETTINGS)
            codec.decode_rows(payload, params, bits, None, out, ids, accumulate=True)
            encode_linear(x, ids.flip(0), bits, None, payload, params, torch.zeros(OWNED, device=device))
            coded = MessageCodes(payload, params, bits, None, ids.flip(0))
            spmm(adj, halo, CodedRows(OWNED, columns, (coded,)))
            calls += 4
        for bits in ROTATED_WIDTHS:
            payload = torch.zeros(OWNED * int(codec.row_bytes(columns, bits)), dtype=torch.uint8, device=device)
            scales, spreads = torch.ones(OWNED, device=device), torch.zeros(OWNED, 2, device=device)
            key = {"rotations": 2, **SETTINGS}
            encode_rotated(x, ids.flip(0), ids, bits, None, payload, scales, spreads, **key)
            decode_rotated(payload, scales, bits, None, out, ids, ids, accumulate=True, **key)
            calls += 2
        row_errors(x, ids.flip(0), torch.zeros(OWNED, NOTED, device=device))
        calls += 1
        moved, _ = row_changes(x, ids.flip(0), x.flip(0) * (1 + 0.1 * (ids % 2)[:, None]), 0.05)
        assert moved.tolist() == list(range(1, OWNED, 2))
        norm = Norm(random(columns).requires_grad_(), random(columns).requires_grad_())
        mask = Mask(ids=ids, p=0.3, **SETTINGS)
        for activation in ACTIVATIONS:
            nodewise(x.clone().requires_grad_(), norm, activation=activation, mask=mask).sum().backward()
        whole, dropped = nodewise_both(x.bfloat16().requires_grad_(), mask=mask)
        (whole + dropped).sum().backward()
        calls += 2 * (len(ACTIVATIONS) + 1)
        joined = residual(*residual(x.clone().requires_grad_(), x.clone().requires_grad_(), 0.1), 0.1)[0]
        joined.sum().backward()
        for how in JOINS:
            join([x.clone().requires_grad_(), x.flip(0).requires_grad_(), x], how, mask=mask).sum().backward()
        noise.uniform16(ids, columns, **SETTINGS)
        noise.dropout(x, ids, p=0.3, **SETTINGS)
        noise.dropout_values(x[:, 0].contiguous(), ids, ids % columns, p=0.3, **SETTINGS)
        of_rows, of_all = (
            quantize(x, noise=NoiseCounter(ids, **SETTINGS)),
            quantize(grad[:OWNED], bits=4, scale="tensor"),
        )
        packed = quantize(x, bits=4, noise=NoiseCounter(ids, **SETTINGS), packed=True)
        spmm(adj, packed, pack_pairs(quantize(halo, bits=4)))
        int8_mm(of_rows.codes, of_rows.scales, of_all.codes, 1.0, transposed=True, bias=x[:, 0].contiguous())
        int8_mm(of_rows.codes[:, :OWNED], of_rows.scales, of_all.codes[: min(columns, OWNED)], 1.0)
        int8_mm_transposed(of_rows.codes, of_all.codes, 1.0)
        int8_mm_scaled(of_rows.codes, of_all.codes, of_rows.scales)
        aggregate(adj, torch.cat([x, halo]).requires_grad_()).sum().backward()
        calls += 24
    for heads, features in HEADS:
        shapes = ((OWNED, heads, features), (OWNED, heads), (ROWS, heads), (HALO, heads, features), (HALO, heads))
        operands = [random(*shape).requires_grad_() for shape in shapes]
        attend(adj, *operands).sum().backward()
        values, source, target, halo_values, halo_source = operands
        logits = sddmm_add(adj, source, target, halo_source)
        logits = logits + 0.1 * sddmm_dot(adj, values, random(ROWS, heads, features), halo_values)
        weighted_sum(adj, segment_softmax(adj, logits), values, halo_values).sum().backward()
        assert all(bool(operand.grad.isfinite().all()) for operand in operands if operand.grad is not None)
        calls += 10
        columns, places = heads * features, OWNED + HALO
        x, y = quantize(random(places, columns)), quantize(random(ROWS, columns))
        logits, packed = random(places, heads), random(ROWS, 4, heads)
        int8_attend_rows(adj, x, logits, logits[:ROWS])
        int8_attend_columns(adj, x, logits, packed, y, random(edges, heads), columns=(0, places))
        int8_weighted_sum(adj, random(edges, heads), x, heads=heads)
        int8_sddmm_dot(adj, x, y, heads=heads)
        added = int8_sddmm_add(adj, x, y)
        spmm(incidence(adj), quantize(added))
        for scale in ("row", "tensor"):
            quantized_sum(
                incidence(adj, by_column=True), added, scale=scale, noise=NoiseCounter(adj.indices.long(), **SETTINGS)
            )
        calls += 8
    calls += every_loop_of_vertex_cuts()
    if device == "cuda":
        codec.raise_refused(ids.device)
    return calls


def every_loop_of_vertex_cuts() -> int:
    """Run the loops of edge partitioners, for 1 to 70 parts; return the number of calls."""
    generator = torch.Generator().manual_seed(1)
    u, v = (torch.randint(0, ROWS, (500,), generator=generator, dtype=torch.int32).numpy() for _ in range(2))
    home = torch.randint(0, 2, (ROWS,), generator=generator, dtype=torch.int32).numpy()
    for parts, hosts in ((1, 1), (6, 2), (70, 2)):
        copies, room = empty_copies(ROWS, parts), 500 // parts + 1
        settings = {"alpha": 1.0, "beta": 1.0, "gamma": 0.1, "parts": parts, "hosts": hosts, "limit": room}
        place_by_cost(Ends(u, v), copies, home=home, **settings)
        choose_masters(copies, parts=parts, hosts=hosts)
        loads = torch.zeros(parts, dtype=torch.int64).numpy()
        place_by_worth(Ends(u, v), empty_copies(ROWS, parts), loads, limit=room, lam=1.0, eps=1.0)
    return 9


if __name__ == "__main__":
    print(f"{every_kernel(sys.argv[1] if len(sys.argv) > 1 else 'cpu')} calls of kernels")
