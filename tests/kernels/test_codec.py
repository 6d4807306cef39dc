"""The message codec: same bytes from every backend, unbiased, exact sizes, refusals by position."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from gnnqlab.errors import NonFiniteRow
from gnnqlab.kernels import native, noise
from gnnqlab.kernels.codec import rows as codec
from gnnqlab.kernels.reference import codec as reference
from tests.cases import each

from .backends import AVAILABLE, EVERY, on_native, use
from .codec_cases import Call, decode, encode, random_call, same

SETTINGS = {"seed": 0x1234_5678_9ABC_DEF0, "epoch": 3, "stream": noise.stream("forward", 1)}
COLUMNS = [1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 128, 130, 256, 602, 1025, 10_000]


@on_native
@each("columns", COLUMNS)
@each("params", [torch.float32, torch.bfloat16])
@each("dtype", [torch.float32, torch.bfloat16])
def test_bytes_are_the_same_everywhere(backend, columns, params, dtype):
    call = random_call(columns, rows=9, columns=columns, dtype=dtype, params=params, values="normal")
    with use(backend):
        got, decoded = encode(call), [decode(call, accumulate=accumulate) for accumulate in (False, True)]
    with native.use("reference"):
        assert same(got, encode(call))
        assert all(torch.equal(decoded[k], decode(call, accumulate=bool(k))) for k in (0, 1))


@on_native
def test_random_calls_are_the_same_everywhere(backend):
    for seed in range(400):
        call = random_call(seed)
        with use(backend):
            got, decoded = encode(call), decode(call)
        with native.use("reference"):
            expected, expected_decoded = encode(call), decode(call)
        assert same(got, expected), seed
        assert expected[3] >= 0 or torch.equal(decoded, expected_decoded), seed


@pytest.mark.slow
@pytest.mark.skipif(not AVAILABLE, reason="no compiled kernels to compare")
def test_a_million_random_rows_are_the_same_everywhere():
    """10**6 cases (a row with its own shape, width and values), every instruction set compared with the reference."""
    rows = seed = 0
    while rows < 1_000_000:
        seed += 1
        call = random_call(
            1_000_000 + seed, rows=2000, columns=1 + (seed * seed) % 97 if seed % 20 else 1 + seed % 1500
        )
        rows += call.rows.numel()
        with native.use("reference"):
            expected, expected_decoded = encode(call), decode(call)
        for isa in AVAILABLE:
            with native.use("native", isa=isa):
                assert same(encode(call), expected), (isa, seed)
                assert expected[3] >= 0 or torch.equal(decode(call), expected_decoded), (isa, seed)


@each("bits", codec.WIDTHS)
@each("columns", [1, 3, 8, 13, 77])
def test_pack_is_undone_by_unpack_and_has_the_promised_size(bits, columns):
    codes = torch.randint(0, 2**bits, (5, columns), generator=torch.Generator().manual_seed(bits))
    packed = reference.pack(codes, bits)
    assert packed.shape[1] == codec.row_bytes(columns, bits) == -(-columns * bits // 8)
    assert torch.equal(reference.unpack(packed, bits, columns).long(), codes)
    lowest_first = sum(int(code) << (bits * j) for j, code in enumerate(codes[0]))
    assert int.from_bytes(bytes(packed[0].tolist()), "little") == lowest_first


@each("backend", EVERY)
def test_only_the_promised_bytes_are_written(backend):
    # Rows of 5 columns at 2 bits are 2 bytes with 6 unused bits; the bytes between them must not change.
    x, rows = torch.arange(15.0).reshape(3, 5), torch.arange(3)
    payload, params = torch.full((12,), 0xAA, dtype=torch.uint8), torch.zeros(3, 2)
    with use(backend):
        codec.encode_rows(x, rows, rows, 2, torch.tensor([1, 5, 9]), payload, params, **SETTINGS)
    assert payload[[0, 3, 4, 7, 8, 11]].tolist() == [0xAA] * 6
    assert (payload[[2, 6, 10]] >> 2).tolist() == [0] * 3


@each("backend", EVERY)
@each("bits", codec.WIDTHS)
def test_constant_rows_decode_exactly(backend, bits):
    x = torch.tensor([[0.1], [-3e38], [0.0], [-0.0], [1e-42]]).expand(5, 70).contiguous()
    call = Call(x, torch.arange(5), torch.arange(5), bits, None, torch.float32)
    with use(backend):
        payload, params, ranges, _ = encode(call)
        assert torch.equal(decode(call), x)
    assert not payload.any() and not params[:, 1].any() and not ranges.any()
    assert not torch.signbit(params[3, 0])  # -0 is stored as +0


@each("backend", EVERY)
@each("params", [torch.float32, torch.bfloat16])
@each("bits", codec.WIDTHS)
def test_decoding_is_unbiased_with_the_variance_of_the_theory(backend, params, bits):
    """2 * 10**6 draws: mean error within 4 standard errors, mean square equal to S**2 times the mean of r (1 - r).

    r is the fractional part of (x - Z) / S; a draw's error has mean 0 and variance S**2 r (1 - r) <= S**2 / 4.
    Sixteen noise bits bias a draw by at most 2**-17 S, 0.03 standard errors here.
    """
    copies, columns = 8_000, 250
    x = torch.rand(1, columns, generator=torch.Generator().manual_seed(bits)) * 3 - 1
    ids = torch.arange(copies)
    call = Call(x, torch.zeros(copies, dtype=torch.int64), ids, bits, None, params)
    with use(backend):
        _, stored, _, _ = encode(call)
        errors = (decode(call) - x).double()
    zero, scale = stored[0].double()
    r = ((x.double() - zero) / scale) % 1
    variance = float(scale**2 * (r * (1 - r)).mean())
    assert abs(float(errors.mean())) < 4 * (variance / errors.numel()) ** 0.5
    assert float((errors**2).mean()) == pytest.approx(variance, rel=0.01)
    assert float(errors.abs().max()) < float(scale) * 1.001


def test_rounding_parameters_after_encoding_would_be_biased():
    """16-bit parameters must be rounded before the codes are computed: otherwise errors are up to 1/2 ulp of Z."""
    copies = 4000
    x = 100.3 + torch.rand(1, 250, generator=torch.Generator().manual_seed(0))
    rows, ids = torch.zeros(copies, dtype=torch.int64), torch.arange(copies)
    ours = Call(x, rows, ids, 8, None, torch.bfloat16)
    errors = (decode(ours) - x).double()
    # Codes of exact parameters, decoded with parameters rounded to the nearest bfloat16.
    naive = Call(x, rows, ids, 8, None, torch.float32)
    payload, params, _, _ = encode(naive)
    out = torch.zeros(copies, 250)
    codec.decode_rows(payload, params.bfloat16(), 8, None, out, None)
    naive_errors = (out - x).double()

    def standard_error(e: Tensor) -> float:
        return float(e.std()) / e.numel() ** 0.5

    assert abs(float(errors.mean())) < 4 * standard_error(errors)
    assert abs(float(naive_errors.mean())) > 100 * standard_error(naive_errors)


@each("params", [torch.float32, torch.bfloat16])
@each("bits", codec.WIDTHS)
def test_bfloat16_parameters_enclose_the_row(params, bits):
    x = torch.randn(2000, 17, generator=torch.Generator().manual_seed(bits)) * torch.logspace(-20, 20, 2000)[:, None]
    zero, scale, range_n1, bad = reference.row_parameters(x, bits, params)
    assert not bad.any()
    assert torch.equal(range_n1, x.amax(1, keepdim=True) - x.amin(1, keepdim=True))
    assert (zero.double() <= x.double()).all()
    reach = zero.double() + (2**bits - 1) * scale.double()
    slack = 0 if params == torch.bfloat16 else 2**-22 * x.abs().amax(1, keepdim=True)
    assert (reach + slack >= x.double()).all()


@each("backend", EVERY)
def test_ranges_are_those_of_the_row_even_with_rounded_parameters(backend):
    x, rows = torch.tensor([[1.0009765625, 2.0, 3.0]]), torch.zeros(1, dtype=torch.int64)
    with use(backend):
        _, params, ranges, _ = encode(Call(x, rows, rows, 4, None, torch.bfloat16))
    assert ranges.tolist() == [3.0 - 1.0009765625] and params[0, 0] == 1.0


@each("backend", EVERY)
@each("bad", [float("nan"), float("inf"), -float("inf"), 3.4e38])
@each("columns", [1, 5, 16, 64, 131])
def test_bad_rows_are_reported_by_their_first_position(backend, bad, columns):
    x = torch.randn(6, columns)
    x[2, columns // 2] = bad
    if bad == 3.4e38:  # elements are finite, but the range overflows
        if columns == 1:
            return
        x[2, 0] = -3.4e38
    rows = torch.tensor([5, 0, 2, 1, 2])
    payload, params = torch.zeros(5 * codec.row_bytes(columns, 4), dtype=torch.uint8), torch.zeros(5, 2)
    with use(backend), pytest.raises(NonFiniteRow, match="in row 2 of the call") as caught:
        codec.encode_rows(x, rows, rows, 4, None, payload, params, **SETTINGS)
    assert caught.value.position == 2


@each("backend", EVERY)
def test_encode_detects_a_nan_at_every_position(backend):
    for columns in (1, 3, 16, 17, 64, 65, 100):
        for place in range(columns):
            x = torch.randn(1, columns)
            x[0, place] = float("nan")
            row = torch.zeros(1, dtype=torch.int64)
            with use(backend):
                assert encode(Call(x, row, row, 2, None, torch.float32))[3] == 0, (columns, place)


@on_native
def test_encode_ignores_non_finite_rows_that_are_not_selected(backend):
    # Several rows are processed at once: the padding of the last ones must not be taken for a row of the call.
    x = torch.randn(40, 33, generator=torch.Generator().manual_seed(1))
    x[0], x[-1] = float("nan"), float("inf")
    for count in (*range(1, 10), 17, 38):
        rows = torch.arange(1, count + 1)
        call = Call(x, rows, rows, 2, None, torch.float32)
        with use(backend):
            got = encode(call)
        with native.use("reference"):
            assert got[3] == -1 and same(got, encode(call)), count


@each("backend", EVERY)
@each("params", [torch.float32, torch.bfloat16])
@each("bits", [0x7F800001, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF])
def test_encode_detects_every_nan_bit_pattern(backend, params, bits):
    # Rounding the lowest bits of 0xFFFFFFFF down would carry it over to zero.
    x = torch.randn(1, 40)
    x.view(torch.int32)[0, 20] = bits - (bits >> 31 << 32)
    row = torch.zeros(1, dtype=torch.int64)
    with use(backend):
        assert encode(Call(x, row, row, 2, None, params))[3] == 0


@each("backend", EVERY)
@each("columns", [1, 3, 16, 40, 64, 131])
def test_ranges_of_rows_of_either_sign(backend, columns):
    x = torch.rand(4, columns, generator=torch.Generator().manual_seed(columns)) + 0.5
    x = torch.cat([x, -x, x - 1, torch.relu(x - 1), -torch.relu(x - 1)])
    rows = torch.arange(x.shape[0])
    with use(backend):
        _, params, ranges, _ = encode(Call(x, rows, rows, 1, None, torch.float32))
    assert torch.equal(params[:, 0], x.amin(1) + 0.0)
    assert torch.equal(ranges, x.amax(1) - x.amin(1))


@each("backend", EVERY)
def test_bfloat16_parameters_refuse_a_range_they_cannot_hold(backend):
    x, row = torch.tensor([[0.0, 3.4e38]]), torch.zeros(1, dtype=torch.int64)
    with use(backend):
        assert encode(Call(x, row, row, 1, None, torch.float32))[3] == -1
        assert encode(Call(x, row, row, 1, None, torch.bfloat16))[3] == 0


@each("backend", EVERY)
def test_refusals_name_rule_value_and_position(backend):
    x, rows = torch.randn(4, 6), torch.arange(4)
    payload, params, out = torch.zeros(100, dtype=torch.uint8), torch.zeros(4, 2), torch.zeros(4, 6)
    offsets, bits = torch.arange(4) * 6, torch.full((4,), 8, dtype=torch.uint8)

    def refused(text, *, rows=rows, ids=rows, bits=bits, offsets=offsets, payload=payload, params=params, x=x):
        with pytest.raises(ValueError, match=text):
            codec.encode_rows(x, rows, ids, bits, offsets, payload, params, **SETTINGS)

    with use(backend):
        refused(r"rows must be in \[0, 4\), got 4 at position 1", rows=torch.tensor([0, 4, 9, 0]))
        refused(r"node ids must be in \[0, 2\*\*32\), got 4294967296 at position 3", ids=torch.tensor([0, 1, 2, 2**32]))
        refused(r"bits must be one of \(1, 2, 4, 8\), got 3 at position 2", bits=torch.tensor([8, 8, 3, 8]).byte())
        refused(r"payload of 100 bytes, got offset 95 at position 1", offsets=torch.tensor([0, 95, 0, 0]))
        refused(r"payload of 100 bytes, got offset -1 at position 0", offsets=torch.tensor([-1, 0, 0, 0]))
        refused(r"payload of 23 bytes, got consecutive rows at position 3", bits=8, offsets=None, payload=payload[:23])
        refused(r"bits must be one of \(1, 2, 4, 8\), got 16", bits=16)
        refused("offsets must be given when each row has its own width", offsets=None)
        refused(r"ids must be contiguous torch.int64 of shape \(4,\), got torch.int32", ids=rows.int())
        refused(r"params must be contiguous float32 or bfloat16 of shape \(4, 2\)", params=torch.zeros(4, 3))
        refused("payload must be one contiguous uint8 vector", payload=torch.zeros(100))
        refused("x must be a matrix of torch.float32 or torch.bfloat16 with contiguous rows", x=x.double())
        refused("x must be a matrix", x=torch.randn(6, 4).t())
        with pytest.raises(ValueError, match=r"rows must be in \[0, 4\), got -1 at position 2"):
            codec.decode_rows(payload, params, bits, offsets, out, torch.tensor([0, 1, -1, 2]))
        with pytest.raises(ValueError, match=r"rows must be in \[0, 3\), got 3 at position 3"):
            codec.decode_rows(payload, params, bits, offsets, out[:3], None)


@each("backend", EVERY)
def test_empty_calls(backend):
    none, payload = torch.arange(0), torch.zeros(0, dtype=torch.uint8)
    with use(backend):
        codec.encode_rows(torch.randn(3, 5), none, none, 4, None, payload, torch.zeros(0, 2), **SETTINGS)
        codec.decode_rows(payload, torch.zeros(0, 2), 4, None, torch.zeros(3, 5), none)
        codec.encode_rows(
            torch.randn(3, 0), torch.arange(3), torch.arange(3), 4, None, payload, torch.zeros(3, 2), **SETTINGS
        )
        codec.decode_rows(payload, torch.zeros(3, 2), 4, None, torch.zeros(3, 0), None)


@on_native
def test_threads_and_streaming_stores_do_not_change_the_bytes(backend):
    # Above a megabyte decoding writes past the cache when rows start at multiples of 64 bytes.
    rows = torch.randperm(5000, generator=torch.Generator().manual_seed(0))
    call = Call(torch.randn(5000, 80), rows, rows, 4, None, torch.bfloat16)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            with use(backend):
                found.append((*encode(call)[:3], decode(call)))
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
    with native.use("reference"):
        assert torch.equal(found[0][3], decode(call))


def test_noise_of_senders_is_independent_and_of_rows_is_their_id():
    x = torch.rand(1, 4000, generator=torch.Generator().manual_seed(0))
    row = torch.zeros(1, dtype=torch.int64)

    def errors(node: int, **settings: int) -> Tensor:
        call = Call(x, row, row + node, 2, None, torch.float32, settings=settings)
        return (decode(call) - x)[0].double()

    forward, backward = noise.stream("forward", 0), [noise.stream("backward", 0, sender) for sender in (1, 2)]
    same_again = errors(7, seed=1, epoch=2, stream=forward)
    assert torch.equal(same_again, errors(7, seed=1, epoch=2, stream=forward))
    others = [
        errors(8, seed=1, epoch=2, stream=forward),
        errors(7, seed=2, epoch=2, stream=forward),
        errors(7, seed=1, epoch=3, stream=forward),
        *(errors(7, seed=1, epoch=2, stream=stream) for stream in backward),
    ]
    for other in others:  # 4000 columns: the standard error of a correlation is 0.016
        assert abs(float(torch.corrcoef(torch.stack([same_again, other]))[0, 1])) < 5 * 0.016
    assert abs(float(torch.corrcoef(torch.stack(others[-2:]))[0, 1])) < 5 * 0.016


@each("mixed", [False, True])
def test_operators_pass_opcheck(mixed):
    x, rows = torch.randn(4, 9), torch.arange(4)
    bits = torch.tensor([1, 2, 4, 8], dtype=torch.uint8) if mixed else None
    offsets = torch.arange(4) * 9 if mixed else None
    payload, params, ranges = torch.zeros(36, dtype=torch.uint8), torch.zeros(4, 2), torch.zeros(4)
    width = 0 if mixed else 8
    torch.library.opcheck(
        torch.ops.gnnqlab.encode_rows.default,
        (x, rows, rows, bits, width, offsets, payload, params, ranges, 1, 2, 3),
    )
    torch.library.opcheck(
        torch.ops.gnnqlab.decode_rows.default, (payload, params, bits, width, offsets, torch.zeros(4, 9), rows, False)
    )


def test_codec_compiles():
    rows = torch.arange(6)

    def roundtrip(x: Tensor) -> Tensor:
        payload, params = torch.zeros(6 * 5, dtype=torch.uint8), torch.zeros(6, 2)
        codec.encode_rows(x, rows, rows, 4, None, payload, params, **SETTINGS)
        out = torch.zeros(6, 9)
        codec.decode_rows(payload, params, 4, None, out, None)
        return out * 2

    x = torch.randn(6, 9)
    assert torch.equal(torch.compile(roundtrip, backend="aot_eager", fullgraph=True)(x), roundtrip(x))


def test_raise_refused_raises_the_error_recorded_on_the_device_once():
    device = torch.device("cpu")  # the record is an ordinary tensor
    codec.raise_refused(device)
    native.refused(device).fill_(7 * 8 + 1)
    with pytest.raises(NonFiniteRow, match="in row 7"):
        codec.raise_refused(device)
    codec.raise_refused(device)
    native.refused(device).fill_(3 * 8 + 5)
    with pytest.raises(ValueError, match="payload offsets must be in range, got one that is not at position 3"):
        codec.raise_refused(device)


@pytest.mark.gpu
def test_cuda_gives_the_same_bytes():
    device = torch.device("cuda", 0)
    assert native.active(device), native.status()["cuda_reason"]
    for seed in range(300):
        call = random_call(seed, columns=None if seed % 10 else 1 + 7 * seed)
        with native.use("reference"):
            expected, expected_decoded = encode(call), decode(call)
        got, decoded = encode(call, device), decode(call, device=device)
        assert same(got, expected), seed
        assert expected[3] >= 0 or torch.equal(decoded, expected_decoded), seed
        ids = torch.arange(call.x.shape[0])
        dropped = [noise.dropout(x, ids.to(x.device), p=0.4, **SETTINGS).cpu() for x in (call.x, call.x.to(device))]
        assert torch.equal(*(d.nan_to_num(0.0) for d in dropped)), seed


def test_rows_noted_as_not_finite_are_raised_later():
    cpu = torch.device("cpu")
    codec.note_non_finite(torch.tensor([False, False]))
    codec.note_non_finite(torch.empty(0, dtype=torch.bool))
    codec.raise_refused(cpu)
    codec.note_non_finite(torch.tensor([False, False, True, True]), first=5)
    codec.note_non_finite(torch.tensor([False] * 8 + [True]))
    with pytest.raises(NonFiniteRow) as caught:
        codec.raise_refused(cpu)
    assert caught.value.position == 7
    codec.raise_refused(cpu)  # raised once only
