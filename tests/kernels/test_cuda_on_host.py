"""The CUDA kernels' own sources, compiled for the host and run thread by thread: no GPU is needed.

A header replaces CUDA's; launches are rewritten to call it. So indices, shuffles, barriers and results are tested
wherever there is a C++ compiler; properties that need a GPU (races, alignment faults, speed) are in `test_gpu.py`.
"""

from __future__ import annotations

import ctypes
import functools
import re
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native
from gnnqlab.kernels.codec import rows as codec
from gnnqlab.kernels.codec.linear import encode_linear
from gnnqlab.kernels.codec.rotate import decode_rotated
from gnnqlab.kernels.dense import int8_mm
from gnnqlab.kernels.rowwise import nodewise, row_change
from tests.cases import each, one_case
from tests.kernels import every_kernel, test_gpu, test_gpu_int8, test_joins, test_nodewise, test_residual
from tests.kernels.backends import AVAILABLE
from tests.kernels.test_moves import walked
from tests.slow_down import HANG_S

HERE = Path(__file__).parent
SOURCES = HERE.parents[1] / "cuda_ext"
COMPILER = shutil.which("c++") or shutil.which("g++")
REFUSING = (
    "encode_rows",
    "encode_linear",
    "decode_rows",
    "encode_rotated",
    "decode_rotated",
    "row_errors",
    "uniform16",
    "dropout",
    "dropout_values",
    "moved_rows",
    "nodewise",
    "join_columns",
    "join_largest",
    "quantize",
    "quantize_pairs",
    "quantized_sum",
)
"""Operators whose CUDA function records refusals where the CPU's takes a number of threads."""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(COMPILER is None or not SOURCES.exists(), reason="slow: needs a C++ compiler and the sources"),
]


def on_host(source: str) -> str:
    """Rewrite ``kernel<<<grid, threads, ...>>>(arguments)`` as a call of the host's launcher."""
    launch = re.compile(r"(\w+(?:<[^;<>]*>)?)<<<([^;]*?),\s*(\w+), 0, [^;]*?>>>\(")
    while found := launch.search(source):
        depth, end = 1, found.end()
        while depth:
            depth += {"(": 1, ")": -1}.get(source[end], 0)
            end += 1
        kernel, grid, threads = found.groups()
        call = f"host_cuda::launch({grid}, {threads}, [&] {{ {kernel}({source[found.end() : end - 1]}); }})"
        source = source[: found.start()] + call + source[end:]
    return source


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    folder = tmp_path_factory.mktemp("host_cuda")
    objects = []
    for path in sorted(SOURCES.glob("cuda/*.cu")):
        source = folder / f"{path.stem}.cpp"
        source.write_text(on_host(path.read_text()))
        command = [str(COMPILER), "-std=c++17", "-O1", "-fPIC", "-ffp-contract=off", "-w", "-c", str(source)]
        command += [
            "-include",
            "cuda_runtime.h",
            "-I",
            str(HERE / "host_cuda"),
            "-I",
            str(SOURCES),
            "-o",
            str(source.with_suffix(".o")),
        ]
        subprocess.run(command, check=True, timeout=HANG_S)
        objects.append(str(source.with_suffix(".o")))
    subprocess.run([str(COMPILER), "-shared", *objects, "-o", str(folder / "host.so")], check=True, timeout=HANG_S)
    return ctypes.CDLL(str(folder / "host.so"))


@pytest.fixture
def launched(library, monkeypatch):
    """Redirect calls of CPU kernels to the CUDA kernels, and return the list of their names."""
    names = []
    cpu_call = native.Kernel.__call__

    def call(kernel, *arguments):
        function = getattr(library, f"gnnqlab_{kernel.name}_cuda", None)
        if function is None:  # PyTorch transposes on a GPU
            return cpu_call(kernel, *arguments)
        names.append(kernel.name)
        function.argtypes, function.restype = [*kernel._argtypes, ctypes.c_void_p], ctypes.c_int64
        if kernel.name in REFUSING:
            arguments = (*arguments[:-1], native.refused(torch.device("cpu")).data_ptr())
        assert function(*kernel._addressed(arguments), None) == 0
        return native.take_refusal(torch.device("cpu")) if kernel.name in REFUSING else 0

    monkeypatch.setattr(native.Kernel, "__call__", call)
    monkeypatch.setattr(int8_mm, "_by_pieces", lambda codes: True)
    # Few edges, but more in one row than one warp takes.
    for tests in (test_gpu, test_gpu_int8):
        monkeypatch.setattr(tests, "graph", functools.partial(test_gpu.graph, edges=3300))
    with native.use("native"):
        yield names


@each("bits", codec.WIDTHS)
@each("columns", [9, 1025])
def test_codec_gives_the_bytes_of_the_reference(launched, bits, columns):
    one_case(test_gpu.test_codec_gives_the_bytes_of_the_reference)("cpu", bits, columns)
    assert set(launched) == {"encode_rows", "decode_rows", "uniform16"}


