"""Stored tables: they are read as they were written, as JSON and as text."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gnnqlab as gq
from benchmarks.engine.rows import row
from benchmarks.page import END, START, all_tables, files, page, put_between, summary
from gnnqlab.cli import main
from gnnqlab.cli.bench import _graph_names
from gnnqlab.results import bench_results, join, keep, load, markdown
from gnnqlab.train.records.provenance import machine

ROWS = [{"system": "vanilla", "epoch_s": 1.25, "workers": 2}, {"system": "adaqp", "error": "a | b"}]


def test_a_table_comes_back_with_date_device_and_command(tmp_path):
    path = keep("gpu-train", ROWS, command="make gpu", folder=tmp_path)
    table = load(tmp_path)["gpu-train"]
    assert path.name == "gpu-train.json" and table["rows"] == ROWS and table["command"] == "make gpu"
    assert table["date"].endswith("+00:00") and table["device"]
    text = path.with_suffix(".md").read_text()
    assert "`make gpu`" in text and "| vanilla | 1.25 | 2 |  |" in text and "a \\| b" in text


def test_rows_of_all_tables_in_one_frame(tmp_path):
    keep("gpu-train", ROWS, command="make gpu", folder=tmp_path)
    keep("gpu-kernels", [{"case": "copy", "value": 3.0}], command="other", folder=tmp_path)
    frame = bench_results(tmp_path)
    assert frame["part"].tolist() == ["gpu-kernels", "gpu-train", "gpu-train"]
    assert frame["value"].tolist()[0] == 3.0 and frame["epoch_s"].tolist()[1] == 1.25
    assert list(frame.columns[:4]) == ["part", "date", "device", "command"]


def test_empty_results_folder_gives_an_empty_frame(tmp_path):
    frame = gq.results.bench_results(tmp_path)
    assert frame.empty and list(frame.columns) == ["part", "date", "device", "command"]
    assert "No rows" in markdown({"part": "p", "date": "d", "device": "x", "command": "c", "rows": []})


def line(case, value, rival="vanilla", **more):
    return row(case, "epoch", value, "", rival, None, None, **more)


def test_rows_join_a_table_and_take_the_place_of_those_they_repeat(tmp_path):
    join("epoch", [line("a", 1.0, detail=" (0.9 to 1.1 s)"), line("b", 2.0)], command="first", folder=tmp_path)
    path = join("epoch", [line("a", 3.0, detail=" (2.9 to 3.1 s)"), line("c", 4.0)], command="second", folder=tmp_path)
    table = load(tmp_path)["epoch"]
    assert [(row["case"], row["value"], row["command"]) for row in table["rows"]] == [
        ("a", 3.0, "second"), ("b", 2.0, "first"), ("c", 4.0, "second"),
    ]  # fmt: skip
    assert table["command"] == "second; first" and "epoch (2.9 to 3.1 s)" in path.with_suffix(".md").read_text()
    assert bench_results(tmp_path)["command"].tolist() == ["second", "first", "second"]
    # Seeds, bit-widths and other rivals make measurements different; the spread of a figure does not.
    others = [line("a", 5.0, contestant="8-bit"), line("a", 6.0, rival="dgl.nn")]
    join("epoch", others, command="third", folder=tmp_path)
    assert len(load(tmp_path)["epoch"]["rows"]) == 5


def test_tables_of_two_machines_are_not_joined(tmp_path):
    path = join("epoch", [line("a", 1.0)], command="first", folder=tmp_path)
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "machine": {**table["machine"], "cores": 999}}))
    with pytest.raises(ValueError, match="must come from one machine, got .* keep them under another name"):
        join("epoch", [line("b", 1.0)], command="second", folder=tmp_path)
    with pytest.raises(ValueError, match="rows of a table must differ in one of .* got 1 twice"):
        join("other", [], command="", folder=tmp_path)
        join("other", [line("b", 1.0), line("b", 2.0)], command="", folder=tmp_path)


def test_the_command_keeps_and_joins(tmp_path, monkeypatch, capsys):
    asked = []

    def measure(name, *, repeats=None, **options):
        asked.append(options)
        return {"bench": name, "machine": machine(), "rows": [line(f"seed {options['first_seed']}", 1.0)]}

    monkeypatch.setattr("benchmarks.registry.measure", measure)
    for seed in ("0", "5"):
        words = ["bench", "accuracy", "--seeds", "5", "--first-seed", seed, "--keep", "accuracy"]
        main([*words, "--results", str(tmp_path)])
    assert asked == [{"seeds": 5, "first_seed": 0}, {"seeds": 5, "first_seed": 5}]
    rows = load(tmp_path)["accuracy"]["rows"]
    assert [row["case"] for row in rows] == ["seed 0", "seed 5"]
    assert rows[1]["command"] == "gnnqlab bench accuracy --seeds 5 --first-seed 5"
    assert f"stored: {tmp_path / 'accuracy.json'}" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["bench", "accuracy", "--results", str(tmp_path)])
    assert "--results needs the name of a table" in capsys.readouterr().err


def test_a_table_of_another_machine_is_refused_before_anything_is_measured(tmp_path, monkeypatch, capsys):
    path = keep("epoch", [line("a", 1.0)], command="first", folder=tmp_path)
    table = json.loads(path.read_text())
    path.write_text(json.dumps({**table, "machine": {**table["machine"], "cores": 999}}))
    monkeypatch.setattr("benchmarks.registry.measure", lambda *_, **__: pytest.fail("measured for nothing"))
    with pytest.raises(SystemExit):
        main(["bench", "epoch", "--keep", "epoch", "--results", str(tmp_path)])
    assert "keep them under another name" in capsys.readouterr().err


def test_rows_that_cannot_be_merged_are_stored_in_a_separate_table(tmp_path, monkeypatch, capsys):
    twice = {"bench": "epoch", "machine": machine(), "rows": [line("same", 1.0), line("same", 1.0)]}
    monkeypatch.setattr("benchmarks.registry.measure", lambda *_, **__: twice)
    keep("epoch", [line("a", 1.0)], command="first", folder=tmp_path)
    main(["bench", "epoch", "--keep", "epoch", "--results", str(tmp_path)])
    said = capsys.readouterr()
    (beside,) = (name for name in load(tmp_path) if name != "epoch")
    assert len(load(tmp_path)[beside]["rows"]) == 2 and len(load(tmp_path)["epoch"]["rows"]) == 1
    assert f"got 1 twice; the rows are stored as {beside}" in said.err and "same" in said.out


def test_results_page_is_generated_from_the_stored_tables(tmp_path, capsys):
    """``gnnqlab bench results --page docs/results.md`` writes the page, its charts and the index."""
    docs = Path(__file__).parents[2] / "docs"
    main(["bench", "results", "--page", str(tmp_path / "results.md")])
    places = [
        Path("results.md"),
        Path("results_index.md"),
        *(path.relative_to(docs) for path in docs.glob("results/*")),
    ]
    assert {path.relative_to(tmp_path) for path in tmp_path.rglob("*.*")} == set(places)
    for place in places:
        assert (tmp_path / place).read_text(encoding="utf-8") == (docs / place).read_text(encoding="utf-8"), place
    main(["bench", "results"])
    assert "## accuracy" in capsys.readouterr().out


def test_links_of_the_page_lead_to_files():
    docs = Path(__file__).parents[2] / "docs"
    for path in (docs / "results.md", docs / "results_index.md"):
        links = re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8"))
        assert links and [link for link in links if not (docs / link).exists()] == []


def test_all_tables_name_missed_goals_and_the_machine(tmp_path):
    missed = row("a", "epoch | wire", 1.0, "s", "vanilla", 1.5, 1.5, 2.0)
    keep("epoch", [missed], command="gnnqlab bench epoch", folder=tmp_path)
    text = all_tables(load(tmp_path))
    assert "epoch \\| wire" in text and "| 1.5 | 2 | NO |" in text
    assert f"instruction set {machine()['instruction_set']}" in text and "`gnnqlab bench epoch`" in text
    with pytest.raises(SystemExit):
        main(["bench", "codec", "--page", "x.md"])


def test_a_page_without_tables_names_the_commands(tmp_path):
    found = files({}, tmp_path / "results.md")
    assert set(found) == {tmp_path / "results.md", tmp_path / "results_index.md"}  # nothing to draw
    assert "| not stored |  |  |  | `gnnqlab bench faults --keep faults` |" in page({})
    assert "`gnnqlab bench faults`" in found[tmp_path / "results_index.md"]


def system_row(case, name, seconds, *, there=None, points=0.0, sent=100.0, reached=2):
    beside = {"value": seconds, "to_target_s": there or seconds / 2, "reached_by": reached, "seeds": 2}
    scored = {"points": points, "half_interval": 0.5, "bytes_per_epoch": sent}
    return {"case": case, "contestant": name, "graph": "cora", "model": "gcn", **beside, **scored}


def test_table_of_systems_compares_names_with_a_plus():
    case = "cora, gcn, 2 workers over 400mbit, 150 epochs, 5 seed(s)"
    rows = [system_row(case, "vanilla", 12.0), system_row(case, "vanilla+", 8.0)]
    rows += [system_row(case, "x", 6.0, points=-0.25, sent=25.0), system_row(case, "x+", 5.0, there=2.0, sent=20.0)]
    lines = summary(rows).splitlines()
    assert lines[0] == "| system | cora, gcn | bytes |"
    assert lines[2:] == [
        "| `vanilla` | 1.00 ×, 1.00 ×, +0.0 ± 0.5 | 1.00 |",
        "| `x` | 2.00 ×, 2.00 ×, -0.2 ± 0.5 | 0.25 |",
        "| `vanilla+` | 1.00 ×, 1.00 ×, +0.0 ± 0.5 | 1.00 |",
        "| `x+` | 1.60 ×, 2.00 ×, +0.0 ± 0.5 | 0.20 |",
    ]
    late = [*rows[:2], system_row(case, "x", 6.0, reached=1), system_row(case, "y", 6.0, there=float("nan"), reached=0)]
    assert [line.split(", ")[1] for line in summary(late).splitlines()[3:5]] == ["1 of 2", "never"]
    with pytest.raises(ValueError, match=r"x\+ is compared with vanilla\+, which '.*' lacks"):
        summary([rows[0], rows[3]])


def test_table_of_systems_replaces_the_text_between_its_marks(tmp_path):
    path = tmp_path / "some.md"
    path.write_text(f"before {START}\nold\n{END} behind")
    main(["bench", "results", "--readme", str(path)])
    text = path.read_text()
    assert text.startswith(f"before {START}\n| system | cora, gcn |") and text.endswith(f"|\n{END} behind")
    assert "old" not in text and "| `adaqp+` | " in text
    with pytest.raises(ValueError, match="the page must have the lines"):
        put_between(f"{END} {START}", "table")


def test_stored_command_has_graph_names_without_folders(tmp_path, monkeypatch):
    (tmp_path / "cora.npz").touch()
    monkeypatch.setenv("GNNQLAB_DATA", str(tmp_path))
    own = str(tmp_path / "own.npz")
    assert _graph_names(f"{tmp_path}/cora.npz,{own},sbm:60,3.5,6") == f"cora,{own},sbm:60,3.5,6"
