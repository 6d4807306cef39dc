"""The worked models: ranks equal one process, few bits train as well, and bytes are those of the rows."""

from __future__ import annotations

import pytest
import torch

from gnnqlab.course.halo_models.collectives import EXCHANGES
from gnnqlab.course.halo_models.crystal import Crystal, neighbours, shaken
from gnnqlab.course.halo_models.model_training import MODELS, make_model, sum_gradients, train_model
from gnnqlab.course.halo_models.worked_model import HaloExchange
from tests.cases import each
from tests.ranks import run_ranks

STEPS = {"weather": 100, "flow": 40, "crystal": 25}
BOUND = {"weather": 0.01, "flow": 0.02, "crystal": 0.02}
"""Largest change of the relative error of fields or forces in 8 bits, as a share of float32's."""


def first_step(rank, workers, exchange="halo"):
    """Return loss, gradients, forces and bytes of the first step of each model."""
    found = {}
    for name in MODELS:
        model, step = make_model(name), EXCHANGES[exchange]()
        loss = model.loss(1, step)
        loss.backward()
        sum_gradients(model)
        gradients = [weight.grad.flatten() for weight in model.parameters() if weight.grad is not None]
        halo_rows = [(plan.num_halo, sum(rows.numel() for rows in plan.send_rows)) for plan in model.plans]
        found[name] = loss.detach(), torch.cat(gradients), step.sent_bytes(model.plans), halo_rows
        if isinstance(model, Crystal):
            positions = model.sites[model.own] + 0.01 * torch.sin(torch.arange(3) + 7 * model.own[:, None])
            found["pairs"] = model.plan.edges.edge_index.shape[1]
            found["forces"] = model.own, model.forces(positions, step).detach()
    return found


@pytest.fixture(scope="module")
def one_process():
    return first_step(0, 1)


@each(("ranks", "exchange"), [(2, "halo"), (3, "halo"), (3, "all-to-all"), (3, "all-gather")])
def test_ranks_equal_one_process(ranks, exchange, one_process):
    by_rank = run_ranks(first_step, ranks, exchange)
    for name in MODELS:
        exact_loss, exact_gradients = one_process[name][:2]
        total = sum(found[name][0] for found in by_rank)
        torch.testing.assert_close(total, exact_loss, rtol=1e-5, atol=1e-6)
        largest = exact_gradients.abs().max()
        for found in by_rank:
            assert (found[name][1] - exact_gradients).abs().max() <= 1e-5 * largest, name
            assert found[name][2] > 0, "every rank sends rows"
    crystal = make_model("crystal")
    assert sum(found["pairs"] for found in by_rank) == neighbours(shaken(crystal.sites, 1), crystal.box).shape[1]
    own, forces = (torch.cat([found["forces"][part] for found in by_rank]) for part in (0, 1))
    assert (forces - one_process["forces"][1][own]).abs().max() <= 1e-5 * one_process["forces"][1].abs().max()


def test_bytes_are_those_of_rows_and_gradients():
    for found in run_ranks(first_step, 2):
        # Three layers of 32 columns in float32, and their gradients.
        [(num_halo, num_sent)] = found["flow"][3]
        assert found["flow"][2] == 3 * 4 * 32 * (num_halo + num_sent)
        # Encoder and decoder exchange once, the mesh three times.
        rows = sum(sum(pair) * times for pair, times in zip(found["weather"][3], (1, 3, 1), strict=True))
        assert found["weather"][2] == 4 * 32 * rows


class Recorded(HaloExchange):
    """Exchange that stores the received rows of layer 0."""

    def __call__(self, x, plan, layer, *, bits=None):
        rows = super().__call__(x, plan, layer, bits=bits)
        self.first = rows if layer == 0 else self.first
        return rows


def error_of_positions(rank, workers):
    model, step = make_model("crystal"), Recorded(4)
    model.loss(1, step)
    positions = shaken(model.sites, 1)[model.plan.halo_ids]
    return float((step.first - positions).abs().max()), len(positions)


def test_positions_of_atoms_are_exact_in_few_bits():
    for error, count in run_ranks(error_of_positions, 2):
        assert error == 0 and count > 0


def train(rank, workers, name, steps):
    return [train_model(name, HaloExchange(bits), steps=steps) for bits in (32, 8, 4)]


@each("name", MODELS)
def test_few_bits_train_as_well(name):
    exact, eight, four = run_ranks(train, 2, name, STEPS[name])[0]
    for trained in (exact, eight, four):
        assert sum(trained.losses[-5:]) < 0.9 * sum(trained.losses[:5]), "the loss falls"
    assert exact.error < 0.7, "clearly better than a forecast of no change, whose error is 1"
    assert abs(eight.error / exact.error - 1) < BOUND[name]
    # 32 columns are 128 bytes in float32, 40 in 8 bits and 24 in 4; the positions of atoms stay in float32.
    assert eight.step_bytes < 0.4 * exact.step_bytes and four.step_bytes < 0.28 * exact.step_bytes


def test_unknown_model_is_refused():
    with pytest.raises(ValueError, match="model must be one of .*'weather'.*, got 'wether'; did you mean"):
        make_model("wether")


def test_energy_does_not_change_when_the_crystal_is_turned():
    model = make_model("crystal")
    positions = model.sites + 0.02 * torch.sin(torch.arange(3) + 7 * torch.arange(len(model.sites))[:, None])
    energy = model.energy(positions, HaloExchange())
    turned = torch.stack([positions[:, 0], -positions[:, 2], positions[:, 1]], dim=1)  # its box is square there
    torch.testing.assert_close(model.energy(turned, HaloExchange()), energy, rtol=1e-5, atol=1e-4)
