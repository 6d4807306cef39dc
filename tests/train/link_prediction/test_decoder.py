"""Values, gradients and symmetry of the link decoders."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gnnqlab.train.link_prediction import decoder as decoders
from gnnqlab.train.link_prediction.decoder import DECODERS, Decoder, attach_decoder, decoder_of
from tests.cases import each


@each("kind", DECODERS)
def test_either_end_may_come_first(kind):
    rows = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    decoder, first, second = Decoder(kind, 4, seed=1), torch.tensor([0, 1, 5]), torch.tensor([2, 2, 3])
    torch.testing.assert_close(decoder(rows, first, second), decoder(rows, second, first), rtol=0, atol=0)
    assert decoder(rows, first[:0], second[:0]).shape == (0,)


def test_dots_have_the_gradient_of_plain_pytorch_in_spans_of_any_size(monkeypatch):
    rows = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1), requires_grad=True)
    first, second = torch.tensor([0, 1, 1, 4, 2, 3, 3]), torch.tensor([1, 1, 0, 0, 2, 4, 0])
    monkeypatch.setattr(decoders, "_AT_ONCE", 6)  # two pairs at a time
    decoder = Decoder("dot", 3, seed=0)
    weight = torch.randn(7, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    found, truth = decoder(rows, first, second), (rows[first] * rows[second]).sum(1)
    torch.testing.assert_close(found, truth)
    (ours,), (right,) = (torch.autograd.grad(scores @ weight, rows) for scores in (found, truth))
    torch.testing.assert_close(ours, right, rtol=1e-12, atol=1e-12)


def test_weights_are_a_function_of_the_seed_and_belong_to_the_model():
    torch.manual_seed(7)
    before = torch.random.get_rng_state()
    model = nn.Linear(2, 2)
    torch.random.set_rng_state(before)
    one = attach_decoder(model, "mlp", 4, seed=3)
    assert torch.equal(before, torch.random.get_rng_state())
    for ours, theirs in zip(one.parameters(), Decoder("mlp", 4, seed=3).parameters(), strict=True):
        assert torch.equal(ours, theirs)
    assert decoder_of(model) is one and "link_decoder.layers.0.weight" in model.state_dict()
    with pytest.raises(
        ValueError, match="adds a module 'link_decoder' to the model, got a model that has one; rename it"
    ):
        attach_decoder(model, "dot", 4, seed=0)
    with pytest.raises(ValueError, match="trained for task 'links', got one of task 'nodes'; launch task='links'"):
        decoder_of(nn.Linear(2, 2))
