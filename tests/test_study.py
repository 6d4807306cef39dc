"""Studies: the grid, repeated trainings, failed and interrupted cells, pairing, tables, and one real launch."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import gnnqlab as gq
from gnnqlab.kernels import native
from gnnqlab.launch import calibrate
from gnnqlab.study import Cell, Contestant, RunResult
from gnnqlab.study.study import FINISHED, MISSING
from gnnqlab.study.tables import GROUP, best_cells, summarize

GRAPH = "sbm:300,4,8"
SECONDS = {"vanilla": 8.0, "fixed-bits": 2.0, "adaqp": 4.0}


class Trainer:
    """Replaces the launcher: seconds by system and scores by seed, and the cells that it received."""

    def __init__(self, **failures: type[BaseException]) -> None:
        self.failures, self.cells = failures, []

    def __call__(self, cell: Cell, folder: Path) -> RunResult:
        self.cells.append((cell.contestant.label, cell.seed))
        failure = self.failures.get(f"{cell.contestant.name}_{cell.seed}")
        if failure is not None:
            raise failure("worker 1 died")
        train_s = SECONDS[cell.contestant.name] * (1 + cell.seed)
        score = 0.8 + 0.01 * cell.seed - (0.005 if cell.contestant.name == "adaqp" else 0.0)
        curve = ((1, train_s / 2, 0.7), (2, train_s, 0.9))
        return RunResult(score=score, train_s=train_s, curve=curve, epochs=2, epochs_s=(train_s / 2,) * 2,
                         epochs_bytes=(1e6,) * 2, bytes_sent=1e6, bits=2.0)  # fmt: skip


def study(folder: Path, train: Any, **changes: Any) -> gq.Study:
    asked: dict[str, Any] = {"systems": ["vanilla", "fixed-bits"], "graphs": [GRAPH], "seeds": [0, 1], "epochs": 2}
    return gq.Study(**{**asked, **changes}, folder=folder, train=train)


def test_cells_are_ordered_by_seed_then_system_with_equal_settings(tmp_path: Path) -> None:
    train = Trainer()
    made = study(tmp_path, train, systems=["vanilla", "pipegcn"], link="100mbit", workers=[2, 4], hosts=2)
    assert [(cell.case.workers, cell.seed, cell.contestant.label) for cell in made.cells[:5]] == [
        (2, 0, "vanilla"), (2, 0, "pipegcn"), (2, 1, "vanilla"), (2, 1, "pipegcn"), (4, 0, "vanilla"),
    ]  # fmt: skip
    for ours, theirs in zip(made.cells[::2], made.cells[1::2], strict=True):
        assert ours.config.train == theirs.config.train, "the longest interval is used"
        assert (ours.config.launch, ours.config.model, ours.config.system.partition) == (
            theirs.config.launch, theirs.config.model, theirs.config.system.partition,
        )  # fmt: skip
    assert train.cells == [], "nothing is trained before run()"


def test_second_run_trains_only_new_cells_of_a_larger_grid(tmp_path: Path) -> None:
    train = Trainer()
    first = study(tmp_path, train).run()
    assert train.cells == [("vanilla", 0), ("fixed-bits", 0), ("vanilla", 1), ("fixed-bits", 1)]
    again = study(tmp_path, train, systems=["vanilla", "fixed-bits", "adaqp"]).run()
    assert train.cells[4:] == [("adaqp", 0), ("adaqp", 1)]
    both = again.frame()
    pd.testing.assert_frame_equal(first.frame(), both[both["system"] != "adaqp"].reset_index(drop=True))


def test_convergence_is_the_mean_of_the_seeds_that_finished(tmp_path: Path) -> None:
    made = study(tmp_path, Trainer(**{"fixed-bits_1": RuntimeError}))
    assert made.convergence().empty
    found = made.run().convergence().set_index(["system", "epochs"])
    assert found.loc[("vanilla", 2), ["seconds", "score", "seeds"]].tolist() == pytest.approx([12.0, 90.0, 2])
    assert found.loc[("vanilla", 2), "low"] == found.loc[("vanilla", 2), "high"], "both seeds have the same score"
    assert found.loc[("fixed-bits", 1), ["seconds", "score", "seeds"]].tolist() == pytest.approx([1.0, 70.0, 1])
    assert math.isnan(found.loc[("fixed-bits", 1), "low"]), "one seed has no interval"


@pytest.mark.parametrize(
    "change", [{"epochs": 3}, {"hidden": 8}, {"graphs": ["sbm:300,4,9"]}, {"link": "1gbit"}, {"workers": 1}]
)
def test_another_setting_or_graph_is_another_cell(tmp_path: Path, change: dict[str, Any]) -> None:
    train = Trainer()
    study(tmp_path, train, seeds=[0]).run()
    study(tmp_path, train, seeds=[0], **change).run()
    assert len(train.cells) == 4


def test_another_version_or_other_kernels_train_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train = Trainer()
    study(tmp_path, train, seeds=[0]).run()
    monkeypatch.setattr(gq, "__version__", "0.1.1")
    study(tmp_path, train, seeds=[0]).run()
    assert len(train.cells) == 4
    usual = native.status()
    for change in ({"backend": "another"}, {"isa": "another"}):
        monkeypatch.setattr(native, "status", lambda change=change: {**usual, **change})
        study(tmp_path, train, seeds=[0]).run()
    assert len(train.cells) == 8


def test_a_file_is_known_by_its_content(tmp_path: Path) -> None:
    train, graph = Trainer(), gq.load(GRAPH)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        graph.save(tmp_path / name / "mine")
        study(tmp_path, train, seeds=[0], graphs=[str(tmp_path / name / "mine")]).run()
    assert len(train.cells) == 2, "the same files in another folder"
    memory = study(tmp_path, train, seeds=[0], graphs=[graph])
    assert [cell.content for cell in memory.cells] == [graph.content_hash] * 2 and memory.cells[0].case.graph == GRAPH


def test_a_failed_cell_has_a_cause_and_the_others_go_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train = Trainer(**{"fixed-bits_0": gq.errors.WorkerFailed})
    made = study(tmp_path, train).run()
    said = capsys.readouterr().err.splitlines()
    assert said[1] == f"2 of 4: {GRAPH}, gcn, 2 workers, seed 0, fixed-bits: failed: worker 1 died, about 0 min left"
    assert "4 of 4" in said[3] and "3 finished, 1 failed, 0 not trained" in repr(made)
    frame = study(tmp_path, train).frame()  # also in another process
    failed = frame[frame["status"] != FINISHED]
    assert failed[["system", "seed", "status"]].values.tolist() == [["fixed-bits", 0, "failed: worker 1 died"]]
    assert failed["value"].isna().all() and made.summary("train_s")["seeds"].tolist() == [2, 1]
    with pytest.raises(RuntimeError, match=r"1 of 4 cells have no result, first .*seed 0, fixed-bits: failed: worker"):
        made.results()
    train.failures.clear()
    assert len(study(tmp_path, train).run().results()) == 1 and train.cells[4:] == [("fixed-bits", 0)]


def test_interrupted_study_retains_finished_cells_and_continues(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    train = Trainer(vanilla_1=KeyboardInterrupt)
    made = study(tmp_path, train)
    with pytest.raises(KeyboardInterrupt):
        made.run()
    assert capsys.readouterr().err.splitlines()[-1] == f"stopped: 2 of 4 cells are in {tmp_path}"
    assert made.frame()["status"].tolist()[-2:] == [MISSING] * 2
    train.failures.clear()
    study(tmp_path, train).run()
    assert train.cells[3:] == [("vanilla", 1), ("fixed-bits", 1)]


def test_a_torn_line_costs_one_cell(tmp_path: Path) -> None:
    train = Trainer()
    study(tmp_path, train).run()
    path = tmp_path / "cells.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    study(tmp_path, train).run()
    assert train.cells[4:] == [("fixed-bits", 1)]


def test_differences_are_of_the_same_seeds(tmp_path: Path) -> None:
    made = study(tmp_path, Trainer(), systems=["vanilla", "adaqp"], seeds=range(3)).run()
    found = made.summary("score", "speed_up", "train_s").set_index(["system", "metric"])
    score = found.loc[("adaqp", "test_accuracy")]
    # 79.5, 80.5, 81.5: one point apart, t of two degrees of freedom 4.30265; half a point below Vanilla with each seed.
    assert score["mean"] == pytest.approx(80.5) and score["half_interval"] == pytest.approx(4.30265 / 3**0.5)
    assert score["difference"] == pytest.approx(-0.5)
    assert score["difference_half_interval"] == pytest.approx(0.0, abs=1e-9)
    assert found.loc[("adaqp", "speed_up")]["mean"] == 2.0 and found.loc[("adaqp", "speed_up")]["half_interval"] == 0.0
    assert found.loc[("adaqp", "train_s")]["difference"] == pytest.approx(-8.0)
    with pytest.raises(ValueError, match=r"metrics must be among .*'speed_up'.*, got \['sped'\]"):
        made.summary("sped")


def test_the_best_of_each_graph_is_not_a_system_that_misses_the_baselines_score() -> None:
    rows = [
        (graph, system, metric, unit, value)
        for graph in ("g", "h")
        for system, score, seconds, bits in (("vanilla", 90.0, 3.0, 32.0), ("a", 89.8, 2.0, 8.0), ("b", 80.0, 1.0, 1.0))
        for metric, unit, value in (("test_accuracy", "%", score), ("train_s", "s", seconds), ("bits", "bits", bits))
    ]
    frame = pd.DataFrame(rows, columns=["graph", "system", "metric", "unit", "value"])
    frame = frame.assign(model="gcn", services="published", workers=2, link="", seed=0)
    found = summarize(frame, [], {"system": "vanilla", "services": "published"})
    (missing,) = set(map(tuple, found[(found["system"] == "b") & (found["graph"] == "g")][GROUP].values.tolist()))
    assert best_cells(found, {missing}) == {
        (0, "test_accuracy"), (1, "train_s"), (3, "test_accuracy"), (5, "train_s"),
    }  # fmt: skip


def test_tables_are_for_people_and_files_for_programs(tmp_path: Path) -> None:
    made = study(tmp_path / "study", Trainer()).run()
    table = made.table("score", "speed_up")
    assert table.columns.tolist() == ["system", "test_accuracy", "test_accuracy − vanilla", "speed_up"]
    assert table.values.tolist()[1] == [
        "fixed-bits", "80.50 ± 6.35 %", "+0.00 ± 0.00 points", "4.00 ± 0.00 ×",
    ]  # fmt: skip
    assert study(tmp_path / "study", Trainer(), seeds=[0]).table("score")["test_accuracy"][0] == "80.00 %"
    lines = made.to_latex("score", "speed_up").splitlines()
    assert lines[2] == r"system & test accuracy & test accuracy $-$ vanilla & speed up \\"
    assert r"fixed-bits & \textbf{80.50 $\pm$ 6.35 \%}" in lines[5] and r"\textbf{4.00 $\pm$ 0.00 $\times$}" in lines[5]
    assert r"\textbf{80.50 $\pm$ 6.35 \%}" in lines[4] and lines[4].count("textbf") == 1
    kept = pd.read_csv(made.save(tmp_path / "table.csv"))
    assert kept.columns.tolist() == [
        "graph", "model", "system", "services", "workers", "link", "seed", "metric", "value", "unit", "status",
    ]  # fmt: skip
    assert len(json.loads(made.save(tmp_path / "table.json").read_text())) == len(kept)
    with pytest.raises(ValueError, match=r"saved as .csv or .json, got 'table.tex'"):
        made.save(tmp_path / "table.tex")


def test_a_link_for_a_share_is_found_once_and_is_the_same_for_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def resolve(configs: list[Any]) -> list[Any]:
        asked.extend(configs)
        changed = {"link": "123mbit", "comm_share": None, "vanilla_share": 0.74}
        return [calibrate._with_launch_settings(one, **changed) for one in configs]

    monkeypatch.setattr(calibrate, "resolve_comm_share", resolve)
    made = study(tmp_path, Trainer(), systems=["fixed-bits", "adaqp"], comm_share=0.75, hosts=2).run()
    assert [(one.system.name, one.train.seed) for one in asked] == [("vanilla", 0)]
    assert set(made.frame()["link"]) == {"123mbit"}
    assert {cell.config.launch.vanilla_share for cell in made.cells} == {0.74}
    study(tmp_path, Trainer(), systems=["vanilla"], comm_share=0.75, hosts=2).run()
    assert len(asked) == 1


def test_system_is_compared_with_itself_with_all_services(tmp_path: Path) -> None:
    system = gq.systems.fixed_bits(bits=2)
    two = [Contestant(name="fixed-bits", system=system, services=services) for services in ("published", "every")]
    made = study(tmp_path, Trainer(), systems=two, baseline="fixed-bits+").run()
    assert [cell.config.train.gradients for cell in made.cells[:2]] == ["float32", "bfloat16"]
    assert made.table("bits")["services"].tolist() == ["published", "every"]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"systems": []}, "at least one system"),
        ({"systems": "vanilla"}, r"write \['vanilla'\]"),
        ({"systems": ["vanilla", gq.systems.vanilla()]}, r"different names, got \['vanilla'\]"),
        ({"systems": ["valina"]}, "valina"),
        ({"seeds": []}, "seeds of a study must be a list with at least one entry"),
        ({"graphs": "cora"}, "graphs of a study must be a list"),
        ({"baseline": "adaqp"}, r"baseline must be one of the systems \['vanilla', 'fixed-bits'\], got 'adaqp'"),
        ({"hiden": 8}, "hidden"),
    ],
)
def test_mistakes_are_refused_before_anything_is_trained(tmp_path: Path, change: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        study(tmp_path, Trainer(), **change)
    assert not list(tmp_path.iterdir())


def test_cells_are_runs_that_are_read_back(tmp_path: Path) -> None:
    made = gq.Study(systems=["fixed-bits"], graphs=[GRAPH], seeds=[3], epochs=3, hidden=8, folder=tmp_path).run()
    (run,) = made.runs()
    assert run.status == FINISHED and run.config == made.cells[0].config and gq.runs(tmp_path)[0].id == run.id
    values = made.frame().set_index("metric")["value"]
    assert values["test_accuracy"] == pytest.approx(100 * run.summary["test_accuracy"])
    assert values["train_s"] == run.summary["train_s"] and values["speed_up"] == 1.0
    curve = [score for _, _, score in made.results()[made.cells[0].case]["fixed-bits"][0].curve]
    records = run.records.drop_duplicates("epoch")
    assert curve == records["val_score"].dropna().tolist() != records["train_score"].dropna().tolist()
    assert math.isfinite(values.drop("to_target_s").sum())
    assert len(gq.Study(systems=["fixed-bits"], graphs=[GRAPH], seeds=[3], epochs=3, hidden=8, folder=tmp_path)
               .run().runs()) == len(gq.runs(tmp_path)) == 1  # fmt: skip
