"""Set up `.venv` for one goal of the Makefile: packages, compiled kernels, the package itself; nothing twice.

    python3.11 tests/set_up.py demo|lab|test|docs [--cuda AUTO|ON|OFF]

Packages are installed by uv if the index has it, otherwise by pip. Kernels are compiled in the same run: for the
instruction set in use for ``demo``, for all sets of this processor otherwise; CUDA kernels if a GPU is found or with
``--cuda ON``. `.venv/set_up.json` holds the checksum of the inputs of each step. Only the standard
library is used, since nothing is installed yet.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = VENV / "set_up.json"
EXTRAS: dict[str, tuple[str, ...]] = {
    "demo": (),
    "lab": ("dgl", "solver", "lab"),
    "test": ("dgl", "solver", "slurm", "lab", "dev"),
    "docs": ("dgl", "solver", "slurm", "lab", "dev", "docs"),
}
"""Extras of pyproject.toml that a goal installs in addition to the package's own dependencies."""
TOOLS = ("uv", "cmake", "ninja", "scikit-build-core")
"""Programs that the set-up itself runs."""
SLOW = ("rfc3987-syntax",)
"""Packages that are installed as dependencies and then removed: jsonschema imports this one if it is there, which costs
seconds of processor time in each start of Jupyter and of pytest, to check international addresses that nothing has."""
AVX512 = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512cd"}
UV_OPTIONS = {
    "index-url": "--default-index",
    "extra-index-url": "--index",
    "find-links": "--find-links",
    "constraint": "--constraint",
    "trusted-host": "--allow-insecure-host",
}
"""Option of uv for each setting of pip that names package sources."""
UV_VARIABLES = {"cert": "SSL_CERT_FILE", "client-cert": "SSL_CLIENT_CERT", "proxy": "HTTPS_PROXY"}


PROGRESS_S = 10.0
"""Seconds between lines of a step that takes long."""
RUNNING: set[subprocess.Popen[str]] = set()
"""Programs of the set-up, which end with it."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Set up .venv for one goal of the Makefile.")
    parser.add_argument("goal", choices=EXTRAS)
    parser.add_argument("--cuda", choices=("AUTO", "ON", "OFF"), default="AUTO")
    options = parser.parse_args(arguments)
    try:
        make_environment()
        state = State(STATE)
        with ThreadPoolExecutor(1) as pool, ended_on_interrupt():
            install_tools(state)
            kernels = pool.submit(compile_kernels, state, isas(options.goal), cuda=wants_cuda(options.cuda))
            install_packages(state, EXTRAS[options.goal])
            kernels.result()
        install_package(state)
    except KeyboardInterrupt as interrupt:
        number = interrupt.args[0] if interrupt.args else signal.SIGINT
        report("set-up interrupted; the same command goes on with the steps that are not done")
        return 128 + int(number)
    return 0


@contextmanager
def ended_on_interrupt() -> Iterator[None]:
    """End the programs of other threads if the block is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        for process in tuple(RUNNING):
            process.terminate()
        raise


def interrupt(number: int, frame: Any) -> None:
    """Raise `KeyboardInterrupt` for a signal; make sends it again to the programs that it has started."""
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt(number)


