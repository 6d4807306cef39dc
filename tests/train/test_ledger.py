"""Live bytes by purpose: what is made is counted once, where it belongs, until it is gone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import torch

import gnnqlab as gq
from gnnqlab.partition import Random
from gnnqlab.systems import make_system
from gnnqlab.train.ledger import PURPOSES, Ledger
from tests.cases import each


def test_tensors_count_until_the_last_one_on_their_memory_is_gone():
    ledger = Ledger()
    with ledger:
        x = torch.zeros(100, 4)
        view = x[:10]
        message = torch.empty(7, dtype=torch.uint8)
        assert ledger.live == {**dict.fromkeys(PURPOSES, 0), "rows": 1600, "buffers": 7}
        del x
        assert ledger.live["rows"] == 1600
        del view
        assert ledger.live["rows"] == 0 and ledger.peaks["rows"] == 1600
        ledger.enter(message, "halo")
        assert ledger.live["halo"] == 7 and ledger.live["buffers"] == 0
        more = torch.zeros(2)
    ledger.close()
    del more
    assert ledger.at_peak["rows"] == 1600 and ledger.at_peak["buffers"] == 7


def test_what_autograd_keeps_is_told_apart():
    ledger = Ledger()
    weight = torch.ones(8, 8, requires_grad=True)
    ledger.enter(weight, "weights", fixed=True)
    with ledger, torch.autograd.graph.saved_tensors_hooks(ledger.keep, lambda kept: kept):
        rows = torch.ones(50, 8)
        product = (rows @ weight).exp()
        assert ledger.live["kept"] == 2 * 1600, "rows for the weight's gradient, exp for its own"
        assert ledger.live["weights"] == 256
        product.sum().backward()
        del rows, product
        assert ledger.live["kept"] == 0
    assert torch.equal(weight.grad, weight.grad[0].expand(8, 8))


@each("model", ["graphsage", "gat"])
def test_a_run_says_how_many_halo_rows_it_held(tmp_path: Path, model: str):
    """Vanilla holds whole halos of all layers (and attention their gradients); SAR those of 1 + depth workers at once,
    of one layer, and of attention one worker's gradients on their way home beside them."""
    peaks = {}
    for name, settings in (("vanilla", {}), ("sar", {"depth": 0})):
        recipe = replace(make_system(name, **settings), partition=Random())
        run = gq.launch(
            "sbm:240,3,30", model=model, system=recipe, workers=3, epochs=2, layers=3, hidden=16, memory_every=1,
            out=tmp_path / name, wait=True,
        )  # fmt: skip
        memory = run.memory
        assert list(memory["purpose"][: len(PURPOSES)]) == list(PURPOSES) and set(memory["epoch"]) == {1}
        assert (memory["peak_bytes"] >= memory["bytes"]).all()
        peaks[name] = memory[memory["purpose"] == "halo"].groupby("rank")["peak_bytes"].max()
    assert (peaks["vanilla"] >= 4 * peaks["sar"]).all(), peaks
