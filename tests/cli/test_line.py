"""The command line keeps its contract: exit codes, one-line reasons, one JSON object."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

import gnnqlab
from gnnqlab import cli
from gnnqlab.cli import lists
from gnnqlab.kernels import native
from tests.cases import each
from tests.slow_down import HANG_S


@each(
    ("words", "text"),
    [
        (["train", "--system", "vanila"], "got 'vanila'; did you mean vanilla"),
        (["train", "--model", "GTA"], "got 'GTA'; did you mean gat"),
        (["train", "--partition", "metsi"], "got 'metsi'; did you mean metis"),
        (["train", "--replace", "codec=stochastik"], "got 'stochastik'; did you mean stochastic"),
        (["train", "--replace", "codek=stochastic"], "got 'codek=stochastic'; did you mean codec"),
        (["train", "--replace", "cache=unchanged:tolerence=1"], "got 'tolerence=1'; did you mean tolerance"),
        (["train", "--transport", "rng"], "got 'rng'; did you mean ring"),
        (["bench", "epochs"], "got 'epochs'; did you mean epoch"),
        (["train", "--bits", "2"], "system 'vanilla' takes no settings, got ['bits']"),
        (["train", "--system", "fixed-bits", "--bits", "5"], "bits must be one of (1, 2, 3, 4, 8, 16, 32), got 5"),
        (["train", "--system", "fixed-bits", "--bits", "3"], "Stochastic writes [1, 2, 4, 8, 16, 32], got [3]"),
        (["train", "--epochs", "0"], "epochs must be at least 1, got 0"),
        (["train", "--epochs", "many"], "epochs must be a whole number, got 'many'"),
        (["train", "--graph", "digit"], "got 'digit'; did you mean digits"),
        (["train", "--graph", "sbm:10"], "a generated graph must be named sbm:NODES,CLASSES,DEGREE"),
        (
            ["train", "--partition", "hash"],
            "partition must be one of ['contiguous', 'dne', 'ebv', 'hdrf', 'hep', 'metis', 'mt-kahypar', 'random', "
            "'random-clusters', 'random-edges', 'whole-graph']",
        ),
        (
            ["train", "--nnodes", "2"],
            "each of several machines needs its number, got --nnodes 2 alone; add --node-rank",
        ),
        (["train", "--nnodes", "2", "--node-rank", "0"], "several machines meet at the first one, got no --address"),
        (["train", "--nnodes", "2", "--node-rank", "2", "--address", "m0"], "node-rank must lie in [0, 2), got 2"),
        (["train", "--nnodes", "2", "--node-rank", "1", "--address", "m0:x"], "HOST:PORT with a number as port"),
        (["compare", "--systems", ","], "systems must name at least one system"),
        (["compare", "--target", "95"], "target must be a validation score in [0, 1], got 95.0; write 0.95 for 95 %"),
        (["train", "--system", "bns-gcn", "--boundary-share", "2"], "p must be 0 or lie in (2**-17, 1], got 2.0"),
        (["compare", "--systems", "vanilla", "--bits", "2"], "none of the systems ['vanilla'] takes ['bits']"),
        (
            ["train", "--system", "adaqp", "--bit-widths", "2;4"],
            "widths must be numbers separated by commas, got '2;4'",
        ),
        (["train", "--system", "adaqp", "--bit-widths", "2,5"], "widths to choose from must be among"),
        (
            ["train", "--system", "adaqp", "--bit-widths", "2,3"],
            "Stochastic writes [1, 2, 4, 8, 16, 32], got [2, 3, 8]",
        ),
        (["train", "--system", "adaqp", "--when", "never"], "when must be 'background' or 'blocking', got 'never'"),
        (["bench", "speed"], "bench must be one of"),
        (["recommend", "--rank-by", "speed"], "systems are ranked by one of ('time', 'bytes', 'memory'), got 'speed'"),
        (["recommend", "--workers", "3", "--hosts", "2"], "got 3 worker(s) on 2 hosts; choose 4 workers, or another"),
        (["course", "grade", "nowhere"], "the folder to grade must exist, got nowhere"),
        (
            ["train", "--system", "adaqp", "--heads", "2"],
            "heads is a setting of ['gat'], got 2 for 'gcn'; leave it out",
        ),
        (["bench"], "the following arguments are required: name; see gnnqlab bench --help"),
        (["train", "--epochs"], "--epochs: expected one argument; see gnnqlab train --help"),
        (["trian"], "got 'trian'; did you mean train; see gnnqlab --help"),
        (["nonsense"], "got 'nonsense'; see gnnqlab --help"),
        (["train", "--colour", "red"], "--colour red is no option of gnnqlab train; see gnnqlab train --help"),
        (["train", "--epoch", "3"], "--epoch 3 is no option of gnnqlab train; did you mean --epochs; see"),
        (["train", "--codec", "fp8"], "gnnqlab train; a part of the axis codec is set by --replace codec=fp8; see"),
        (["train", "--system", "adapq", "--help"], "system must be one of "),
        (["compare", "--systems", "vanilla,sylvy:bits=1", "--help"], "got 'sylvy'; did you mean sylvie"),
        (["train", "--model", "gcm", "--help"], "got 'gcm'"),
        (["train", "--learning-rate=1"], "did you mean --lr; see gnnqlab train --help"),
        (["train", "--resume", "nowhere"], "a run folder must hold config.json, got"),
        (["train", "--resume", "x", "--lr", "0.1"], "uses the settings of its run, got ['--lr'] as well"),
        (["train", "--resume", "x", "--port", "1"], "uses the settings of its run, got ['--port'] as well"),
        (["train", "--resume", "x", "--nnodes", "2"], "needs its number, got --nnodes 2 alone; add --node-rank"),
        (["train", "--resume", "x", "--nnodes", "2", "--print-command"], "a run folder must hold config.json, got"),
    ],
)
def test_a_mistake_is_one_line_and_code_2(words, text, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path))
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    said = capsys.readouterr()
    assert end.value.code == 2
    assert text in said.err
    assert len(said.err.strip().splitlines()) == 1
    assert said.err.startswith("gnnqlab: ")
    assert said.out == ""
    assert not list(tmp_path.iterdir())


@each("name", ["systems", "graphs", "models", "doctor", "runs"])
def test_lists_come_as_tables_and_as_json(name, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path))
    cli.main([name])
    assert capsys.readouterr().out.strip()
    cli.main([name, "--json"])
    (rows,) = json.loads(capsys.readouterr().out).values()
    assert isinstance(rows, list)


def test_doctor_reports_an_invalid_kernels_variable(capsys, monkeypatch):
    monkeypatch.setenv("GNNQLAB_KERNELS", "foo")
    cli.main(["doctor"])
    assert "GNNQLAB_KERNELS must be native or reference, got 'foo'; unset it" in capsys.readouterr().out


def test_doctor_continues_when_the_instruction_set_is_invalid(capsys, monkeypatch):
    monkeypatch.setenv("GNNQLAB_ISA", "sse9")
    with native.use(None):
        native._default_isa.cache_clear()
        cli.main(["doctor"])
    native._default_isa.cache_clear()
    assert "GNNQLAB_ISA must be one of ('avx512', 'avx2', 'scalar'), got 'sse9'; unset it" in capsys.readouterr().out


@each(
    ("words", "code", "text"),
    [
        (["train", "--system", "vanila", "--json"], 2, "did you mean vanilla"),
        (["trian", "--json"], 2, "did you mean train; see gnnqlab --help"),
        (["runs", "--json", "--delete", "gone"], 2, "got 'gone'"),
    ],
)
def test_json_output_contains_the_error_and_exit_code(words, code, text, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path))
    with pytest.raises(SystemExit) as end:
        cli.main(words)
    said = capsys.readouterr()
    answer = json.loads(said.out)
    assert end.value.code == answer["exit_code"] == code
    assert text in answer["error"] and answer["error"] in said.err


def test_an_interrupt_and_a_failure_are_objects_too(capsys, monkeypatch):
    for error, code in ((KeyboardInterrupt(), 130), (RuntimeError("rank 1 died"), 1)):
        monkeypatch.setattr(lists.Models, "run", lambda self, error=error: _raise(error))
        with pytest.raises(SystemExit):
            cli.main(["models", "--json"])
        assert json.loads(capsys.readouterr().out)["exit_code"] == code


def test_json_is_all_of_standard_output_for_every_command():
    """Lines of Python, and of C with its own buffer, as HiGHS prints them, go to standard error."""
    program = (
        "import ctypes, os; from types import SimpleNamespace; from gnnqlab.cli import line\n"
        "def run():\n"
        "    print('noise of Python'); os.write(1, b'noise of a system call\\n')\n"
        "    ctypes.CDLL(None).puts(b'noise of C')\n"
        "    return {'answer': 1}\n"
        "line._parse = lambda words: SimpleNamespace(json=True, run=run)\n"
        "for name in line._COMMANDS: line.main([name, '--json'])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) > 10 and all(json.loads(line) == {"answer": 1} for line in lines)
    assert done.stderr.count("noise of") == 3 * len(lines)


def _raise(error: BaseException) -> None:
    raise error


def test_help_and_version_need_no_torch():
    program = (
        "import sys; from gnnqlab import cli\n"
        "for word in ('--help', '--version'):\n"
        "    try: cli.main([word])\n"
        "    except SystemExit as end: assert end.code == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
    assert "autotune" in done.stdout and done.stdout.endswith(f"gnnqlab {gnnqlab.__version__}\n")


def test_a_reader_that_has_enough_is_no_mistake():
    """``gnnqlab graphs | head -0``: no traceback, no error."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run([sys.executable, "-m", "gnnqlab", "graphs"], stdout=writing, stderr=subprocess.PIPE)
    os.close(writing)
    assert (done.returncode, done.stderr) == (128 + 13, b"")


