"""The page about the exchange alone: its program, run on real ranks over a mesh of the sphere."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch import Tensor

from gnnqlab import halo
from gnnqlab.course.halo_models.icosphere import icosphere
from tests.pages import ROOT, blocks
from tests.ranks import run_ranks

PAGE = ROOT / "docs" / "halo_exchange.md"
HOW_TO = ROOT / "docs" / "how_to" / "halo_plans.md"
LEVELS, STEPS = 2, 12


def program():
    return "\n".join(blocks(PAGE))


def mesh(workers):
    """Return the data that the page loads: a field on the sphere, and each node's distance to its neighbours' mean."""
    nodes, edges = icosphere(LEVELS)
    field = (torch.sin(3 * nodes[:, :1]) * nodes[:, 1:2]).float()
    degrees = torch.bincount(edges[1], minlength=len(nodes))[:, None]
    target = torch.zeros_like(field).index_add_(0, edges[1], field[edges[0]]) / degrees - field
    stripes = nodes[:, 2].argsort().argsort() * workers // len(nodes)
    return {"nodes": nodes, "edges": edges, "owner": stripes, "inputs": field, "target": 10 * target}


class Trained(NamedTuple):
    losses: Tensor
    gradients: Tensor
    """Gradients of all weights in the last step."""
    predicted: Tensor
    """Predictions of this rank's nodes, in float32."""
    sent_bytes: int


def trained(rank, workers, runs):
    page = mesh(workers)
    exec(compile(program(), str(PAGE), "exec"), page)
    plan, results = page["plan"], []
    for bits, steps in runs:
        before = plan.sent_bytes
        model, losses = page["train"](bits, steps)
        sent = plan.sent_bytes - before
        with torch.no_grad():
            predicted = model(page["inputs"][page["own"]], 32, 0)
        gradients = torch.cat([weight.grad.flatten() for weight in model.parameters()])
        results.append(Trained(torch.tensor(losses), gradients, predicted, sent))
    num_sent = sum(rows.numel() for rows in plan._lists.send)
    return page["own"], plan.num_halo, num_sent, results


def other_frameworks(rank, workers):
    """Return lists as the other frameworks have them, and the ids of the halo nodes and of all sources of a rank."""
    owner = torch.arange(12) // (12 // workers)
    sources = [torch.randint(12, (9,), generator=torch.Generator().manual_seed(of)).unique() for of in range(workers)]
    by_owner = [[ids[owner[ids] == of] for ids in sources] for of in range(workers)]  # sender, then receiver
    first = 12 // workers * rank
    scatter = [ids - first for ids in by_owner[rank]]
    send = [rows[:0] if peer == rank else rows for peer, rows in enumerate(scatter)]
    receive = [0 if peer == rank else parts[rank].numel() for peer, parts in enumerate(by_owner)]
    names = {
        "halo_info": SimpleNamespace(num_local_src_nodes=12 // workers, send_indices=tuple(send), recv_counts=receive),
        "gp_context": SimpleNamespace(
            total_local_atoms=12 // workers, send_indices=torch.cat(send), recv_counts=torch.tensor(receive),
            send_counts=torch.tensor([rows.numel() for rows in send]),
        ),
        "partition": SimpleNamespace(
            partition_rank=rank, scatter_indices=scatter, num_src_nodes_in_each_partition=[12 // workers] * workers,
            sizes=[[ids.numel() for ids in parts] for parts in by_owner],
        ),
        "model_comm_group": None, "process_group": None,
    }  # fmt: skip
    return names, sources[rank][owner[sources[rank]] != rank], sources[rank]


def check_other_frameworks(page, rank, workers, halo_ids, source_ids):
    """Compare the functions of the page with the rows of one process."""
    rows = torch.randn(12, 6, generator=torch.Generator().manual_seed(9))
    own = rows[12 // workers * rank :][: 12 // workers]

    def near(found, expected):
        torch.testing.assert_close(found, expected, atol=0.03, rtol=0)  # a step of 8 bits

    near(page["with_halo"](own, 0, 0), torch.cat([own, rows[halo_ids]]))
    near(page["source_features"](own, 0, 0), rows[source_ids])
    near(page["all_to_all_collect"](own.view(-1, 3, 2), page["gp_plan"], 0), rows[halo_ids].view(-1, 3, 2))


def how_to(rank, workers):
    page, *ids = other_frameworks(rank, workers)
    exec(compile("\n".join(block for block in blocks(HOW_TO) if "my_ranks" not in block), str(HOW_TO), "exec"), page)
    plan, own = page["plan"], page["own"]
    assert torch.equal(page["everything"][:0], page["x"][:0]) and len(page["everything"]) == 100
    assert page["forces"].shape == page["x"].grad.shape == (own.numel(), 16)
    assert page["decoder"].edges.target_ids.tolist() == list(range(rank, 40, workers))
    assert page["sample_rows"].shape == (page["plan"].num_halo, 16) or workers > 1
    assert page["choice"].bits in (4, 8)
    check_other_frameworks(page, rank, workers, *ids)
    return plan.name, plan.num_halo > 0


def test_the_page_of_plans_runs_on_two_ranks():
    assert run_ranks(how_to, 2) == [("neighbours", True)] * 2


def test_the_page_of_plans_starts_ranks(tmp_path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(tmp_path)
    module, start = (block for block in blocks(HOW_TO) if "my_ranks" in block)
    (tmp_path / "my_ranks.py").write_text(module)
    exec(compile(start, str(HOW_TO), "exec"), {"halo": halo})
    assert capsys.readouterr().out == "[25.0, 20.0]\n"  # odd nodes and even nodes
    sys.modules.pop("my_ranks")


def test_an_icosphere_is_one():
    nodes, edges = icosphere(LEVELS)
    assert nodes.shape == (162, 3) and edges.shape == (2, 960)
    degrees = torch.bincount(edges[0])
    assert torch.equal(degrees, torch.bincount(edges[1])) and (degrees == 5).sum() == 12 and (degrees == 6).sum() == 150
    lengths = (nodes[edges[0]] - nodes[edges[1]]).norm(dim=1)
    assert lengths.max() < 1.3 * lengths.min()


def test_a_mesh_model_on_three_ranks_is_that_of_one_process_and_trains_in_4_bits():
    ((_, _, _, [alone, longer]),) = run_ranks(trained, 1, [(32, 3), (32, STEPS)])
    ranks = run_ranks(trained, 3, [(32, 3), (4, STEPS), ((4, 8), 1)])
    predicted = torch.empty_like(alone.predicted)
    for own, num_halo, num_sent, [exact, coded, both] in ranks:
        torch.testing.assert_close(exact.losses, alone.losses, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(exact.gradients, alone.gradients, rtol=1e-5, atol=1e-5)
        predicted[own] = exact.predicted
        assert num_halo > 0
        # A step sends rows of three layers, and returns their gradients.
        rows, gradients = 3 * num_sent, 3 * num_halo
        assert exact.sent_bytes == 3 * (128 * rows + 128 * gradients)
        assert coded.sent_bytes == STEPS * (24 * rows + 128 * gradients)
        assert both.sent_bytes == 24 * rows + (32 + 8) * gradients
        assert coded.losses[-1] < 0.5 * coded.losses[0], "the loss falls"
        assert abs(coded.losses[-1] / longer.losses[-1] - 1) < 0.2, "similar to float32"
    torch.testing.assert_close(predicted, alone.predicted, rtol=1e-5, atol=1e-5)
