"""Exported pages of the players of messages, assignments and partitions: all states, small, and without addresses."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab import course
from gnnqlab.course.players.assigner_views import ASSIGNER_STEPS
from gnnqlab.course.players.message_views import STEPS
from tests.pages import light_values


@pytest.fixture(scope="module")
def parts() -> Any:
    return gq.partition(course.ten_nodes(), course.Halves(), workers=2)


def values(page: Path) -> Any:
    text = page.read_text(encoding="utf-8")
    assert len(text) < 1_000_000 and text.count("://") == 1, "the name of SVG"
    return light_values(text)


def test_a_message_has_every_bit_width_and_row(parts: Any, tmp_path: Path) -> None:
    player = course.MessagePlayer(parts, hidden=4, epochs=1, bits=4)
    held = values(player.export(tmp_path / "message.html"))
    assert [choice["options"] for choice in held["choices"]] == [
        ["1 bit", "2 bits", "4 bits", "8 bits"],
        [f"node {node}" for node in dict.fromkeys([player.model.walk.node, 3, 4])],
    ]
    assert set(held["states"]) == {f"{bits},{row}" for bits in range(4) for row in range(2)}
    assert all(len(steps) == len(STEPS) for steps in held["states"].values())
    shown = [step["words"] for step in held["states"]["2,0"]]
    assert player.model.say() in [words.replace("&#x27;", "'").replace("&gt;", ">") for words in shown], (
        "the state of the player is one of the page"
    )


def test_an_assignment_has_values_of_lambda_and_keeps_the_player(parts: Any, tmp_path: Path) -> None:
    player = course.AssignerPlayer(parts, hidden=4, layers=2, layer=0, group_size=1, lam=0.4)
    held = values(player.export(tmp_path / "assigner.html"))
    lam, size = held["choices"]
    assert lam["options"] == ["0", "0.2", "0.4", "0.6", "0.8", "1"] and size["options"] == ["1", "10", "100"]
    assert all(len(steps) == len(ASSIGNER_STEPS) for steps in held["states"].values()) and len(held["states"]) == 18
    assert "λ = 1" in held["states"]["5,0"][4]["words"] and player.model.walk.settings.lam == 0.4


def test_partitions_have_their_map_rows_and_code(tmp_path: Path) -> None:
    explorer = course.PartitionExplorer("sbm:60,3,6", partitioner="random", parts=2, most_parts=4)
    held = values(explorer.export(tmp_path / "partition.html"))
    names, numbers, views = (choice["options"] for choice in held["choices"])
    assert {"random", "EBV"} <= set(names) and numbers == ["2", "4"] and views == ["owner", "halo"]
    (step,) = held["states"][f"{names.index('random')},1,0"]
    assert "gq.partition(graph, gq.partitioners.Random(), workers=4)" in step["words"]
    kinds = [{trace["type"] for trace in held["figures"][each["dark"]]["data"]} for each in step["figures"]]
    assert "image" in kinds[0] and {"bar", "heatmap"} <= kinds[1]
    assert explorer.model.number == 2, "the explorer is as before"
