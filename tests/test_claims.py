"""Claims of the papers: their data, the rules of verdicts on recorded rows, scaled experiments, and the command."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from benchmarks.registry import BENCHES
from gnnqlab import cli, results
from gnnqlab.course.paper_figures import REPORTED, paper_claims
from gnnqlab.study import Cell, Claim, RunResult, claims_frame, find_claim, load_claims, reproduce
from gnnqlab.study.claims import PAPERS, RULES, VERDICTS, BenchExperiment, StudyExperiment
from gnnqlab.study.quantities import QUANTITIES
from gnnqlab.study.reproduction import budget_seconds, measured_in, stored_reproductions
from gnnqlab.systems import make_system
from gnnqlab.train.config.configure import configure
from tests.cases import each
from tests.pages import ROOT

CLAIMS = load_claims()
STUDIES = [claim for claim in CLAIMS if isinstance(claim.experiment, StudyExperiment)]
BENCHED = [claim for claim in CLAIMS if isinstance(claim.experiment, BenchExperiment)]
SHOWN = {
    path.stem[:2]: path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if "paper_claims(" in path.read_text()
}
"""Number -> notebook with a table of claims."""


# -- The data. ---------------------------------------------------------------------------------------------------------


def test_all_claims_have_unique_ids_of_paper_place_and_topic() -> None:
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS) == 103
    assert all(
        re.fullmatch(r"(adaqp|sylvie|cdfgnn|tango|mixgcn|grappa):[a-z0-9.]+(-[a-z0-9]+)+", claim.id) for claim in CLAIMS
    )
    assert {claim.paper for claim in CLAIMS} == set(PAPERS)


@each("claim", CLAIMS)
def test_every_claim_has_an_experiment_or_a_reason(claim: Claim) -> None:
    assert claim.experiment or claim.notebook or claim.missing, "say how to measure it, or why it is not"
    assert claim.experiment is None or not claim.notebook, "one experiment"
    assert (claim.here == "") == (claim.verdict == "not measured"), "a number that is not measured is not invented"
    assert claim.missing or claim.verdict == "holds", "say what another verdict would need"
    assert not isinstance(claim.experiment, StudyExperiment) or claim.rule
    assert set(claim.shown_in) | {claim.notebook} <= {"", *SHOWN}
    if claim.experiment is None:
        with pytest.raises(ValueError, match=r"must have an experiment with a rule, got none; (open notebook|missing)"):
            reproduce(claim)


@each("claim", STUDIES)
def test_the_study_of_a_claim_can_be_configured(claim: Claim) -> None:
    study = claim.experiment
    assert isinstance(study, StudyExperiment)
    sides = ((study.system, study.settings, study.workers),
             (study.baseline, study.baseline_settings, study.baseline_workers or study.workers))  # fmt: skip
    options = {name: value for name, value in study.grid.items() if name not in ("graphs", "models")}
    for name, settings, workers in sides:
        system = make_system(name, **settings)
        configure(study.grid["graphs"][0], system=system, model=study.grid["models"][0], workers=workers, **options)


@each("claim", BENCHED)
def test_the_command_of_a_claim_exists(claim: Claim) -> None:
    bench = claim.experiment
    assert isinstance(bench, BenchExperiment) and bench.words[0] in BENCHES
    assert bool(bench.show) == bool(claim.rule), "a rule needs a number, and a number a rule"


@each("number", SHOWN)
def test_the_table_of_a_notebook_is_that_of_the_data(number: str) -> None:
    cells = json.loads(SHOWN[number].read_text(encoding="utf-8"))["cells"]
    (cell,) = [cell for cell in cells if "paper_claims(" in "".join(cell["source"])]
    assert "".join(cell["source"]) == f'course.paper_claims("{number}")'
    page = paper_claims(number)
    stored = {kind: "".join(text) for kind, text in cell["outputs"][0]["data"].items()}
    way = f"the claims have changed: run the last cells of {SHOWN[number].name} again"
    assert stored == {"text/html": page.html, "text/plain": page.text}, way


def test_a_notebook_without_claims_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a notebook with claims must be one of \('01', .*\), got '99'"):
        paper_claims("99")


def test_papers_numbers_are_those_of_the_figures_of_the_course() -> None:
    """The range of a topic's reported figures contains the numbers of the claim, and touches both ends."""
    for topic, name, wanted in (
        ("communication share", "adaqp:table1-communication-share", None),
        ("hidden computation", "adaqp:figure3-hidden-computation", None),
        ("speed-up", "adaqp:table4-throughput", "all sixteen settings"),
        ("speed-up by system", "adaqp:table4-pipegcn-throughput", "PipeGCN, GraphSAGE, four graphs"),
        ("accuracy change", "adaqp:table4-accuracy", None),
        ("communication reduction", "adaqp:figure10-communication", None),
        ("computation reduction", "adaqp:figure10-computation", None),
        ("quantization share", "adaqp:figure10-quantization", None),
        ("assignment share", "adaqp:figure10-assignment", None),
        ("speed-up by model", "sylvie:table7-bns-gcn-throughput", "BNS-GCN, GraphSAGE, GCN and GAT"),
        ("speed-up by model", "sylvie:table7-sar-throughput", "SAR, GraphSAGE, GCN and GAT"),
        ("speed-up by model", "sylvie:table7-pipegcn-throughput", "PipeGCN, six models"),
        ("communication on one server", "sylvie:figure2-communication-share", None),
        ("accuracy of sampled neighbours", "sylvie:table1-sampling-accuracy", None),
    ):
        rows = [row for row in REPORTED[topic] if wanted in (None, row.setting)]
        low, high = min(row.low for row in rows), max(row.high for row in rows)
        reported = find_claim(name).reported
        assert (min(reported), max(reported)) == pytest.approx((low, high)), name


