"""Products of many rows with one matrix: within the roundings of their chain, equal for single rows, every layout."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.kernels import native
from gnnqlab.kernels.dense import tall_skinny
from gnnqlab.kernels.dense.tall_skinny import own_products, pays, tall_mm
from tests.cases import each

SIZES = ((1, 1, 1), (5, 3, 7), (13, 300, 33), (40, 16, 256), (600, 256, 16), (1030, 64, 130), (7, 0, 5), (0, 4, 4))
ISAS = [name for name in native.ISAS if name in native.status()["isas"]]


def _random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed + sum(shape)))


def _close(found: torch.Tensor, x: torch.Tensor, w: torch.Tensor, base: torch.Tensor | None) -> None:
    """A chain of I products and the base is off by (I + 1) 2^-24 of the sum of magnitudes at most (and products
    that are rounded before they are added, where there is no fused addition, by I 2^-24 more)."""
    true, most = x.double() @ w.double(), x.double().abs() @ w.double().abs()
    if base is not None:
        true, most = true + base.double(), most + base.double().abs()
    assert found.dtype == torch.float32 and found.shape == true.shape
    assert ((found.double() - true).abs() <= (2 * x.shape[1] + 2) * 2.0**-24 * most).all()


@each("isa", [*ISAS, None])
def test_products_are_those_of_float64_for_every_size_and_layout(isa: str | None) -> None:
    with native.use("reference") if isa is None else native.use("native", isa=isa):
        for rows, inner, columns in SIZES:
            x, w = _random(rows, inner), _random(inner, columns)
            for base in (None, _random(columns), _random(rows, columns, seed=2)):
                _close(tall_mm(x, w, base=base), x, w, base)
            wide, turned = _random(rows, inner + 3)[:, 1 : inner + 1], _random(columns, inner).t()
            whole = torch.full((rows, columns + 2), 7.0)
            assert tall_mm(wide, turned, out=whole[:, :columns]).data_ptr() == whole.data_ptr()
            _close(whole[:, :columns], wide, turned, None)
            assert (whole[:, columns:] == 7.0).all(), "nothing is written behind the last column"
            out = _random(rows, columns, seed=3)
            before = out.clone()
            _close(tall_mm(x, w, base=out, out=out), x, w, before)


@each("isa", ISAS)
def test_a_row_has_the_same_bits_alone_among_others_and_with_any_threads(isa: str) -> None:
    x, w, base = _random(1301, 517), _random(517, 70), _random(70)
    threads = torch.get_num_threads()
    with native.use("native", isa=isa):
        whole = tall_mm(x, w, base=base)
        for start, stop in ((0, 1), (511, 1030), (3, 14)):
            assert torch.equal(tall_mm(x[start:stop], w, base=base), whole[start:stop])
        try:
            torch.set_num_threads(2)
            assert torch.equal(tall_mm(x, w, base=base), whole)
        finally:
            torch.set_num_threads(threads)


def test_nan_row_gives_a_nan_result_only_in_that_row() -> None:
    x = torch.ones(3, 4)
    x[1, 2] = float("nan")
    found = tall_mm(x, torch.ones(4, 5))
    assert found[1].isnan().all() and (found[[0, 2]] == 4.0).all()


def test_own_products_are_for_many_rows_of_float32_on_processors_of_other_makers(monkeypatch) -> None:
    x, w = torch.ones(2000, 8), torch.ones(8, 8)
    with own_products(True):
        assert pays(x, w) and pays(x, w.t())
        assert not pays(x[:500], w) and not pays(x.double(), w.double()) and not pays(torch.ones(8, 2000).t(), w)
        with native.use("reference"):
            assert not pays(x, w)
    with own_products(False):
        assert not pays(x, w)
    for text, other in (("vendor_id : AuthenticAMD", True), ("vendor_id : GenuineIntel", False), ("Model", False)):
        monkeypatch.setattr(tall_skinny.Path, "read_text", lambda path, text=text: text)
        tall_skinny._of_another_maker.cache_clear()
        assert pays(x, w) is other
    monkeypatch.undo()
    tall_skinny._of_another_maker.cache_clear()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ({"w": torch.ones(3, 2)}, "w must have a row for each column of x"),
        ({"base": torch.ones(4)}, r"base must be of shape \(5, 2\) or \(2,\)"),
        ({"out": torch.ones(5, 3)}, r"out must be of shape \(5, 2\)"),
        ({"w": torch.ones(4, 2).double()}, "w must be float32 on cpu"),
        ({"x": torch.ones(4, 5).t()}, r"x must have contiguous rows, got strides \(1, 5\)"),
    ],
)
def test_refuses(arguments: dict, text: str) -> None:
    given = {"x": torch.ones(5, 4), "w": torch.ones(4, 2), **arguments}
    with pytest.raises(ValueError, match=text):
        tall_mm(given.pop("x"), given.pop("w"), **given)
