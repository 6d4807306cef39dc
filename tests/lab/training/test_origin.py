"""Where the numbers of a report come from."""

import json
import os
from pathlib import Path

import pytest

from gnnqlab.lab.training.report import write_report
from gnnqlab.lab.training.snapshot import origin, origin_html, take
from gnnqlab.run.folder import append_event
from gnnqlab.run.run import Run
from tests.lab.synthetic import make_run
from tests.lab.synthetic_folder import Folder

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


def test_it_is_what_the_run_wrote_down(folder: Folder) -> None:
    assert origin(take(Run(folder.path))) == {
        "trained": "1970-01-02 01:01 UTC",
        "machine": "A Processor, 2 cores a worker",
        "instruction set": "avx2, native kernels",
        "versions": "gnnqlab 0.1.0, PyTorch 2.9.0, Python 3.12.1",
        "seed": "0",
        "commit": "0123456789ab",
    }


def test_nothing_is_guessed_from_this_machine() -> None:
    known = origin(take(make_run(epochs=2, seed=0)))
    assert known.pop("seed") == "0" and set(known.values()) == {"not recorded"}


def test_a_report_begins_with_it(folder: Folder, tmp_path: Path) -> None:
    text = write_report([Run(folder.path)], tmp_path / "report.html").read_text("utf-8")
    header = text.partition("<header>")[2].partition("</header>")[0]
    expected = ("1970-01-02", "A Processor, 2 cores a worker", "avx2", "0123456789ab", "seed")
    assert all(words in header for words in expected)


def test_runs_are_told_apart_where_they_differ() -> None:
    runs = [take(make_run(epochs=2, seed=seed)) for seed in (0, 3)]
    page = origin_html(runs, ["first", "<second>"])
    assert "<dt>seed</dt><dd>first: 0</dd><dd>&lt;second&gt;: 3</dd>" in page
    assert page.count("not recorded") == 5, "said once where all agree"