def test_claims_are_selected_and_unknown_words_are_refused() -> None:
    counts = [len(load_claims(verdict=verdict)) for verdict in VERDICTS]
    assert sum(counts) == 103 and all(counts)
    frame = claims_frame("tango:figure8-dgl", "adaqp:theorem1-variance")
    assert frame.index.tolist() == ["tango:figure8-dgl", "adaqp:theorem1-variance"]
    assert len(claims_frame(paper="cdfgnn")) == len(load_claims("cdfgnn"))
    with pytest.raises(ValueError, match=r"paper must be one of \(.*'adaqp'.*\), got 'adapq'; did you mean adaqp"):
        load_claims("adapq")
    with pytest.raises(ValueError, match="verdict must be one of .* got 'hold'; did you mean holds"):
        load_claims(verdict="hold")
    with pytest.raises(ValueError, match="got 'adaqp:table4-thrughput'; did you mean adaqp:table4-throughput"):
        find_claim("adaqp:table4-thrughput")


# -- Verdicts. ---------------------------------------------------------------------------------------------------------

FASTER = Claim(
    id="adaqp:a-b", place="", claim="", reported=(2.0, 3.0), unit="× as fast", verdict="holds", rule="at least"
)


@pytest.mark.parametrize(
    ("changes", "mean", "half", "verdict"),
    [
        ({}, 2.0, 0.5, "holds"),
        ({}, 1.9, 0.5, "in part"),  # faster, by less than reported
        ({}, 2.5, 1.6, "does not hold"),  # the interval has no effect in it
        ({}, 1.4, 0.4, "does not hold"),
        ({}, 2.5, math.nan, "in part"),  # one value has no interval
        ({}, 1.5, math.nan, "does not hold"),
        ({}, 2.5, 0.0, "holds"),
        ({"tolerance": 0.2}, 1.9, 0.5, "holds"),
        ({"rule": "at most", "reported": (0.3, 0.7)}, 0.6, 0.2, "holds"),
        ({"rule": "at most", "reported": (0.3, 0.7)}, 0.8, 0.1, "in part"),
        ({"rule": "at most", "reported": (0.3, 0.7)}, 0.8, 0.3, "does not hold"),
        # 5.4 % of the time at most: no effect lies on the same side, so the reported number decides.
        ({"rule": "at most", "reported": (5.4,), "unit": "%"}, 4.0, 1.0, "holds"),
        ({"rule": "at most", "reported": (5.4,), "unit": "%"}, 6.0, 1.0, "in part"),
        ({"rule": "at most", "reported": (5.4,), "unit": "%"}, 8.0, 1.0, "does not hold"),
        ({"rule": "at most", "reported": (-3.9,), "unit": "points"}, -4.0, 1.0, "holds"),
        ({"rule": "at most", "reported": (-3.9,), "unit": "points"}, -2.0, 1.0, "in part"),
        ({"rule": "at most", "reported": (-3.9,), "unit": "points"}, -0.5, 1.0, "does not hold"),
        ({"rule": "above", "reported": ()}, 1.2, 0.1, "holds"),
        ({"rule": "above", "reported": ()}, 1.2, 0.3, "does not hold"),
        ({"rule": "below", "reported": (), "unit": "points"}, -1.0, 0.5, "holds"),
        ({"rule": "within", "reported": (-0.3, 0.2), "unit": "points"}, 0.0, 0.2, "holds"),
        ({"rule": "within", "reported": (-0.3, 0.2), "unit": "points"}, 0.0, 0.7, "in part"),
        ({"rule": "within", "reported": (-0.3, 0.2), "unit": "points"}, 1.0, 0.7, "does not hold"),
        ({"rule": "near", "reported": (), "tolerance": 0.1}, 1.05, 0.02, "holds"),
        ({"rule": "near", "reported": (), "tolerance": 0.1}, math.inf, math.nan, "does not hold"),
    ],
)
def test_a_rule_judges_mean_and_interval(changes: dict[str, Any], mean: float, half: float, verdict: str) -> None:
    assert replace(FASTER, **changes).judge(mean, half) == verdict