@each(("columns", "rotations"), [(1, 2), (9, 1), (300, 2), (602, 1), (4099, 2)])
def test_rotated_rows_are_the_bytes_of_the_reference(launched, columns, rotations):
    """In each size of the block's buffer for a row: 512, 2048 and 8192 columns."""
    one_case(test_gpu.test_rotated_rows_are_the_bytes_of_the_reference)("cpu", columns, rotations)
    assert set(launched) == {"encode_rotated", "decode_rotated"}


@each("columns", [1, 15, 300])
def test_errors_of_rows_are_those_of_the_reference(launched, columns):
    one_case(test_gpu.test_errors_of_rows_are_those_of_the_reference)("cpu", columns)
    assert set(launched) == {"row_errors"}


def test_rows_that_no_rotation_and_no_error_is_of_are_named(launched):
    for what, name in (("rotated", "encode_rotated"), ("errors", "row_errors")):
        one_case(test_gpu.test_rows_that_no_rotation_and_no_error_is_of_are_named)("cpu", what)
        assert name in launched
    x, row = torch.ones(1, 8), torch.tensor([0])
    with pytest.raises(ValueError, match="widths must be one of"):
        scales, key = torch.ones(1), {"rotations": 1, "seed": 0, "epoch": 0, "stream": 0}
        decode_rotated(torch.zeros(8, dtype=torch.uint8), scales, 5, None, x, row, row, accumulate=False, **key)


@each("columns", [3, 136])
def test_sums_with_a_long_row_and_an_empty_one(launched, columns):
    one_case(test_gpu.test_sums_of_every_row_type)("cpu", columns, True)
    assert set(launched) == {"spmm"}


@each("way", [test_gpu.attended, test_gpu.by_parts])
def test_attention_and_its_gradients(launched, way):
    one_case(test_gpu.test_attention_and_its_gradients)("cpu", way, 1, 40)


def test_operators_accept_empty_inputs(launched):
    test_gpu.test_operators_accept_empty_inputs("cpu")


@each("columns", [1, 9, 1025])
def test_linear_codes_are_the_bytes_of_the_reference(launched, columns):
    x = torch.randn(40, columns, generator=torch.Generator().manual_seed(columns)) * torch.logspace(-3, 3, 40)[:, None]
    x[7] = 2.5
    rows, widths = torch.arange(40).flip(0), torch.tensor(codec.WIDTHS, dtype=torch.uint8).repeat(10)
    sizes = codec.row_bytes(columns, widths)
    offsets, found = sizes.cumsum(0) - sizes, []
    for backend in ("native", "reference"):
        payload, params, ranges = torch.zeros(int(sizes.sum()), dtype=torch.uint8), torch.ones(40, 2), torch.ones(40)
        with native.use(backend):
            encode_linear(x, rows, widths, offsets, payload, params, ranges)
            found.append((payload, params, ranges))
    assert all(torch.equal(*pair) for pair in zip(*found))
    x[3, -1] = torch.inf
    for backend in ("native", "reference"):
        with native.use(backend), pytest.raises(NonFiniteRow) as refused:
            encode_linear(x, rows, widths, offsets, *found[0])
        assert refused.value.position == 36
    assert set(launched) == {"encode_linear"}


@each("columns", [1, 9, 300])
def test_moved_rows_are_those_of_the_reference(launched, columns):
    x, rows, held = walked(columns)
    x[11, -1] = torch.nan
    for epsilon in (0.0, 0.1, 0.3):
        with native.use("reference"):
            expected = row_change.row_moves(x, rows, held, epsilon)
        assert torch.equal(row_change._marked(x, rows, held, epsilon).nonzero().flatten(), expected)
    assert set(launched) == {"moved_rows"}


@each("activation", nodewise.ACTIVATIONS)
@each("normed", [False, True])
def test_one_pass_gives_values_and_gradients_of_separate_steps(launched, monkeypatch, activation, normed):
    monkeypatch.setattr(test_nodewise, "SHAPES", [(1, 1), (3, 9), (260, 31), (5, 300)])
    test = one_case(test_nodewise.test_values_and_gradients_are_those_of_separate_steps_in_float64)
    test(AVAILABLE[0], activation, 0.5, normed)
    assert "nodewise" in launched and "nodewise_backward" in launched


def test_one_pass_draws_the_masks_of_dropout_and_takes_bfloat16_rows(launched):
    for normed in (False, True):
        one_case(test_nodewise.test_the_mask_is_that_of_dropout)(AVAILABLE[0], normed)
    one_case(test_nodewise.test_rows_of_bfloat16_are_rounded_once)(AVAILABLE[0])
    one_case(test_nodewise.test_strided_rows_and_gradients_are_read_where_they_lie)(AVAILABLE[0])
    with pytest.raises(ValueError, match="ids must be in"):
        test_nodewise.nodewise(
            torch.ones(2, 3), mask=test_nodewise.Mask(ids=torch.tensor([1, -1]), p=0.5, seed=0, epoch=0, stream=0)
        )


def test_a_residual_join_back_is_that_of_one_lerp_a_layer(launched):
    one_case(test_residual.test_values_and_gradients_are_those_of_one_lerp_a_layer_to_the_bit)(AVAILABLE[0], 0.1)
    assert set(launched) == {"residual_backward"}


