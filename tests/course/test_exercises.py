"""The answers of the course, computed by the library itself, and the replies to wrong ones."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.bits.assigner.groups import group
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.experiments.real_message import RealMessage
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.course.student import progress
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.partition.cut import NodeCut
from gnnqlab.theory.variance import exact_variance, step_widths


@dataclass(frozen=True)
class _Owned:
    """A cut by given owners."""

    owner: torch.Tensor

    def cut(self, graph: gq.Graph, workers: int) -> NodeCut:
        return NodeCut(owner=self.owner, workers=workers)


def right(name: str) -> float:
    """Return the right answer with the numbers of the notebook."""
    return EXERCISES[name].evaluate(EXERCISES[name].numbers_of(""))


def _alpha(graph: gq.Graph, source: int, target: int) -> float:
    whole = gq.partition(graph, gq.partitioners.Random(), workers=1).shards[0]
    place = {int(node): row for row, node in enumerate(whole.owned)}
    first, last = whole.indptr[place[target]], whole.indptr[place[target] + 1]
    at = first + (whole.indices[first:last] == place[source]).nonzero()[0, 0]
    return float(whole.alpha("symmetric")[at])


def test_cutting() -> None:
    graph = course.ten_nodes()
    assert right("02.alpha") == pytest.approx(_alpha(graph, 4, 7))
    for variant in range(4):
        graph = course.ten_nodes(variant)
        for node in (2, 3):
            numbers = {"node": node, "graph": variant}
            assert EXERCISES["02.alpha"].evaluate(numbers) == pytest.approx(_alpha(graph, 4, node))
        for workers in (5, 3, 4):
            parts = gq.partition(graph, course.Halves(), workers=workers)
            numbers = {"workers": workers, "graph": variant}
            assert EXERCISES["02.halo"].evaluate(numbers) == parts.quality.halo_rows.sum()
        for node in (7, 3, 2, 6):
            owner = torch.arange(10) // 5
            owner[node] = 1 - owner[node]
            parts = gq.partition(graph, _Owned(owner), workers=2)
            numbers = {"node": node, "graph": variant}
            assert EXERCISES["01.rows"].evaluate(numbers) == parts.quality.halo_rows.sum()
    assert right("02.bytes") == 512_000


def test_one_process_or_many() -> None:
    assert right("03.loss") == pytest.approx((30 * 0.5 + 10 * 0.9) / 40)
    inside = gq.Graph.from_edges(
        [0, 0, 1, 1, 2, 2, 3], [1, 2, 2, 3, 3, 4, 4], num_nodes=5, features=torch.eye(5), labels=[0, 1, 0, 1, 0],
        train_idx=[0], val_idx=[1], test_idx=[2],
    )  # fmt: skip
    assert right("03.alpha") == pytest.approx(_alpha(inside, 1, 3))
    assert _alpha(course.ten_nodes(), 1, 3) == pytest.approx(20**-0.5), "with the degrees of the whole graph"
    assert right("03.bytes") == 340_000


def test_few_bits() -> None:
    rows = torch.tensor([[-1.0, 2.2, 5.0]])
    assert right("04.step") == step_widths(torch.tensor([6.0]), 2).item()
    assert right("04.variance") == pytest.approx(exact_variance(rows, 2).item(), rel=1e-5)
    message = RealMessage(rows, torch.tensor([0]), 0, 1, layer=1, epoch=0, seed=0)
    ups = [int(MessageWalk.from_message(message, bits=2, draw=draw).codes[1]) == 2 for draw in range(400)]
    assert sum(ups) / 400 == pytest.approx(right("04.chance"), abs=5 * (0.24 / 400) ** 0.5)
    wide = RealMessage(torch.rand(1, 100), torch.tensor([0]), 0, 1, layer=1, epoch=0, seed=0)
    assert right("04.bytes") == MessageWalk.from_message(wide, bits=2).layout.num_bytes


def test_bit_widths_over_time() -> None:
    shares = (0.5, 0.25, 0.125, 0.125)
    assert right("10.mean") == sum(share * bits for share, bits in zip(shares, (1, 2, 4, 8))) == 2.5


def test_old_rows() -> None:
    from gnnqlab.course.experiments.staleness import staleness_by_epoch
    from gnnqlab.exchange import AdaptivePipeline

    found = staleness_by_epoch(AdaptivePipeline(bound=4), [1e6 - epoch**3 for epoch in range(101)])["age"]
    assert right("11.stale") == pytest.approx(found.iloc[1:].mean())


def test_smoothed_rows() -> None:
    gamma, mean, missing = 0.95, 0.0, 1.0
    for _ in range(10):
        mean, missing = gamma * mean + (1 - gamma) * 1.0, gamma * missing
    assert right("28.start") == pytest.approx(100 * mean) == pytest.approx(100 * (1 - missing))
    weights = [(1 - gamma) * gamma**k for k in range(2000)]
    assert right("28.age") == pytest.approx(sum((k + 1) * weight for k, weight in enumerate(weights)))
    swing = 0.0
    for epoch in range(60):
        swing = 0.5 * swing + 0.5 * (-1) ** epoch
    assert right("28.wave") == pytest.approx(abs(swing))


def test_some_of_the_rows() -> None:
    sampler = gq.samplers.BoundarySampling(p=0.25)
    p = 1 / sampler.rescale
    assert right("23.variance") == pytest.approx((1 - p) / p * (0.5 + 0.1))
    assert right("23.silence") == pytest.approx((1 - 0.1) ** 5)
    assert right("23.bytes") == 40 * 0.5 * 4 / 32


def test_the_tuner() -> None:
    assert right("22.groups") == group(torch.rand(250), 100).beta.numel()
    waiting = {"vanilla": 100 / 100, "adaqp": 20 / 100}
    assert right("22.link") == pytest.approx((30 + waiting["vanilla"]) / (35 + waiting["adaqp"]))
    assert right("22.points") == 1, "notebook 22 counts them"


def test_on_a_gpu() -> None:
    from benchmarks.kernels.compiled import Resources
    from gnnqlab.kernels.codec.rows import row_bytes

    assert right("24.warps") == 100 * Resources("", 41, 0, 0).occupancy
    row = 4 * 256 + int(row_bytes(256, 2)) + 2 * 4
    assert right("24.bytes") == row
    assert right("24.time") == pytest.approx(100_000 * row / 3000e9 * 1e6)


def test_codes_for_rows() -> None:
    from gnnqlab.course.codec_views import decode_repeatedly
    from gnnqlab.message.codecs.lloyd_max import relative_error

    row = torch.tensor([0.0, 1.0] + [0.5] * 62)
    arrived = decode_repeatedly(row, gq.codecs.Stochastic(), 1, draws=3)
    errors = (arrived - row).square().sum(1) / row.square().sum()
    assert errors.tolist() == pytest.approx([right("25.middle")] * 3)
    assert right("25.normal") == pytest.approx(relative_error(1, 1 << 20), rel=1e-3)
    assert right("25.bytes") == gq.codecs.Spikes().layout(2, 1, 256).num_bytes


def test_halo_exchange_of_other_models() -> None:
    for columns, bits in ((128, 4), (64, 2), (256, 8)):
        coded, exact = (
            codec.layout(width, 1, columns).num_bytes for codec, width in ((Stochastic(), bits), (Float32(), 32))
        )
        assert EXERCISES["29.row"].evaluate({"columns": columns, "bits": bits}) == 100 * coded / exact
    # Four ranks in a ring of 400 nodes, with neighbours up to 20 places away.
    owner, nodes = torch.arange(400) // 100, torch.arange(400).repeat_interleave(41)
    sources = (nodes + torch.arange(-20, 21).repeat(400)) % 400
    halo = sources[owner[nodes] == 0].unique()
    halo = halo[owner[halo] != 0]
    assert len(halo) == 40
    assert EXERCISES["29.gather"].evaluate({"ranks": 4, "halo": 40}) == int((owner != 0).sum()) / len(halo)


def test_a_code_of_ones_own() -> None:
    x, s = torch.tensor([4.0, -1.0, 0.0]), 4.0
    assert right("20.variance") == float((x.abs() * (s - x.abs())).sum())


def test_three_wrong_answers_get_two_hints_and_then_the_solution(capsys: pytest.CaptureFixture[str]) -> None:
    for answer in (512, 512, 500, 501):
        course.check("01.payload", answer)
    said = capsys.readouterr().out.splitlines()
    assert "Bits or bytes?" in said[0] and said[0] == said[1], "the same answer again is no further try"
    assert "Eight bits are a byte." in said[2]
    assert said[4] == "The solution: course.show_solution('01.payload')"
    course.show_solution("01.payload")
    assert capsys.readouterr().out == "256 · 2 / 8 = 64. Eight bits are a byte.\n"


def test_the_solution_needs_tries(capsys: pytest.CaptureFixture[str]) -> None:
    course.check("01.ratio", 2)
    course.show_solution("01.ratio")
    said = capsys.readouterr().out
    assert "after a right answer or 3 wrong ones; you have 1." in said and "14.2" not in said


def test_a_rounded_answer_is_no_wrong_try(capsys: pytest.CaptureFixture[str]) -> None:
    for answer in ("14", 14, "14,0"):
        course.check("01.ratio", answer)
    said = capsys.readouterr().out.splitlines()
    assert said[:2] == ["Almost, 14 is not exact enough. Right so far: write one more digit."] * 2
    assert "Not yet" in said[2], "14.0 has the digit, and it is wrong"
    course.check("01.ratio", "14,2")
    assert capsys.readouterr().out == "Right: 14.2222.\n"
    assert [each["answer"] for each in progress.read()["answers"]["01.ratio"]["wrong"]] == [14.0]


@pytest.mark.parametrize("answer", ["64 bytes", "many", [64], float("nan"), "inf"])
def test_an_answer_that_is_no_number_is_explained(answer: object, capsys: pytest.CaptureFixture[str]) -> None:
    course.check("01.payload", answer)
    assert capsys.readouterr().out == f"Not yet, {answer!r} is no number. Write it without units.\n"
    assert not course.is_right("01.payload", answer) and not progress.path().exists()


def test_a_student_has_other_numbers_and_sees_them(capsys: pytest.CaptureFixture[str]) -> None:
    course.start("Ada")
    course.check("01.payload", None)
    text = capsys.readouterr().out
    numbers = EXERCISES["01.payload"].numbers_of("Ada", "01.payload")
    assert f"A row has {numbers['columns']:g} values." in text and "in place of None" in text
    course.check("01.payload", 64)
    assert "Not yet" in capsys.readouterr().out
    course.check("01.payload", numbers["columns"] * numbers["bits"] / 8)
    assert "Right: " in capsys.readouterr().out
    course.start("Grace")
    assert progress.read()["answers"] == {}, "answers to other numbers"
    course.start("Ada")
    assert set(progress.read()["answers"]) == {"01.payload"}


def test_a_student_has_one_graph_of_ten_nodes_in_all_exercises() -> None:
    assert torch.equal(course.my_graph().indices, course.ten_nodes().indices)
    course.start("Ada")
    numbers = {name: EXERCISES[name].numbers_of("Ada", name)["graph"] for name in ("01.rows", "02.alpha", "02.halo")}
    (variant,) = set(numbers.values())
    assert variant in (1, 2, 3)
    assert torch.equal(course.my_graph().indices, course.ten_nodes(int(variant)).indices)
    course.draw(gq.partition(course.my_graph(), course.Halves(), workers=2))
    with pytest.raises(ValueError, match="variant must be one of 0 to 3, got 4"):
        course.ten_nodes(4)


def test_an_unknown_exercise_is_refused() -> None:
    for call in (lambda: course.check("01.bytes", 1), lambda: course.is_right("01.bytes", 1)):
        with pytest.raises(ValueError, match=r"an exercise must be one of 01.payload, .*rows, got '01.bytes'"):
            call()
    with pytest.raises(ValueError, match=r"named as in its notebook, .*, got '1.payload'; did you mean 01.payload"):
        course.check("1.payload", 1)