def test_help_is_readable_where_there_are_no_greek_letters():
    done = subprocess.run(
        [sys.executable, "-m", "gnnqlab", "train", "--help-all"],
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0 and "\\u03bb in [0, 1]" in done.stdout


def test_printed_commands_put_runs_where_they_go(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "elsewhere"))
    words = ["train", "--nnodes", "2", "--workers", "4", "--print-command", "--address", "10.1.2.3"]
    cli.main(words)
    assert str(tmp_path / "elsewhere") in capsys.readouterr().out
    cli.main([*words, "--out", "/disk/runs"])
    said = capsys.readouterr().out
    assert "/disk/runs" in said and "elsewhere" not in said


def test_printed_commands_name_every_machine(capsys):
    cli.main(["train", "--nnodes", "2", "--workers", "4", "--print-command", "--address", "10.1.2.3"])
    said = capsys.readouterr().out
    assert said.count("# machine ") == 2 and "10.1.2.3" in said and "#SBATCH --nodes=2" in said


def test_two_systems_are_trained_and_compared(tmp_path):
    environment = {**os.environ, "GNNQLAB_RUNS": str(tmp_path / "runs"), "GNNQLAB_CACHE": str(tmp_path / "cache")}
    words = "compare --graph digits --systems vanilla,fixed-bits --bits 2 --workers 2 --epochs 25 --hidden 64 --json"
    words += " --target 0.9 --mini-batch --batch-size 256"
    done = subprocess.run(
        [sys.executable, "-m", "gnnqlab", *words.split()],
        env=environment,
        capture_output=True,
        text=True,
        timeout=HANG_S,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout.splitlines()[-1])
    vanilla, two_bits = result["runs"]
    assert (vanilla["system"], two_bits["system"]) == ("vanilla", "fixed-bits")
    assert vanilla["test_accuracy"] > 0.9 and two_bits["test_accuracy"] > vanilla["test_accuracy"] - 0.05
    assert two_bits["bytes_payload"] <= vanilla["bytes_payload"] / 10
    assert 0 < vanilla["to_target_s"] < vanilla["wall_s"] and result["target"] == 0.9
    assert vanilla["bytes_params"] == 0 < two_bits["bytes_params"]
    batches = result["mini_batch"]
    assert "skipped" in batches or (batches["test_accuracy"] > 0.9 and batches["bytes_sent"] == 0)
    page = (tmp_path / "runs").glob("*/report.html")
    assert any("fixed-bits" in file.read_text() for file in page)
    assert "epoch" in done.stderr  # progress goes to standard error
