"""The answers of the course, computed by the library itself."""

import pytest
import torch

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.bits.assigner.groups import group
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.experiments.real_message import RealMessage
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.theory.variance import exact_variance, step_widths


def _alpha(graph: gq.Graph, source: int, target: int) -> float:
    whole = gq.partition(graph, gq.partitioners.Random(), workers=1).shards[0]
    place = {int(node): row for row, node in enumerate(whole.owned)}
    first, last = whole.indptr[place[target]], whole.indptr[place[target] + 1]
    at = first + (whole.indices[first:last] == place[source]).nonzero()[0, 0]
    return float(whole.alpha("symmetric")[at])


def test_cutting() -> None:
    graph = course.ten_nodes()
    assert EXERCISES["02.alpha"].right == pytest.approx(_alpha(graph, 4, 7))
    fifths = gq.partition(graph, course.Halves(), workers=5)
    assert EXERCISES["02.halo"].right == fifths.quality.halo_rows.sum()
    assert EXERCISES["02.bytes"].right == 512_000


def test_one_process_or_many() -> None:
    assert EXERCISES["03.loss"].right == pytest.approx((30 * 0.5 + 10 * 0.9) / 40)
    inside = gq.Graph.from_edges(
        [0, 0, 1, 1, 2, 2, 3], [1, 2, 2, 3, 3, 4, 4], num_nodes=5, features=torch.eye(5), labels=[0, 1, 0, 1, 0],
        train_idx=[0], val_idx=[1], test_idx=[2],
    )  # fmt: skip
    assert EXERCISES["03.alpha"].right == pytest.approx(_alpha(inside, 1, 3))
    assert _alpha(course.ten_nodes(), 1, 3) == pytest.approx(20**-0.5), "with the degrees of the whole graph"
    assert EXERCISES["03.bytes"].right == 340_000


def test_few_bits() -> None:
    rows = torch.tensor([[-1.0, 2.2, 5.0]])
    assert EXERCISES["04.step"].right == step_widths(torch.tensor([6.0]), 2).item()
    assert EXERCISES["04.variance"].right == pytest.approx(exact_variance(rows, 2).item(), rel=1e-5)
    message = RealMessage(rows, torch.tensor([0]), 0, 1, layer=1, epoch=0, seed=0)
    ups = [int(MessageWalk.from_message(message, bits=2, draw=draw).codes[1]) == 2 for draw in range(400)]
    assert sum(ups) / 400 == pytest.approx(EXERCISES["04.chance"].right, abs=5 * (0.24 / 400) ** 0.5)
    wide = RealMessage(torch.rand(1, 100), torch.tensor([0]), 0, 1, layer=1, epoch=0, seed=0)
    assert EXERCISES["04.bytes"].right == MessageWalk.from_message(wide, bits=2).layout.num_bytes


def test_old_rows() -> None:
    from gnnqlab.course.experiments.staleness import staleness_by_epoch
    from gnnqlab.exchange import AdaptivePipeline

    found = staleness_by_epoch(AdaptivePipeline(bound=4), [1e6 - epoch**3 for epoch in range(101)])["age"]
    assert EXERCISES["11.stale"].right == pytest.approx(found.iloc[1:].mean())


def test_smoothed_rows() -> None:
    gamma, mean, missing = 0.95, 0.0, 1.0
    for _ in range(10):
        mean, missing = gamma * mean + (1 - gamma) * 1.0, gamma * missing
    assert EXERCISES["28.start"].right == pytest.approx(100 * mean) == pytest.approx(100 * (1 - missing))
    weights = [(1 - gamma) * gamma**k for k in range(2000)]
    assert EXERCISES["28.age"].right == pytest.approx(sum((k + 1) * weight for k, weight in enumerate(weights)))
    swing = 0.0
    for epoch in range(60):
        swing = 0.5 * swing + 0.5 * (-1) ** epoch
    assert EXERCISES["28.wave"].right == pytest.approx(abs(swing))


def test_some_of_the_rows() -> None:
    sampler = gq.samplers.BoundarySampling(p=0.25)
    p = 1 / sampler.rescale
    assert EXERCISES["23.variance"].right == pytest.approx((1 - p) / p * (0.5 + 0.1))
    assert EXERCISES["23.silence"].right == pytest.approx((1 - 0.1) ** 5)
    assert EXERCISES["23.bytes"].right == 40 * 0.5 * 4 / 32


def test_the_tuner() -> None:
    assert EXERCISES["22.groups"].right == group(torch.rand(250), 100).beta.numel()
    waiting = {"vanilla": 100 / 100, "adaqp": 20 / 100}
    assert EXERCISES["22.link"].right == pytest.approx((30 + waiting["vanilla"]) / (35 + waiting["adaqp"]))
    assert EXERCISES["22.points"].right == 1, "notebook 22 counts them"


def test_on_a_gpu() -> None:
    from benchmarks.kernels.compiled import Resources
    from gnnqlab.kernels.codec.rows import row_bytes

    assert EXERCISES["24.warps"].right == 100 * Resources("", 41, 0, 0).occupancy
    row = 4 * 256 + int(row_bytes(256, 2)) + 2 * 4
    assert EXERCISES["24.bytes"].right == row
    assert EXERCISES["24.time"].right == pytest.approx(100_000 * row / 3000e9 * 1e6)


def test_codes_for_rows() -> None:
    from gnnqlab.course.codec_views import decode_repeatedly
    from gnnqlab.message.codecs.lloyd_max import relative_error

    row = torch.tensor([0.0, 1.0] + [0.5] * 62)
    arrived = decode_repeatedly(row, gq.codecs.Stochastic(), 1, draws=3)
    errors = (arrived - row).square().sum(1) / row.square().sum()
    assert errors.tolist() == pytest.approx([EXERCISES["25.middle"].right] * 3)
    assert EXERCISES["25.normal"].right == pytest.approx(relative_error(1, 1 << 20), rel=1e-3)
    assert EXERCISES["25.bytes"].right == gq.codecs.Spikes().layout(2, 1, 256).num_bytes


def test_a_code_of_ones_own() -> None:
    x, s = torch.tensor([4.0, -1.0, 0.0]), 4.0
    assert EXERCISES["20.variance"].right == float((x.abs() * (s - x.abs())).sum())