class State:
    """Checksums of the inputs of each step that has been done, in a file."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._sums: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def done(self, step: str, inputs: str) -> bool:
        return self._sums.get(step) == inputs

    def record(self, step: str, inputs: str) -> None:
        with self._lock:
            self._sums[step] = inputs
            partial = self._path.with_suffix(".partial")
            partial.write_text(json.dumps(self._sums, indent=1))
            partial.replace(self._path)


def make_environment() -> None:
    """Make `.venv` with this Python if there is none for this folder: an environment cannot be moved."""
    folder = VENV / ".folder"
    if PYTHON.exists() and folder.exists() and folder.read_text().strip() == str(ROOT):
        return
    try:
        import ensurepip  # noqa: F401
        import venv  # noqa: F401
    except ImportError:
        raise SystemExit(
            f"gnnqlab: {sys.executable} cannot make an environment of its own; install its venv module "
            "(Debian: apt-get install python3.11-venv)"
        ) from None
    with step(f"make .venv with Python {sys.version.split()[0]}"):
        run(sys._base_executable, "-m", "venv", "--clear", VENV)  # not the Python of an environment that was moved
        folder.write_text(str(ROOT))


def install_tools(state: State) -> None:
    """Install the tools of the set-up; without uv on the index, pip does all of it."""
    inputs = checksum(ROOT / "constraints.txt")
    if state.done("tools", inputs):
        return
    with step("install uv, cmake and ninja"):
        if not run_pip("uv", quiet=True):
            report("uv cannot be installed here; pip installs the packages, which takes longer")
        install([name for name in TOOLS if name != "uv"])
    state.record("tools", inputs)


def install_packages(state: State, extras: tuple[str, ...]) -> None:
    """Install the dependencies of the package and those of some extras, pinned; torch first."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    groups = [project["dependencies"], *(project["optional-dependencies"][name] for name in extras)]
    requirements = [line for group in groups for line in group]
    inputs = checksum(ROOT / "constraints.txt", ROOT / "docs" / "constraints.txt", *requirements, *SLOW)
    known = f"packages of {', '.join(extras) or 'the package alone'}"
    if state.done(known, inputs):
        return
    torch = next(line for line in (ROOT / "constraints.txt").read_text().splitlines() if line.startswith("torch=="))
    with step(f"install torch and {len(requirements) - 1} other packages with {'uv' if uv() else 'pip'}"):
        if not uv():  # pip would fetch several builds of torch before it chooses
            install([torch])
        install(requirements)
        run(PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", "--disable-pip-version-check", *SLOW)
    state.record(known, inputs)


def compile_kernels(state: State, sets: tuple[str, ...], *, cuda: bool) -> None:
    """Compile the kernels for some instruction sets into gnnqlab/kernels/_lib, on all cores.

    The libraries are written next to the sources, where they are found however the package is imported. Without a C++
    compiler nothing is built, and the reference kernels run.
    """
    library = ROOT / "gnnqlab" / "kernels" / "_lib"
    compilers = [str(shutil.which(name)) for name in ("c++", "g++", "clang++", "nvcc")]
    sources = sorted(path for path in (ROOT / "cuda_ext").rglob("*") if path.is_file())
    inputs = checksum(*sources, *compilers)
    wanted = {*sets, *(["cuda"] if cuda else [])}
    built = {name for name in (*ALL_ISAS, "cuda") if state.done(f"kernels for {name}", inputs)}
    if wanted <= built and library.exists():
        return
    sets = tuple(name for name in ALL_ISAS if name in {*sets, *built})  # one library file has all sets
    cuda = cuda or "cuda" in built
    build = ROOT / "build" / "kernels"
    with step(f"compile the kernels for {', '.join([*sets, *(['CUDA'] if cuda else [])])}"):
        path = os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")])
        cmake = [
            *(VENV / "bin" / "cmake", "-S", ROOT / "cuda_ext", "-B", build, "-G", "Ninja"),
            *("-DCMAKE_BUILD_TYPE=Release", f"-DGNNQLAB_ISAS={';'.join(sets)}"),
            f"-DGNNQLAB_CUDA={'ON' if cuda else 'OFF'}",
        ]
        run(*cmake, path=path)
        run(VENV / "bin" / "cmake", "--build", build, "--parallel", str(len(os.sched_getaffinity(0))), path=path)
        run(VENV / "bin" / "cmake", "--install", build, "--prefix", ROOT, path=path)
    for name in {*sets, *(["cuda"] if cuda else [])}:
        state.record(f"kernels for {name}", inputs)


def install_package(state: State) -> None:
    """Install the package itself as editable; its kernels are compiled already."""
    inputs = checksum(ROOT / "pyproject.toml", "found by the search path")
    if state.done("package", inputs):
        return
    with step("install gnnqlab itself"):
        install(["--no-build-isolation", "--no-deps", "--config-settings=wheel.cmake=false", "--editable", str(ROOT)])
        # Editors complete only packages of the search path, not those of scikit-build-core's finder.
        for path in VENV.glob("lib/python*/site-packages/_editable_skbc_gnnqlab.pth"):
            path.write_text(f"{ROOT}\n")
    state.record("package", inputs)


ALL_ISAS = ("scalar", "avx2", "avx512")


def isas(goal: str) -> tuple[str, ...]:
    """Return the instruction sets to compile for: the best of this processor for the demo, else all that it has."""
    info = Path("/proc/cpuinfo")
    listed = info.read_text().partition("flags")[2].partition("\n")[0] if info.exists() else ""
    flags = set(re.findall(r"[a-z0-9_]+", listed))
    found = ["scalar"]
    if {"avx2", "fma", "bmi2", "f16c"} <= flags:
        found.append("avx2")
        if flags >= AVX512:
            found.append("avx512")
    return (found[-1],) if goal == "demo" else tuple(found)


def wants_cuda(asked: str) -> bool:
    """Return True if CUDA kernels are requested, or a GPU and nvcc are on this machine."""
    if asked != "AUTO":
        return asked == "ON"
    found = shutil.which("nvidia-smi") and shutil.which("nvcc")
    return bool(found) and subprocess.run(["nvidia-smi", "-L"], capture_output=True).stdout.startswith(b"GPU")


def uv() -> Path | None:
    program = VENV / "bin" / "uv"
    return program if program.exists() else None


def install(arguments: Sequence[str]) -> None:
    """Install requirements with uv, or with pip where uv is missing or fails."""
    program = uv()
    if program is not None:
        options, variables = uv_settings(pip_settings())
        pins = ["--constraint", ROOT / "constraints.txt", "--constraint", ROOT / "docs" / "constraints.txt"]
        # As pip does, the best version of all indexes is taken, not that of the first one which has the package.
        command = [program, "pip", "install", "--quiet", "--python", PYTHON, "--index-strategy", "unsafe-best-match"]
        done = subprocess.run(
            [str(word) for word in (*command, *options, *pins, *arguments)],
            env={**os.environ, **variables, "PATH": os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")])},
            capture_output=True,
            text=True,
        )
        if done.returncode == 0:
            return
        report(f"uv failed, pip goes on: {done.stderr.strip()[-600:]}")
    if not run_pip(*arguments):
        raise SystemExit("gnnqlab: pip could not install what is needed; its message is above")


def run_pip(*arguments: str, quiet: bool = False) -> bool:
    pins = ["-c", str(ROOT / "constraints.txt"), "-c", str(ROOT / "docs" / "constraints.txt")]
    command = [str(PYTHON), "-m", "pip", "--disable-pip-version-check", "install", "-qq", "--progress-bar", "off"]
    environment = {**os.environ, "PATH": os.pathsep.join([str(VENV / "bin"), os.environ.get("PATH", "")])}
    hidden = subprocess.DEVNULL if quiet else None
    return subprocess.run([*command, *pins, *arguments], env=environment, stdout=hidden, stderr=hidden).returncode == 0


def pip_settings() -> dict[str, str]:
    """Return the settings that pip has on this machine, by name; a variable wins over a file, as in pip."""
    listed = subprocess.run([PYTHON, "-m", "pip", "config", "list"], capture_output=True, text=True).stdout
    found: dict[str, tuple[int, str]] = {}
    for line in listed.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.rpartition(".")
        rank = {"global": 0, "install": 1, ":env:": 2}.get(section)
        if rank is not None and rank >= found.get(name, (0, ""))[0]:
            found[name] = (rank, str(ast.literal_eval(value)))
    return {name: value for name, (_, value) in found.items()}


def uv_settings(settings: dict[str, str]) -> tuple[list[str], dict[str, str]]:
    """Return uv's options and variables for pip's settings: uv itself does not read pip's configuration.

    Example:
        >>> uv_settings({"find-links": "/wheels", "extra-index-url": "https://a/x https://b/y", "cert": "/ca.pem"})
        (['--find-links', '/wheels', '--index', 'https://a/x', '--index', 'https://b/y'], {'SSL_CERT_FILE': '/ca.pem'})
    """
    options: list[str] = []
    for name, text in settings.items():
        if name in UV_OPTIONS:
            options += [word for value in text.split() for word in (UV_OPTIONS[name], value)]
    if settings.get("no-index", "").lower() in ("1", "true", "yes", "on"):
        options.append("--no-index")
    return options, {UV_VARIABLES[name]: text for name, text in settings.items() if name in UV_VARIABLES}


def checksum(*inputs: Path | str) -> str:
    """Return a checksum of the contents of files, of texts, and of the folder."""
    found = hashlib.sha256(str(ROOT).encode())
    for one in inputs:
        found.update(b"\0" + (one.read_bytes() if isinstance(one, Path) else one.encode()))
    return found.hexdigest()[:16]


def run(*command: object, path: str | None = None) -> None:
    """Run a command without its output, which is shown if it fails."""
    environment = {**os.environ, **({"PATH": path} if path else {})}
    process = subprocess.Popen(
        [str(word) for word in command], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    RUNNING.add(process)
    try:
        output, _ = process.communicate()
    finally:
        process.kill()  # of an interrupted step; nothing if it has ended
        RUNNING.discard(process)
    if process.returncode != 0:
        words = " ".join(str(word) for word in command[:3])
        raise SystemExit(f"{output[-3000:]}\ngnnqlab: {words} failed; its message is above")


@contextmanager
def step(name: str) -> Iterator[None]:
    """Report the start of a step, its seconds so far while it takes long, and all of them when it has ended."""
    began, ended = time.monotonic(), Event()
    report(f"{name} …")

    def report_progress() -> None:
        while not ended.wait(PROGRESS_S):
            report(f"{name}: {time.monotonic() - began:.0f} s so far")

    progress = Thread(target=report_progress, daemon=True)
    progress.start()
    try:
        yield
    finally:
        ended.set()
        progress.join()
    report(f"{name}: done in {time.monotonic() - began:.0f} s")


def report(text: str) -> None:
    print(f"gnnqlab: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    for each in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(each, interrupt)
    sys.exit(main())
