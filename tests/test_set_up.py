"""Set-up refuses early, installs nothing twice, and uses the package sources of pip's configuration."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests import set_up
from tests.slow_down import HANG_S, wait_until

ROOT = Path(__file__).parent.parent


@pytest.fixture
def done(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the list to which each step of a set-up in an empty checkout is added."""
    work: list[str] = []
    for name in ("Makefile", "pyproject.toml", "constraints.txt", "docs/constraints.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "cuda_ext").mkdir()
    (tmp_path / "cuda_ext" / "some.cpp").write_text("int some;")
    (tmp_path / ".venv" / "bin").mkdir(parents=True)
    for name in ("python", "uv"):
        (tmp_path / ".venv" / "bin" / name).touch()
    (tmp_path / ".venv" / ".folder").write_text(str(tmp_path))
    (tmp_path / "gnnqlab" / "kernels" / "_lib").mkdir(parents=True)
    for name, path in {"ROOT": "", "VENV": ".venv", "PYTHON": ".venv/bin/python", "STATE": ".venv/state"}.items():
        monkeypatch.setattr(set_up, name, tmp_path / path)
    monkeypatch.setattr(set_up, "install", lambda words: work.append("install " + " ".join(map(str, words))))
    monkeypatch.setattr(set_up, "run_pip", lambda *words, quiet=False: not work.append("pip " + " ".join(words)))
    monkeypatch.setattr(set_up, "run", lambda *words, path=None: work.append("run " + " ".join(map(str, words))))
    monkeypatch.setattr(set_up, "isas", lambda goal: ("avx2",) if goal == "demo" else ("scalar", "avx2"))
    return work


def test_second_set_up_does_no_work_until_an_input_changes(done: list[str]) -> None:
    assert set_up.main(["demo"]) == 0 and done
    done.clear()
    assert set_up.main(["demo"]) == 0 and not done
    (set_up.ROOT / "cuda_ext" / "some.cpp").write_text("int other;")
    set_up.main(["demo"])
    assert done and all("cmake" in work for work in done)
    done.clear()
    with (set_up.ROOT / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    set_up.main(["demo"])
    assert done and not any("cmake -" in work for work in done)


def test_the_package_is_found_by_the_search_path_alone(done: list[str]) -> None:
    path = set_up.VENV / "lib" / "python3.11" / "site-packages" / "_editable_skbc_gnnqlab.pth"
    path.parent.mkdir(parents=True)
    path.write_text("import _editable_skbc_gnnqlab\n")  # the finder, whose packages editors cannot read
    set_up.main(["demo"])
    assert any("--editable" in work for work in done) and path.read_text() == f"{set_up.ROOT}\n"


def test_each_set_up_target_installs_only_its_requirements(done: list[str]) -> None:
    set_up.main(["demo"])
    text = "\n".join(done)
    assert "torch>=" in text and not any(name in text for name in ("pytest>", "jupyterlab>", "dgl=", "sphinx>"))
    assert "-DGNNQLAB_ISAS=avx2 " in text and "-DGNNQLAB_CUDA=OFF" in text
    done.clear()
    set_up.main(["test"])
    text = "\n".join(done)
    assert "pytest>=" in text and "jupyterlab>=" in text and "sphinx>" not in text
    assert "-DGNNQLAB_ISAS=scalar;avx2 " in text
    done.clear()
    set_up.main(["docs"])
    assert "sphinx>=" in "\n".join(done) and not any("cmake -" in work for work in done)


def test_compiled_kernels_are_reused_when_fewer_sets_are_requested(done: list[str]) -> None:
    set_up.main(["test", "--cuda", "ON"])
    assert "-DGNNQLAB_CUDA=ON" in "\n".join(done)
    done.clear()
    set_up.main(["demo"])
    assert not any("cmake -" in work for work in done)


def test_pip_installs_where_uv_fails(done: list[str], monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.undo()
    calls = []

    def call(command, **_):
        calls.append([Path(command[0]).name, *command[1:3]])
        failed = calls[-1][:2] == ["uv", "pip"]
        return subprocess.CompletedProcess(command, int(failed), "", "no route to the index")

    monkeypatch.setattr(set_up, "uv", lambda: Path("/somewhere/uv"))
    monkeypatch.setattr(set_up, "pip_settings", dict)
    monkeypatch.setattr(set_up.subprocess, "run", call)
    set_up.install(["numpy"])
    assert [words[0] for words in calls] == ["uv", "python"]
    assert "uv failed, pip goes on: no route to the index" in capsys.readouterr().err


def test_pip_settings_of_a_variable_win_over_those_of_files(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = "global.find-links='/a'\n:env:.find-links='/b'\ninstall.no-index='true'\nglobal.timeout='5'\n"
    monkeypatch.setattr(set_up.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, listed))
    settings = set_up.pip_settings()
    assert settings["find-links"] == "/b"
    assert set_up.uv_settings(settings) == (["--find-links", "/b", "--no-index"], {})


def test_cuda_kernels_need_a_gpu_or_a_wish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(set_up.shutil, "which", lambda name: None if name == "nvidia-smi" else f"/bin/{name}")
    assert [set_up.wants_cuda(asked) for asked in ("AUTO", "ON", "OFF")] == [False, True, False]
    monkeypatch.setattr(set_up.shutil, "which", lambda name: f"/bin/{name}")
    monkeypatch.setattr(set_up.subprocess, "run", lambda *_, **__: subprocess.CompletedProcess([], 0, b"GPU 0: H100"))
    assert set_up.wants_cuda("AUTO")


def test_a_long_step_reports_its_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    reported = threading.Event()

    def report(text: str) -> None:
        lines.append(text)
        if "so far" in text:
            reported.set()

    monkeypatch.setattr(set_up, "PROGRESS_S", 1e-3)
    monkeypatch.setattr(set_up, "report", report)
    with set_up.step("compile"):
        assert reported.wait(HANG_S)
    assert lines[0] == "compile …" and lines[1] == "compile: 0 s so far" and lines[-1].startswith("compile: done in")
    with pytest.raises(KeyboardInterrupt), set_up.step("stopped"):
        raise KeyboardInterrupt
    assert not any(line.startswith("stopped: done") for line in lines)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_set_up_ends_its_programs_and_says_so(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import signal, sys, runpy; from pathlib import Path; from tests import set_up\n"
        "for each in (signal.SIGINT, signal.SIGTERM): signal.signal(each, set_up.interrupt)\n"
        "set_up.make_environment = set_up.install_package = lambda *_: None\n"
        "set_up.install_tools = set_up.install_packages = lambda *_: None\n"
        "set_up.isas, set_up.STATE = lambda goal: (), Path('none')\n"
        "def compile_kernels(*_, **__):\n"
        "    set_up.run('sh', '-c', 'touch started; exec sleep 3600')\n"
        "set_up.compile_kernels = compile_kernels\n"
        "sys.exit(set_up.main(['test', '--cuda', 'OFF']))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program], cwd=tmp_path, stderr=subprocess.PIPE, text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    wait_until(lambda: (tmp_path / "started").exists(), what="the program of the set-up")
    process.send_signal(number)
    _, error = process.communicate(timeout=HANG_S)
    assert process.returncode == 128 + number
    assert error == "gnnqlab: set-up interrupted; the same command goes on with the steps that are not done\n"


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_another_python_gets_one_line_with_the_way_out(tmp_path: Path) -> None:
    shutil.copy(ROOT / "Makefile", tmp_path)
    other = tmp_path / "python3.9"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    other.chmod(0o755)
    # These tests may themselves run under make, whose flags and depth no user types.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = ["make", "--no-print-directory", "demo", f"PYTHON={other}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=HANG_S, env=environment)
    assert ended.returncode != 0
    first, *rest = ended.stderr.splitlines()
    assert "need Python 3.11, found Python 3.9.2" in first and "python3.11-venv" in first
    assert all(line.startswith("make: ***") for line in rest) and not (tmp_path / ".venv").exists()