def test_every_rule_is_tried_and_none_is_refused() -> None:
    used = {claim.rule for claim in CLAIMS} - {""}
    assert used <= set(RULES)
    with pytest.raises(ValueError, match="adaqp:a-b must have a rule to be judged, got none; missing: a GPU"):
        replace(FASTER, rule="", missing="a GPU").judge(1.0, 0.0)


RECORDED = {
    "adaqp:table4-sancus-throughput": "in part",  # one graph, no interval
    "adaqp:table4-sancus-accuracy": "does not hold",
    "sylvie:table4-one-bit-accuracy": "does not hold",
    "sylvie:table7-sar-throughput": "in part",
    "sylvie:table7-accuracy": "in part",
    "cdfgnn:abstract-skipped-rows": "in part",
    "cdfgnn:figure5-cagnet": "in part",
    "cdfgnn:table3-outer-connections": "in part",
    "cdfgnn:table3-inner-connections": "holds",
    "cdfgnn:table3-replication": "does not hold",
    "cdfgnn:table3-hep-dne": "does not hold",
    "cdfgnn:figure6-computation": "does not hold",
    "cdfgnn:figure8-no-loss": "does not hold",
    "cdfgnn:figure8-mini-batch": "does not hold",
    "tango:section3.2-noise": "in part",
    "tango:figure7-accuracy": "in part",
    "tango:figure7-test1": "does not hold",
    "tango:figure7-test2": "in part",
    "tango:figure8-dgl": "in part",
    "tango:figure8-exact": "does not hold",
    "tango:figure9-more-devices": "in part",
    "tango:figure10-codes-reused": "does not hold",
    "tango:figure11a-products": "in part",
    "tango:figure13a-incidence": "does not hold",
    "tango:figure13b-multi-head": "in part",
    "tango:figure15-edges": "does not hold",
}
"""Verdicts by rule about the rows of the stored tables."""


def test_rules_judge_the_recorded_rows() -> None:
    tables, found = results.load(), {}
    for claim in BENCHED:
        bench = claim.experiment
        assert isinstance(bench, BenchExperiment)
        if claim.rule and bench.stored_table in tables:
            _, value, half = measured_in(tables[bench.stored_table]["rows"], bench)
            found[claim.id] = claim.judge(value, half)
    assert found == RECORDED


# -- Experiments. ------------------------------------------------------------------------------------------------------


class Trainer:
    """Replaces the launcher: the systems take 4 and 1 s per epoch, the score differs by a point."""

    def __init__(self) -> None:
        self.cells: list[tuple[str, int, int]] = []

    def __call__(self, cell: Cell, folder: Path) -> RunResult:
        self.cells.append((cell.contestant.name, cell.case.workers, cell.seed))
        epoch_s = (4.0 if cell.contestant.name == "vanilla" else 1.0) + 0.1 * cell.seed
        return RunResult(score=0.9 if cell.contestant.name == "vanilla" else 0.91, train_s=2 * epoch_s, epochs=2,
                         epochs_s=(epoch_s,) * 2, computation_s=1.0, communication_s=float(cell.case.workers),
                         curve=((2, 2 * epoch_s, 0.9),), bytes_sent=1.0)  # fmt: skip


