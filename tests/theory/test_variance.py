"""Theorems 1 and 3 as formulas, compared with the codec's own noise."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from gnnqlab.kernels.codec.rows import decode_rows, encode_rows, row_bytes
from gnnqlab.theory.variance import (
    AVERAGE,
    WORST,
    decoded_moments,
    exact_variance,
    gradient_variance_bound,
    received_variance,
    rounding_fractions,
    shared_variance,
    step_widths,
)
from tests.cases import each

WIDTHS = (1, 2, 4, 8)


def normal(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def decoded(rows_KD: torch.Tensor, bits: int, repeats: int) -> torch.Tensor:
    """Return the rows decoded under different noise, ``(R, K, D)`` float64."""
    count, columns = rows_KD.shape
    numbers = torch.arange(count)
    payload = torch.zeros(count * int(row_bytes(columns, bits)), dtype=torch.uint8)
    params, out = torch.zeros(count, 2), torch.empty(count, columns)
    found = []
    for epoch in range(repeats):
        encode_rows(rows_KD, numbers, numbers, bits, None, payload, params, seed=0, epoch=epoch, stream=0)
        decode_rows(payload, params, bits, None, out, None)
        found.append(out.double())
    return torch.stack(found)


@each("bits", WIDTHS)
@each("kind", ["normal", "relu"])
def test_theorem_1_moments_match_the_decoded_rows(bits, kind):
    rows = normal(24, 40)
    rows = torch.relu(rows) if kind == "relu" else rows
    repeats = 500
    found = decoded(rows, bits, repeats)
    moments = decoded_moments(rows, bits)
    assert torch.equal(moments.bias, torch.zeros(24, dtype=torch.float64))
    # A row's mean over R decodings errs by sqrt(Var / R), allowed five times, and by 2^-17 of a step an element.
    error = (found.mean(0) - rows.double()).norm(dim=1)
    granular = 2**-17 * step_widths(rows.amax(1) - rows.amin(1), bits) * 40**0.5
    assert (error <= 5 * (moments.exact / repeats).sqrt() + granular + 1e-6).all()
    # The sample variance of a row, a sum over 40 bounded elements, errs by a few per cent; of 24 rows together by less.
    assert found.var(0).sum() == pytest.approx(float(moments.exact.sum()), rel=0.03)
    assert (moments.exact <= moments.worst * (1 + 1e-12)).all()


def test_average_is_the_mean_over_uniform_fractions():
    # 8 bits on normal rows: fractions are uniform up to the two ends of each row, which have no noise.
    moments = decoded_moments(normal(400, 256), 8)
    assert float(moments.exact.sum() / moments.average.sum()) == pytest.approx(254 / 256, rel=0.01)
    # 1 bit: most values are near the middle of the only step, so the average is too small (ERRATA AQ-15).
    one = decoded_moments(normal(400, 256), 1)
    assert 1.2 < float(one.exact.sum() / one.average.sum()) < WORST / AVERAGE


@given(st.integers(1, 12), st.integers(1, 20), st.sampled_from(WIDTHS), st.integers(0, 99))
def test_exact_never_exceeds_the_worst_case(count, columns, bits, seed):
    rows = normal(count, columns, seed=seed) * 10
    moments = decoded_moments(rows, bits)
    sigma = rounding_fractions(rows, bits)
    assert ((sigma >= 0) & (sigma < 1)).all()
    assert (moments.exact >= 0).all()
    assert (moments.exact <= moments.worst * (1 + 1e-9)).all()


def test_constant_rows_and_rows_sent_as_they_are_have_no_noise():
    rows = torch.cat([torch.full((1, 5), 2.0), normal(1, 5)])
    assert exact_variance(rows, torch.tensor([2, 32])).tolist() == [0.0, 0.0]
    assert decoded_moments(rows, 2).exact[0] == 0


def test_widths_of_rows_may_differ():
    rows = normal(3, 8)
    mixed = exact_variance(rows, torch.tensor([1, 4, 8], dtype=torch.uint8))
    for index, bits in enumerate((1, 4, 8)):
        assert mixed[index] == exact_variance(rows, bits)[index]


def weight_gradients(rows_KD, deltas_KD, bits, edges, base_VD, gradient_VD, repeats=3000):
    """``(R, V-sum)``: dW = Σ_v b_v a_v^T with both factors partly from quantized messages of independent noise."""
    k, v, alpha = edges
    rows_RKD, deltas_RKD = decoded(rows_KD, bits, 2 * repeats).split(repeats)[0], None
    deltas_RKD = decoded(deltas_KD, bits, 2 * repeats).split(repeats)[1]
    mix = torch.zeros(base_VD.shape[0], rows_KD.shape[0], dtype=torch.float64)
    mix.index_put_((v, k), alpha.double(), accumulate=True)
    a = base_VD.double() + mix @ rows_RKD
    b = gradient_VD.double() + mix @ deltas_RKD
    return (
        torch.einsum("rvi,rvj->rij", b, a),
        (base_VD.double() + mix @ rows_KD.double()),
        (gradient_VD.double() + mix @ deltas_KD.double()),
    )


@each("bits", WIDTHS)
def test_theorem_3_in_its_own_setting(bits):
    """Each message goes to one row, so rows err independently: Eq. 25 is exact, and Eq. 27 with 1/4 bounds it."""
    rows, deltas = normal(6, 5, seed=1), normal(6, 4, seed=2)
    edges = (
        torch.arange(6),
        torch.tensor([0, 0, 1, 1, 2, 2]),
        torch.rand(6, generator=torch.Generator().manual_seed(3)),
    )
    found, a, b = weight_gradients(rows, deltas, bits, edges, normal(3, 5, seed=4), normal(3, 4, seed=5))
    k, v, alpha = edges

    def noise(values, kind):
        return received_variance(k, v, alpha, getattr(decoded_moments(values, bits), kind), num_rows=3)

    row_noise, gradient_noise = noise(rows, "exact"), noise(deltas, "exact")
    expected = row_noise * gradient_noise + a.square().sum(1) * gradient_noise + b.square().sum(1) * row_noise
    # 3000 draws of a sum of products: the sample variance errs by about sqrt(2 / 3000) = 2.6 %; four times that.
    assert float(found.var(0).sum()) == pytest.approx(float(expected.sum()), rel=0.1)
    assert (
        float((found.mean(0) - torch.einsum("vi,vj->ij", b, a)).norm())
        <= 4 * float((found.var(0).sum() / len(found)).sqrt()) + 2**-15
    )
    norms = {"largest_row": float(a.norm(dim=1).max()), "largest_gradient": float(b.norm(dim=1).max())}
    exact = gradient_variance_bound(row_noise, gradient_noise, **norms)
    worst = gradient_variance_bound(noise(rows, "worst"), noise(deltas, "worst"), **norms)
    assert float(expected.sum()) <= exact.total <= worst.total


def test_rows_that_share_a_message_break_the_sum_of_variances():
    """Eq. 25 adds four variances; four rows with equal gradients read one message, so the truth is four times that."""
    rows = normal(1, 6, seed=3)
    edges = (torch.zeros(4, dtype=torch.int64), torch.arange(4), torch.ones(4))
    gradient = normal(1, 3, seed=4).expand(4, 3)
    found, a, b = weight_gradients(rows, torch.zeros(1, 3), 2, edges, torch.zeros(4, 6), gradient)
    variance = exact_variance(rows, 2)
    separate = gradient_variance_bound(
        received_variance(*edges, variance, num_rows=4),
        torch.zeros(4, dtype=torch.float64),
        largest_row=float(a.norm(dim=1).max()),
        largest_gradient=float(b.norm(dim=1).max()),
    )
    measured = float(found.var(0).sum())
    assert measured == pytest.approx(4 * separate.total, rel=0.1)
    shared = float(b[0].square().sum()) * shared_variance(edges[0], edges[2], variance.expand(4))
    assert measured == pytest.approx(shared, rel=0.1)


def test_product_term_carries_one_thirty_sixth():
    # One message each way, D = 1, S = 6: A = B = 36 / 6, so A B = 36 = (1/36) D D S^4 / 36.
    noise = AVERAGE * step_widths(torch.tensor([6.0]), 1) ** 2
    bound = gradient_variance_bound(noise, noise, largest_row=0.0, largest_gradient=0.0)
    assert bound.total == pytest.approx(6.0**4 / 36)
    printed = gradient_variance_bound(noise, noise, largest_row=0.0, largest_gradient=0.0, as_printed=True)
    assert printed.total == pytest.approx(6.0**4 / 6)


def test_terms_of_theorem_3_by_hand():
    # A = (2, 3), B = (5, 7), M = 3, N = 1/2: no two of the three terms, and no power of M or N, give the same number.
    a, b = torch.tensor([2.0, 3.0]), torch.tensor([5.0, 7.0])
    bound = gradient_variance_bound(a, b, largest_row=3.0, largest_gradient=0.5)
    assert (bound.product, bound.from_gradients, bound.from_rows) == (2 * 5 + 3 * 7, 9 * 12, 5 / 4)
    assert bound.total == 31 + 108 + 1.25


def test_noises_must_match():
    with pytest.raises(ValueError, match=r"need one number per row, got shapes \(2,\) and \(3,\)"):
        gradient_variance_bound(torch.zeros(2), torch.zeros(3), largest_row=1.0, largest_gradient=1.0)


def test_no_messages_no_noise():
    nothing = torch.zeros(0, dtype=torch.int64)
    assert shared_variance(nothing, torch.zeros(0), torch.zeros(0)) == 0.0
    assert received_variance(nothing, nothing, torch.zeros(0), torch.zeros(0), num_rows=2).tolist() == [0.0, 0.0]
