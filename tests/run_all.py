"""`make test`: lint, types, tests, docstrings and notebooks in one run of pytest; `make check`: the core of them.

Debian's Chromium, for the tests in a browser, is installed first where that is allowed. `tests/lanes.py` decides how
many tests run side by side, and shows failures and the time left as they run.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from gnnqlab.launch.guarded import STARTER
from tests.lanes import machine_lanes
from tests.warm import specify_kernel

ROOT = Path(__file__).parent.parent
NOTEBOOKS = ("--nbval-lax", "--nbval-sanitize-with", "tests/notebooks/sanitize.cfg", "notebooks")


def main(arguments: Sequence[str]) -> int:
    """Run ``check`` or, without an argument, everything; more arguments go to pytest."""
    check = arguments[:1] == ["check"]
    more = list(arguments[1:] if check else arguments)
    if check:
        core = [str(path) for path in sorted((ROOT / "tests").rglob("test_*.py")) if "mark.core" in path.read_text()]
        return run_pytest("-m", "core", *core, *more)
    install_chromium()
    return run_pytest("tests", *NOTEBOOKS, "--durations=10", *more)


def run_pytest(*arguments: str) -> int:
    """Run pytest on several lanes; its last line has the counts."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pytest", "-q", "-p", "tests.lanes", f"-n{machine_lanes()}", *arguments]
        # One thread per process: threads that wait for one another spin, and take processor time from other lanes.
        environment = {"OMP_NUM_THREADS": "1", **os.environ, "GNNQLAB_RUNS": str(Path(folder, "runs"))}
        # Bytecode is written: otherwise each of a thousand processes would compile the package again.
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        address = str(Path(folder, "warm"))
        warm = [sys.executable, str(ROOT / "tests" / "warm.py"), "serve", address]
        with subprocess.Popen(
            warm, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment | {"PYTHONPATH": str(ROOT)}
        ) as server:
            start = [sys.executable, "-I", "-S", warm[1], "start", address]
            environment[STARTER] = shlex.join(start)
            specify_kernel(Path(folder, "jupyter"), start)
            more = [path for path in (environment.get("JUPYTER_PATH"),) if path]
            environment["JUPYTER_PATH"] = os.pathsep.join([str(Path(folder, "jupyter")), *more])
            try:
                return subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, env=environment).returncode
            finally:
                server.terminate()


def install_chromium() -> None:
    """Install Debian's Chromium for the tests in a browser where that is allowed; without it they are skipped."""
    if shutil.which("chromium"):
        return
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        print("no Chromium here, and it cannot be installed without root and apt-get: tests in a browser are skipped")
        return
    print("installing Debian's chromium for the tests in a browser", flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in ("apt-get -qq update", "apt-get -qq install -y --no-install-recommends chromium"):
        try:
            done = subprocess.run(
                command.split(), env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600
            )
        except subprocess.TimeoutExpired:
            print(f"{command} took more than 600 s: tests in a browser are skipped", flush=True)
            return
        if done.returncode != 0:
            print(f"{command} failed: {done.stderr.strip()[-300:]}", flush=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
