"""`make try-wheel`: the built wheel, installed for every Python on this machine, runs the how-to pages unchanged.

Each interpreter gets an environment of its own in an empty folder outside the checkout: the pinned torch, then the
wheel and its requirements. A page is a folder of its own: its modules, and the rest as one script, which launches real
workers. ``halo_exchange`` and ``halo_plans`` are started by ``torchrun``, the former with a mesh of the sphere.
A page that needs something that this machine lacks is listed, not run.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from gnnqlab.lab.figures.static_image import BROWSERS
from tests.pages import ROOT, blocks
from tests.slow_down import HANG_S

NEEDED = {
    "own_graph": ["networkx", "pyarrow"],
    "paper": ["kaleido"],
    "trackers": ["tensorboard", "mlflow", "wandb", "trackio", "pyarrow"],
}
"""Packages that a page imports in addition to the package."""
LIMIT_S = HANG_S
"""Seconds after which a page hangs, however busy the machine is."""
MESH = """
import os

from gnnqlab.course.halo_models.icosphere import icosphere

nodes, edges = icosphere(2)
owner = nodes[:, 2].argsort().argsort() * int(os.environ["WORLD_SIZE"]) // len(nodes)
inputs = nodes[:, :1].float()
target = nodes[:, 1:2].float()
"""
"""The inputs that the page about the exchange expects to be loaded."""


@dataclass
class Tried:
    """One page with one Python: ``ran``, ``skipped`` or ``FAILED``, and its message."""

    python: str
    page: str
    end: str
    seconds: float = 0.0
    said: str = ""

    def __str__(self) -> str:
        return f"{self.python:<8} {self.page:<14} {self.end:<8} {self.seconds:6.1f} s  {self.said}".rstrip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pythons", nargs="*", default=["python3.11", "python3.12", "python3.13"], help="interpreters")
    parser.add_argument("--wheel", type=Path, help="by default the one in dist/")
    parser.add_argument("--pages", help="names, separated by commas; by default all")
    chosen = parser.parse_args()
    wheels = [chosen.wheel] if chosen.wheel else sorted((ROOT / "dist").glob("*.whl"))
    if len(wheels) != 1:
        parser.error(f"dist/ must hold one wheel, got {len(wheels)}; make wheel builds it")
    pages = {
        page.stem: page
        for page in [*sorted((ROOT / "docs" / "how_to").glob("*.md")), ROOT / "docs" / "halo_exchange.md"]
    }
    names = list(pages) if chosen.pages is None else chosen.pages.split(",")
    tried = []
    for interpreter in chosen.pythons:
        with tempfile.TemporaryDirectory() as room:
            python = environment(interpreter, wheels[0].absolute(), Path(room), names)
            if isinstance(python, Tried):
                tried.append(python)
                print(python, flush=True)
                continue
            for name in names:
                tried.append(run_page(python, pages[name], Path(room)))
                print(tried[-1], flush=True)
    ran, failed, skipped = (sum(one.end == end for one in tried) for end in ("ran", "FAILED", "skipped"))
    print(f"{ran} ran, {failed} failed, {skipped} skipped")
    return int(bool(failed))


def environment(interpreter: str, wheel: Path, room: Path, names: list[str]) -> Path | Tried:
    """Return the Python of a new environment with the wheel in it, or the reason why there is none."""
    found = shutil.which(interpreter)
    version = found and subprocess.run([found, "--version"], capture_output=True, text=True).stdout.split()[-1:]
    if not version:
        return Tried(Path(interpreter).name, "-", "skipped", said="this interpreter is not here")
    began = time.monotonic()
    subprocess.run([str(found), "-m", "venv", room / "venv"], check=True)
    python = room / "venv" / "bin" / "python"
    (torch,) = re.findall(r"^torch==.*$", (ROOT / "constraints.txt").read_text(encoding="utf-8"), re.M)
    more = sorted({package for name in names for package in NEEDED.get(name, [])})
    for packages in ([torch], [str(wheel), *more]):
        install = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *packages]
        done = subprocess.run(install, capture_output=True, text=True, cwd=room)
        if done.returncode:
            return Tried(version[0], "install", "FAILED", time.monotonic() - began, last_line(done.stderr))
    print(Tried(version[0], "install", "ran", time.monotonic() - began), flush=True)
    return python


def run_page(python: Path, page: Path, room: Path) -> Tried:
    """Run a page's code unchanged, in an empty folder."""
    version = subprocess.run([python, "--version"], capture_output=True, text=True).stdout.split()[-1]
    if page.stem == "gpu" and not cuda(python):
        return Tried(version, page.stem, "skipped", said="this machine has no CUDA device")
    if page.stem == "paper" and not any(map(shutil.which, BROWSERS)):
        return Tried(version, page.stem, "skipped", said="this machine has no Chromium, which draws the figures")
    folder = room / page.stem
    folder.mkdir()
    alone = page.stem in ("halo_exchange", "halo_plans")
    script = [MESH] if page.stem == "halo_exchange" else []
    for block in blocks(page):
        first = block.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".py"):
            (folder / first.removeprefix("# ")).write_text(block, encoding="utf-8")
        else:
            script.append(block)
    start = []
    if alone:
        script += ["train(4, 5)\n"] if page.stem == "halo_exchange" else []
        script.append("dist.destroy_process_group()\n")
        start = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    (folder / "script.py").write_text("\n".join(script), encoding="utf-8")
    began = time.monotonic()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GNNQLAB_", "PYTHON"))}
    environ = {
        **kept,
        "GNNQLAB_CACHE": str(folder / "cache"),
        "PATH": f"{python.parent}{os.pathsep}{os.environ['PATH']}",
    }
    try:
        done = subprocess.run(
            [python, *start, "script.py"], cwd=folder, env=environ, capture_output=True, text=True, timeout=LIMIT_S
        )
    except subprocess.TimeoutExpired:
        return Tried(version, page.stem, "FAILED", LIMIT_S, "it did not end")
    took_s = time.monotonic() - began
    if done.returncode:
        return Tried(version, page.stem, "FAILED", took_s, last_line(done.stderr))
    return Tried(version, page.stem, "ran", took_s)


def cuda(python: Path) -> bool:
    program = "import torch; print(torch.cuda.is_available())"
    return subprocess.run([python, "-c", program], capture_output=True, text=True).stdout.strip() == "True"


def last_line(text: str) -> str:
    return next((line.strip() for line in reversed(text.splitlines()) if line.strip()), "")


if __name__ == "__main__":
    sys.exit(main())