@each(("how", "kernels"), [("cat", {"join_columns", "dropout"}), ("max", {"join_largest", "join_largest_backward"})])
def test_joins_there_and_back_are_those_of_separate_steps(launched, monkeypatch, how, kernels):
    monkeypatch.setattr(test_joins, "SHAPES", [(1, 1, 1), (2, 3, 7), (3, 37, 31), (32, 5, 40)])
    one_case(test_joins.test_values_and_gradients_are_those_of_separate_steps_to_the_bit)(AVAILABLE[0], how, 0.4)
    assert kernels <= set(launched)
    one_case(test_joins.test_max_join_sends_gradients_of_ties_to_the_first_layer_and_keeps_nan)(AVAILABLE[0])
    one_case(test_joins.test_invalid_layers_or_masks_raise_value_error)(AVAILABLE[0])


@each(("columns", "scale"), [(1, "row"), (9, "tensor"), (257, "row"), (300, "tensor")])
def test_codes_are_those_of_the_reference(launched, columns, scale):
    one_case(test_gpu_int8.test_codes_are_those_of_the_reference)("cpu", columns, scale)
    assert set(launched) == {"quantize", "quantize_pairs", "pack_pairs"}


@each("scale", ["row", "tensor"])
@each("quantized", [test_gpu_int8.quantize, test_gpu_int8.summed])
def test_a_row_that_is_not_finite_is_named(launched, scale, quantized):
    one_case(test_gpu_int8.test_a_row_that_is_not_finite_is_named)("cpu", scale, quantized)
    assert set(launched) <= {"quantize", "quantized_sum"}


@each(("heads", "features", "edges"), [(1, 1, 3300), (2, 7, 330), (3, 16, 330), (1, 100, 330)])
def test_products_along_edges_of_codes(launched, monkeypatch, heads, features, edges):
    monkeypatch.setattr(test_gpu_int8, "graph", functools.partial(test_gpu.graph, edges=edges))
    one_case(test_gpu_int8.test_products_along_edges_are_those_of_the_widened_rows)("cpu", heads, features)
    assert {"int8_sddmm_dot", "int8_sddmm_add", "int8_weighted_sum"} <= set(launched)


@each(("heads", "features"), [(2, 7), (1, 72)])
def test_attention_of_codes(launched, monkeypatch, heads, features):
    monkeypatch.setattr(test_gpu_int8, "graph", functools.partial(test_gpu.graph, edges=330))
    one_case(test_gpu_int8.test_attention_of_codes_is_that_of_the_widened_rows)("cpu", heads, features)
    assert {"int8_attend", "int8_attend_backward"} <= set(launched)


@each(("columns", "scale", "bits", "edges"), [(1, "row", 8, 3300), (33, "tensor", 3, 330), (300, "row", 8, 330)])
def test_a_sum_that_quantizes_on_its_way(launched, monkeypatch, columns, scale, bits, edges):
    monkeypatch.setattr(test_gpu_int8, "graph", functools.partial(test_gpu.graph, edges=edges))
    one_case(test_gpu_int8.test_a_sum_that_quantizes_on_its_way_is_that_of_the_codes)("cpu", columns, scale, bits)
    assert set(launched) == {"quantize", "quantized_sum", "spmm"}


@each("sizes", test_gpu_int8.PRODUCTS)
@each("blocks", [1, 5])
def test_products_on_tensor_cores(launched, monkeypatch, sizes, blocks):
    monkeypatch.setattr(int8_mm, "_BLOCKS", blocks)
    one_case(test_gpu_int8.test_products_of_integers_are_exact)("cpu", sizes)
    assert set(launched) == {"int8_mm", "int8_mm_totals"}


@each(("sizes", "blocks"), [*((sizes, 5) for sizes in test_gpu_int8.PRODUCTS[1:]), ((65, 300, 3), 1)])
def test_products_of_different_scales_on_tensor_cores(launched, monkeypatch, sizes, blocks):
    monkeypatch.setattr(int8_mm, "_BLOCKS", blocks)
    one_case(test_gpu_int8.test_sums_over_rows_of_different_scales)("cpu", sizes)
    assert set(launched) == {"int8_mm_shared"}


@each("columns", [1, 9, 66, 520])
def test_sums_of_packed_rows(launched, columns):
    one_case(test_gpu_int8.test_sums_of_packed_rows_have_the_bits_of_unpacked_ones)("cpu", columns, columns > 9)
    assert set(launched) == {"quantize", "pack_pairs", "spmm"}


def test_every_kernel_has_run(launched, monkeypatch):
    for name, few in (("COLUMNS", (9,)), ("HEADS", ((2, 7),)), ("EDGES", 200)):
        monkeypatch.setattr(every_kernel, name, few)
    every_kernel.every_kernel("cpu")
    row_change._marked(*walked(9), 0.1)
    exported = set()
    for path in SOURCES.glob("cuda/*.cu"):
        exported |= set(re.findall(r"^GNNQLAB_CUDA_EXPORT\((\w+)\)", path.read_text(), re.MULTILINE))
    assert exported <= set(launched)
