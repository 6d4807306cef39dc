"""A snapshot of a run, its names, and the sources of the numbers in a report."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from gnnqlab.lab.training import snapshot
from gnnqlab.lab.training.report import write_report
from gnnqlab.lab.training.snapshot import origin, origin_html, take
from gnnqlab.run.folder import append_event
from gnnqlab.run.run import Run
from gnnqlab.train.loop.scores import score_label
from tests.lab.synthetic import make_run
from tests.lab.synthetic_folder import Folder


def test_labels_of_same_system_runs_contain_the_differing_setting() -> None:
    runs = [make_run("fixed-bits", bits=2), make_run("fixed-bits", bits=4), make_run("adaqp")]
    assert snapshot.labels(runs) == ["fixed-bits (bits 2)", "fixed-bits (bits 4)", "adaqp"]
    assert snapshot.labels([make_run(seed=1), make_run(seed=2)]) == ["vanilla (seed 1)", "vanilla (seed 2)"]


def test_equal_runs_are_counted() -> None:
    assert snapshot.labels([make_run(), make_run()]) == ["vanilla #1", "vanilla #2"]


def test_several_labels_a_node_mean_micro_f1() -> None:
    assert score_label({"test_f1_micro": 0.5}) == "micro-F1"
    assert score_label({"test_accuracy": 0.5}) == "accuracy"


def test_a_handle_is_read_once() -> None:
    from gnnqlab.train.config.configure import configure

    class Handle:
        reads = 0
        config = configure("digits", system="fixed-bits", bits=4)
        summary = make_run().summary
        traffic = make_run(epochs=2).traffic

        @property
        def records(self):
            self.reads += 1
            return make_run(epochs=2).records

    handle = Handle()
    taken = snapshot.take(handle)
    assert snapshot.take(taken) is taken and handle.reads == 1
    assert taken.config["system"]["bits"]["bits"] == 4


def test_a_graph_from_a_file_goes_by_its_name() -> None:
    assert snapshot.graph_name({"graph": "/home/ada/graphs/roads.npz"}) == "roads.npz"
    assert snapshot.graph_name({"graph": "sbm:1000,4,8"}) == "sbm:1000,4,8"


FACTS = {
    "machine": {
        "processor": "A Processor", "cores": 2, "instruction_set": "avx2", "python": "3.12.1", "torch": "2.9.0",
    },
    "package": {"version": "0.1.0", "kernels": "native", "commit": "0123456789ab"},
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    made = Folder(tmp_path)
    made.write(range(3))
    (made.path / "facts.json").write_text(json.dumps(FACTS))
    event = {"event": "launched", "time": 86400.0 + 3660.0}
    (made.path / "events.jsonl").write_text(json.dumps(event) + os.linesep)
    append_event(made.path, "running")
    return made


def test_origin_contains_the_metadata_recorded_by_the_run(folder: Folder) -> None:
    assert origin(take(Run(folder.path))) == {
        "trained": "1970-01-02 01:01 UTC",
        "machine": "A Processor, 2 cores a worker",
        "instruction set": "avx2, native kernels",
        "versions": "gnnqlab 0.1.0, PyTorch 2.9.0, Python 3.12.1",
        "seed": "0",
        "commit": "0123456789ab",
    }


def test_missing_metadata_is_not_replaced_by_values_of_this_machine() -> None:
    known = origin(take(make_run(epochs=2, seed=0)))
    assert known.pop("seed") == "0" and set(known.values()) == {"not recorded"}


def test_a_report_begins_with_it(folder: Folder, tmp_path: Path) -> None:
    text = write_report([Run(folder.path)], tmp_path / "report.html").read_text("utf-8")
    header = text.partition("<header>")[2].partition("</header>")[0]
    expected = ("1970-01-02", "A Processor, 2 cores a worker", "avx2", "0123456789ab", "seed")
    assert all(words in header for words in expected)


def test_origin_html_labels_values_that_differ_between_runs() -> None:
    runs = [take(make_run(epochs=2, seed=seed)) for seed in (0, 3)]
    page = origin_html(runs, ["first", "<second>"])
    assert "<dt>seed</dt><dd>first: 0</dd><dd>&lt;second&gt;: 3</dd>" in page
    assert page.count("not recorded") == 5, "shown once if it is the same for all"
