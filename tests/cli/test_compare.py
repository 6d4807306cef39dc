"""``gnnqlab compare`` over a grid: a row for each combination, a target for each graph and model, and failed runs.

The trainings are made up; ``test_line.py`` has a real one.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gnnqlab import cli
from gnnqlab.errors import WorkerFailed
from gnnqlab.launch import local
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.records.evaluation_pauses import advice
from tests.lab.synthetic import make_run

_BEST = {"gcn": 0.9, "sgc": 0.8}


@dataclass
class MadeUp:
    """A run that has already ended, without a failure."""

    config: RunConfig

    def __post_init__(self) -> None:
        name, model = self.config.system.name, self.config.model.name
        run = make_run(name, epochs=6, bits=getattr(self.config.system.bits, "bits", 32))
        self.id, self.records, self.traffic = f"{name}-{model}", run.records, run.traffic
        facts = {"model": model, "graph": self.config.graph, "best_val": _BEST[model]}
        self.summary = {**run.summary, **facts, "evaluate_every": self.config.train.evaluate_every}
        self.summary |= {"bytes_payload": 8, "bytes_params": 0}
        self.settings = self.config.to_json()

    def wait(self, *, progress: bool) -> None:
        pass


@pytest.fixture(autouse=True)
def made_up(monkeypatch):
    """Replace launches by finished runs; one of ``adaqp-p`` fails."""

    def launch(config: RunConfig, **more: Any) -> MadeUp:
        if config.system.name == "adaqp-p":
            raise WorkerFailed("rank 1 died in epoch 2\nits log says more")
        if said := advice(config.system, config.workers, config.train.evaluate_every):
            warnings.warn(said, stacklevel=2)
        return MadeUp(config)

    monkeypatch.setattr(local, "launch", launch)


def said_json(capsys):
    said = capsys.readouterr()
    return json.loads(said.out.splitlines()[-1]), said.err


def test_every_system_with_every_model_on_every_graph(capsys, tmp_path):
    systems = "vanilla,fixed-bits:bits=1,fixed-bits:bits=8"
    grid = ["--graph", "digits,sbm:300,3,6", "--model", "gcn,sgc", "--systems", systems]
    cli.main(["compare", *grid, "--json", "--out", str(tmp_path)])
    result, progress = said_json(capsys)
    rows = [(row["graph"], row["model"], row["system"], row["settings"]) for row in result["runs"]]
    assert rows == [
        (graph, model, system, settings)
        for graph in ("digits", "sbm:300,3,6")
        for model in ("gcn", "sgc")
        for system, settings in (("vanilla", {}), ("fixed-bits", {"bits": 1}), ("fixed-bits", {"bits": 8}))
    ]
    assert "12 of 12: fixed-bits:bits=8 on sbm:300,3,6: " in progress and "1 of 12: vanilla on digits: " in progress
    assert result["failed"] == []
    parts = result["comparisons"]
    assert [(part["graph"], part["model"]) for part in parts] == [(row[0], row[1]) for row in rows[::3]]
    for part, vanilla in zip(parts, result["runs"][::3]):
        # Half a point below Vanilla on this graph with this model.
        assert part["target"] == pytest.approx(vanilla["best_val"] - 0.005)
        page = Path(part["report"])
        assert page.exists() and part["model"] in page.name
    assert len({part["report"] for part in parts}) == 4


def test_model_without_mini_batches_is_reported_as_skipped_with_a_reason(capsys, tmp_path):
    words = ["compare", "--systems", "vanilla", "--model", "sgc", "--mini-batch", "--out", str(tmp_path)]
    cli.main(words)
    said = capsys.readouterr().out
    reason = "it supports the models gcn, graphsage, gat, got sgc"
    assert f"no mini-batch line for sgc on digits: {reason}" in said
    cli.main([*words, "--json"])
    assert said_json(capsys)[0]["mini_batch"] == {"skipped": reason}


def test_one_that_fails_is_a_line_and_the_others_go_on(capsys, tmp_path):
    words = ["compare", "--systems", "vanilla,adaqp-p,fixed-bits:bits=4", "--out", str(tmp_path)]
    with pytest.raises(SystemExit) as end:
        cli.main([*words, "--json"])
    assert end.value.code == 1
    result, progress = said_json(capsys)
    assert [row["system"] for row in result["runs"]] == ["vanilla", "fixed-bits"]
    assert result["failed"] == [
        {
            "system": "adaqp-p",
            "settings": {},
            "model": "gcn",
            "graph": "digits",
            "error": "rank 1 died in epoch 2 its log says more",
        }
    ]
    assert "gnnqlab: adaqp-p, gcn on digits: rank 1 died in epoch 2 its log says more\n" in progress
    assert progress.rstrip().endswith("gnnqlab: 1 of 3 trainings failed")
    assert {"target", "report"} <= set(result) and "comparisons" not in result
    # If all runs have failed, there is nothing to compare.
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", "--systems", "adaqp-p", "--out", str(tmp_path)])
    assert end.value.code == 1 and "failed" in capsys.readouterr().out


def test_several_seeds_are_one_row_with_an_interval(capsys, tmp_path):
    words = ["compare", "--systems", "vanilla,fixed-bits:bits=4", "--seeds", "3", "--seed", "5", "--out", str(tmp_path)]
    cli.main([*words, "--json"])
    result, progress = said_json(capsys)
    trained = [(row["system"], row["seed"]) for row in result["runs"]]
    assert trained == [(name, seed) for seed in (5, 6, 7) for name in ("vanilla", "fixed-bits")]
    assert "6 of 6: fixed-bits:bits=4, seed 7 on digits: " in progress
    over = {(row["system"], row["metric"]): row for row in result["over_seeds"]}
    assert over["fixed-bits", "speed-up"]["seeds"] == 3 and over["fixed-bits", "speed-up"]["half_interval"] >= 0
    assert over["vanilla", "speed-up"]["mean"] == 1.0 and over["vanilla", "total"]["difference"] == 0.0
    cli.main(words)
    table = capsys.readouterr().out.splitlines()
    assert table[0].split()[:2] == ["system", "seeds"] and [line.split()[:2] for line in table[1:3]] == [
        ["vanilla", "3"], ["fixed-bits", "3"],
    ]  # fmt: skip
    assert "95 % intervals" in table[3]


def test_a_failed_seed_is_named_and_the_others_are_compared(capsys, tmp_path):
    words = ["compare", "--systems", "vanilla,adaqp-p", "--seeds", "2", "--out", str(tmp_path)]
    with pytest.raises(SystemExit):
        cli.main([*words, "--json"])
    assert [(line["system"], line["seed"]) for line in said_json(capsys)[0]["failed"]] == [
        ("adaqp-p", 0),
        ("adaqp-p", 1),
    ]
    with pytest.raises(SystemExit):
        cli.main(words)
    assert "failed: adaqp-p, seed 1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as end:
        cli.main(["compare", "--seeds", "0"])
    assert end.value.code == 2 and "seeds must be at least 1, got 0" in capsys.readouterr().err


def test_all_systems_of_a_comparison_are_evaluated_equally_often(capsys, tmp_path):
    cli.main(["compare", "--systems", "vanilla,pipegcn", "--json", "--out", str(tmp_path)])
    result, progress = said_json(capsys)
    assert [row["evaluate_every"] for row in result["runs"]] == [10, 10]
    assert progress.count("scores after every 10 epochs") == 2
    words = ["compare", "--systems", "pipegcn,sylvie", "--evaluate-every", "1", "--out", str(tmp_path)]
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        cli.main(words)
    # Each in one line, without the place in the code.
    assert [line[:42] for line in capsys.readouterr().err.splitlines() if "need epochs" in line] == [
        "gnnqlab: epoch times of pipegcn need epoch",
        "gnnqlab: epoch times of sylvie need epochs",
    ]


def test_a_mistake_anywhere_in_the_grid_shows_before_anything_is_trained(capsys, tmp_path):
    for grid in (["--model", "gcn,gcm"], ["--graph", "digits,digit"], ["--systems", "vanilla,bns-gcn:p=2"]):
        with pytest.raises(SystemExit) as end:
            cli.main(["compare", *grid, "--out", str(tmp_path)])
        assert end.value.code == 2
        assert len(capsys.readouterr().err.splitlines()) == 1
    assert not list(tmp_path.iterdir())


def test_a_grid_has_a_table_for_each_graph_and_model(capsys, tmp_path):
    grid = ["--model", "gcn,sgc", "--systems", "vanilla,fixed-bits:bits=4,adaqp-p", "--out", str(tmp_path)]
    with pytest.raises(SystemExit):
        cli.main(["compare", *grid])
    first, second = capsys.readouterr().out.partition("report:")[0].strip().split("\n\n")
    assert first.startswith("gcn on digits\n") and second.startswith("sgc on digits\n")
    for text in (first, second):
        assert text.endswith("failed: adaqp-p") and [line.split()[0] for line in text.splitlines()[2:4]] == [
            "vanilla",
            "fixed-bits",
        ]


def test_ratios_are_of_vanilla_wherever_it_is_and_a_score_below_it_is_marked(capsys, tmp_path, monkeypatch):
    class Worse(MadeUp):
        def __post_init__(self) -> None:
            super().__post_init__()
            self.summary["test_accuracy"] -= 0.2 if self.config.system.name == "fixed-bits" else 0.0

    monkeypatch.setattr(local, "launch", lambda config, **more: Worse(config))
    cli.main(["compare", "--systems", "fixed-bits,vanilla", "--out", str(tmp_path)])
    first, second, note, *_ = capsys.readouterr().out.splitlines()[1:]
    assert "1.00 ×" not in first and "1.00 ×" in second
    assert note == "fixed-bits misses vanilla's accuracy by 20.00 points"
