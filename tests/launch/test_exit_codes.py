"""Exit statuses of workers are reported in the moment in which the processes are collected."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gnnqlab.launch.exit_codes import VARIABLE, ExitCodes

TELL = "import os; from gnnqlab.launch.exit_codes import report_exit_codes; waitpid = os.waitpid; report_exit_codes()"
COLLECT = {
    "fork": """
import multiprocessing
child = multiprocessing.get_context("fork").Process(target=lambda: os.kill(os.getpid(), 9))
child.start()
child.join()
""",
    "spawn": """
import subprocess
child = subprocess.Popen(["sh", "-c", "kill -9 $$"])
while child.poll() is None:
    pass
""",
}


@pytest.mark.parametrize("method", COLLECT)
def test_exit_code_of_a_child_is_reported_when_it_is_collected(method: str) -> None:
    guard = ExitCodes()
    agent = subprocess.run(
        [sys.executable, "-c", f"{TELL}{COLLECT[method]}print(child.pid)"],
        env={**os.environ, VARIABLE: str(guard.write_end)},
        pass_fds=[guard.write_end],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert guard.read() == {int(agent.stdout): signal.SIGKILL}


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_agent_reports_the_exit_code_of_a_worker(method: str, tmp_path: Path) -> None:
    guard, worker = ExitCodes(), tmp_path / "worker.py"
    worker.write_text(f"import os, pathlib; pathlib.Path({str(tmp_path / 'pid')!r}).write_text(str(os.getpid()))\n")
    with open(worker, "a") as file:
        file.write("os.kill(os.getpid(), 9)\n")
    how = ["--start-method=fork", "--run-path", str(worker)] if method == "fork" else [str(worker)]
    alone = ["--standalone", "--local-addr=127.0.0.1", "--nproc-per-node=1", "--max-restarts=0"]
    command = [sys.executable, "-m", "gnnqlab.launch.agent", *alone, f"--log-dir={tmp_path / 'logs'}", *how]
    environment = {**os.environ, VARIABLE: str(guard.write_end)}
    ended = subprocess.run(command, env=environment, pass_fds=[guard.write_end], capture_output=True, cwd=tmp_path)
    assert ended.returncode != 0
    assert guard.read()[int((tmp_path / "pid").read_text())] == signal.SIGKILL


def test_partial_line_is_read_after_it_is_complete() -> None:
    guard = ExitCodes()
    os.write(guard.write_end, b"12 9\n345 ")
    assert guard.read() == {12: 9}
    os.write(guard.write_end, b"256\n")
    assert guard.read() == {12: 9, 345: 256}


def test_importing_the_agent_does_not_import_subprocess() -> None:
    code = "import gnnqlab.launch.agent, sys; sys.exit('subprocess' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_waitpid_is_unchanged_without_a_guard() -> None:
    environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
    code = f"{TELL}; assert os.waitpid is waitpid"
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0