def scaled(name: str, **changes: Any) -> Claim:
    """Return a claim whose study is on a small graph."""
    claim = find_claim(name)
    study = claim.experiment
    assert isinstance(study, StudyExperiment)
    grid = {"graphs": ["sbm:300,4,8"], "models": ["gcn"], "epochs": 2}
    return replace(claim, experiment=replace(study, grid=grid, workers=2, minutes=0.01, **changes))


def test_a_study_trains_its_seeds_and_keeps_the_row(tmp_path: Path) -> None:
    train, claim = Trainer(), scaled("adaqp:table4-throughput", seeds=3)
    found = reproduce(claim, budget="1h", folder=tmp_path, train=train)
    assert train.cells == [(name, 2, seed) for seed in range(3) for name in ("adaqp", "vanilla")]
    assert found.values == pytest.approx([(4 + 0.1 * seed) / (1 + 0.1 * seed) for seed in range(3)])
    assert found.verdict == "holds" and not found.left_out and 0 < found.half < 1
    row = stored_reproductions(tmp_path / "tables")[claim.id]
    assert row["value"] == found.value and row["verdict"] == "holds" and row["command"] == found.command
    assert f"± {found.half:.3g} × as fast" in str(found) and "2.19, 3.01" in str(found)
    again = reproduce(claim, budget="1h", folder=tmp_path, train=train)
    assert len(train.cells) == 6 and again == found, "stored trainings are not repeated"


def test_a_budget_leaves_seeds_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("gnnqlab.study.reproduction.time.monotonic", lambda: now[0])

    def train(cell: Cell, folder: Path) -> RunResult:
        now[0] += 20.0
        return Trainer()(cell, folder)

    claim = scaled("adaqp:table4-throughput", seeds=5)
    found = reproduce(claim, budget="100s", folder=tmp_path / "a", train=train)
    assert len(found.values) == 2 and found.left_out == "3 of 5 seeds; raise --budget to train them"
    found = reproduce(claim, budget="30s", folder=tmp_path / "b", train=train)
    assert len(found.values) == 1 and math.isnan(found.half) and found.verdict == "in part"
    with pytest.raises(ValueError, match=r"budget of adaqp:table4-throughput must be at least 0.01min, .* got 0.3 s"):
        reproduce(claim, budget=0.3, folder=tmp_path, train=train)


def test_one_system_with_two_numbers_of_workers(tmp_path: Path) -> None:
    train, claim = Trainer(), scaled("adaqp:table1-share-grows", seeds=1, baseline_workers=3)
    found = reproduce(claim, budget="1h", folder=tmp_path, train=train)
    assert sorted(train.cells) == [("vanilla", 2, 0), ("vanilla", 3, 0)]
    assert found.value == pytest.approx(100 * (2 / 3 - 3 / 4))


def test_claims_of_abstracts_run_in_their_smallest_form(tmp_path: Path) -> None:
    """Launched runs of 2 and 3 workers on 300 nodes: bytes follow ``2 (P - 1) / P``."""
    volume = scaled("mixgcn:abstract-constant-volume", seeds=1, baseline_workers=3)
    found = reproduce(volume, budget="1h", folder=tmp_path)
    assert found.value == pytest.approx((2 * 2 / 3) / (2 * 1 / 2)) and found.verdict == "does not hold"
    speed = reproduce(scaled("grappa:abstract-speed-up", seeds=1), budget="1h", folder=tmp_path)
    score = reproduce(scaled("grappa:abstract-accuracy", seeds=1), budget="1h", folder=tmp_path)
    assert speed.value > 0 and math.isfinite(score.value) and "only its abstract" in find_claim(score.claim).missing


@pytest.mark.parametrize("text", ["soon", "0min", "-3s", "", "10 hours"])
def test_a_budget_is_a_number_with_a_unit(text: str) -> None:
    with pytest.raises(ValueError, match=f"budget must be a positive number with s, min or h, got {text!r}"):
        budget_seconds(text)


def test_quantities_by_hand() -> None:
    common: dict[str, Any] = {"score": 0.9, "bytes_sent": 8.0, "train_s": 10.0, "computation_s": 1.0}
    slow = RunResult(**common, communication_s=3.0, epochs_s=(9.0, 4.0), curve=((1, 5.0, 0.5), (2, 10.0, 0.9)))
    fast = replace(slow, score=0.88, bytes_sent=2.0, train_s=5.0, communication_s=1.0, epochs_s=(9.0, 1.0),
                   assign_s=0.5, curve=((1, 2.0, 0.9),))  # fmt: skip
    assert {name: round(quantity(fast, slow), 6) for name, quantity in QUANTITIES.items()} == {
        "throughput": 4.0, "training": 2.0, "epoch saved": 75.0, "communication saved": round(200 / 3, 6),
        "communication share": 50.0, "communication share, difference": -25.0, "assignment": 10.0, "fewer bytes": 4.0,
        "score": -2.0, "epochs to accuracy": 0.5,
    }  # fmt: skip


ROWS = [
    {"case": "cora, gcn", "contestant": "sancus", "metric": "test score", "rival": "x", "value": 90.0,
     "rival_value": 100.0, "ratio": 0.9, "points": -1.0, "half_interval": 0.4},
    {"case": "pcg, gcn", "contestant": "sancus", "metric": "test score", "rival": "x", "value": 60.0,
     "rival_value": 50.0, "ratio": 1.2, "points": 3.0, "half_interval": 0.5},
]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "number", "half"),
    [
        ({"case": "cora, .*", "show": "points"}, -1.0, 0.4),
        ({"case": "cora, .*", "show": "ratio"}, 0.9, math.nan),
        ({"case": "cora, .*", "show": "value", "exact": True}, 90.0, 0.0),
        ({"case": "cora, .*", "show": "difference"}, -10.0, 0.4),
        ({"case": "cora, .*", "show": "share"}, 90.0, 0.4),
        ({"case": "pcg, .*", "show": "change"}, 20.0, 1.0),  # half a point is 1 % of 50
        ({"show": "ratio", "take": "least"}, 0.9, math.nan),
        ({"show": "ratio"}, 1.05, 1.906),  # t of one degree of freedom is 12.71, the standard error 0.15
    ],
)
def test_a_number_of_a_benchmarks_rows(settings: dict[str, Any], number: float, half: float) -> None:
    _, value, spread = measured_in(ROWS, BenchExperiment(command="made-up", minutes=1, **settings))
    assert (value, spread) == (pytest.approx(number), pytest.approx(half, abs=1e-3, nan_ok=True))


def test_a_benchmark_runs_as_a_process_and_its_error_is_quoted(tmp_path: Path) -> None:
    claim = replace(FASTER, unit="% fewer", rule="at most", reported=(50.0,))
    bench = BenchExperiment(command="fanouts --seeds 0", minutes=0.01, show="value")
    with pytest.raises(RuntimeError, match=r"gnnqlab bench fanouts --seeds 0 ended with exit code 2: .*seeds must be"):
        reproduce(replace(claim, experiment=bench), folder=tmp_path)
    with pytest.raises(RuntimeError, match=r"a row of gnnqlab bench x must have case 'no such', .* got none of 2 rows"):
        measured_in(ROWS, replace(bench, command="x", case="no such"))


# -- The command. ------------------------------------------------------------------------------------------------------


def test_the_command_lists_claims(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["reproduce", "--list", "--paper", "tango", "--verdict", "not measured"])
    out = capsys.readouterr().out
    assert "tango:figure16b-a100" in out and "adaqp" not in out and out.endswith("11 claims: 11 not measured\n")
    cli.main(["reproduce", "--json"])
    assert len(json.loads(capsys.readouterr().out.splitlines()[-1])["claims"]) == 103


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (["adaqp:table4"], "a claim must be one of gnnqlab reproduce --list, got 'adaqp:table4'"),
        (["adaqp:theorem1-variance"], "open notebook 04"),
        (["tango:figure11b-fp16"], "missing: a GPU with tensor cores"),
        (["adaqp:table4-throughput", "--budget", "1s"], "must be at least"),
        (["adaqp:table4-throughput", "--paper", "adaqp"], "--paper selects claims of --list"),
        (["adaqp:table4-throughput", "--list"], "--list has no claim"),
        (["--list", "--paper", "sancus"], "paper must be one of"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_measured(
    words: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["reproduce", *words])
    assert ended.value.code == 2 and text in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_reproduces_a_claim(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two real trainings of a seed, on a graph of 80 nodes."""
    claim = scaled("sylvie:table12-bytes", seeds=1)
    found = reproduce(claim, budget="9min", folder=tmp_path)
    assert found.value > 1 and found.verdict in VERDICTS and len(stored_reproductions(tmp_path / "tables")) == 1
