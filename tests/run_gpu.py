"""`make gpu`: everything that needs a GPU, in a few calls on the machine that has one.

    make gpu                                         all parts, as far as --budget seconds reach; call it again to go on
    make gpu ARGS="--part train --size 0.1"          one part, on graphs of a tenth of the size
    OUT=/somewhere make gpu ARGS="--part bench"      tables there instead of gnnqlab/results

Parts: ``build`` compiles the kernels with the installed nvcc into gnnqlab/kernels/_lib; ``tests``: those marked gpu,
and those of the CUDA compiler's report; ``sanitize``: every kernel under compute-sanitizer's memcheck, racecheck and
initcheck; ``bench``: kernels relative to their upper bounds; ``train``: every system with 1, 2 and 4 workers, which
share a GPU over Gloo and have one each over NCCL if there are so many; ``overlap``: the timeline of AdaQP's three
stages. It needs PyTorch with CUDA, and pytest for the tests; no network, no DGL, no environment of its own.

A part that has passed is not run again (--again runs it), and ``train`` continues after its stored rows. Exit code:
0 if all parts passed, 1 if one failed, 2 if there is no GPU, 3 if the time is over: call it again.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))
CHECKS = ("memcheck", "racecheck", "initcheck")
PARTS = ("build", "tests", "sanitize", "bench", "train", "overlap")
SYSTEMS_WITH_OVERLAP = ("adaqp", "adaqp-p", "adaqp-q", "vanilla")


class OutOfTime(Exception):
    """The budget of this call is spent; the next call continues."""


class Pass:
    """State of one call: the requested parts, and those that are not done yet."""

    def __init__(self, given: argparse.Namespace) -> None:
        self.given = given
        self.until = time.monotonic() + given.budget
        self.out = Path(os.environ.get("OUT") or ROOT / "gnnqlab" / "results")
        self.progress = ROOT / "build" / "gpu-pass"
        self.command = "python " + shlex.join(["tests/run_gpu.py", *sys.argv[1:]])

    def left_s(self) -> float:
        return self.until - time.monotonic()

    def run(self, command: list[str], **environment: str) -> bool:
        """Run a command within the rest of the budget; return True if it succeeded."""
        if self.left_s() < 5:
            raise OutOfTime
        print("$", shlex.join(command), flush=True)
        merged = {**os.environ, "PYTHONPATH": str(ROOT), **environment}
        try:
            return subprocess.run(command, cwd=ROOT, env=merged, timeout=self.left_s()).returncode == 0
        except subprocess.TimeoutExpired:
            raise OutOfTime from None

    def done(self, name: str) -> bool:
        return (self.progress / name).exists() and not self.given.again

    def note(self, name: str) -> None:
        self.progress.mkdir(parents=True, exist_ok=True)
        (self.progress / name).touch()

    def each(self, part: str, steps: dict[str, list[str]], **environment: str) -> bool:
        """Run the steps of a part that have not passed yet; all of them, even if one fails."""
        passed = True
        for name, command in steps.items():
            if not self.done(f"{part}-{name}"):
                if self.run(command, **environment):
                    self.note(f"{part}-{name}")
                else:
                    passed = False
        return passed

    # -- parts ----------------------------------------------------------------------------------------------------

    def build(self) -> bool:
        folder = str(ROOT / "build" / "gpu")
        ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
        return (
            self.run(["cmake", "-S", "cuda_ext", "-B", folder, *ninja, "-DCMAKE_BUILD_TYPE=Release"])
            and self.run(["cmake", "--build", folder, "--parallel"])
            and self.run(["cmake", "--install", folder, "--prefix", str(ROOT)])
        )

    def tests(self) -> bool:
        pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
        compiled = [*pytest, "tests/kernels/test_cuda_compiled.py"]
        steps = {"gpu": [*pytest, "-m", "gpu", "tests"], "compiled": compiled}
        return self.each("tests", steps, GNNQLAB_ARCHITECTURES="80,90,100")

    def sanitize(self) -> bool:
        tool = shutil.which("compute-sanitizer")
        if tool is None:
            print("run_gpu: compute-sanitizer must be in PATH to check the kernels, got none", file=sys.stderr)
            return False
        driver = [sys.executable, "tests/kernels/every_kernel.py", "cuda"]
        steps = {check: [tool, "--tool", check, "--error-exitcode", "9", *driver] for check in CHECKS}
        # No caching, so that an access beyond a tensor is one beyond an allocation.
        return self.each("sanitize", steps, PYTORCH_NO_CUDA_MEMORY_CACHING="1")

    def bench(self) -> bool:
        from gnnqlab.results import keep

        table = self.progress / "bench.json"
        self.progress.mkdir(parents=True, exist_ok=True)
        command = f"{shlex.quote(sys.executable)} -m gnnqlab bench gpu --json --repeats {self.given.repeats}"
        passed = self.run(["bash", "-c", f"set -o pipefail; {command} | tail -n 1 > {shlex.quote(str(table))}"])
        if passed:
            keep("gpu-kernels", json.loads(table.read_text())["rows"], command=self.command, folder=self.out)
        return passed

    def train(self) -> bool:
        from benchmarks.studies.gpu_training import cases, shaped_graph, train_row
        from gnnqlab.results import keep, load

        given = self.given
        kept = {} if given.again or not self.out.exists() else load(self.out)
        rows = [row for row in kept.get("gpu-train", {"rows": []})["rows"] if "error" not in row]
        for case in cases(given.graphs, given.systems or all_systems(), given.workers, gpus()):
            path, label = shaped_graph(case["graph"], given.size)
            wanted = {**case, "graph": label}
            if any(wanted.items() <= row.items() for row in rows):
                continue
            if self.left_s() < 30:
                raise OutOfTime
            row = train_row(case, path, label, epochs=given.epochs, device=given.device, limit_s=self.left_s())
            print(json.dumps(row), flush=True)
            if "error" in row and self.left_s() < 5:
                raise OutOfTime
            rows.append(row)
            keep("gpu-train", rows, command=self.command, folder=self.out)
        return not any("error" in row for row in rows)

    def overlap(self) -> bool:
        from benchmarks.studies.gpu_training import cases, overlap_rows, shaped_graph
        from gnnqlab.results import keep

        given, rows = self.given, list[dict[str, Any]]()
        systems = given.systems or SYSTEMS_WITH_OVERLAP
        for case in cases(given.graphs, systems, [number for number in given.workers if number > 1][:1], gpus()):
            path, label = shaped_graph(case["graph"], given.size)
            rows += overlap_rows(case, path, label, device=given.device, limit_s=self.left_s())
            keep("gpu-overlap", rows, command=self.command, folder=self.out)
        return bool(rows)


def all_systems() -> list[str]:
    from gnnqlab.systems import SYSTEMS

    return list(SYSTEMS)


def gpus() -> int:
    import torch

    return torch.cuda.device_count()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False
    )
    parser.add_argument("--part", action="append", choices=PARTS, help="only this one; may be repeated")
    parser.add_argument("--again", action="store_true", help="run what has passed before, too")
    parser.add_argument("--budget", type=float, default=560.0, help="seconds of this call")
    parser.add_argument("--repeats", type=int, default=15, help="bench: interleaved repeats")
    parser.add_argument("--size", type=float, default=1.0, help="train, overlap: share of the graphs' nodes")
    parser.add_argument("--epochs", type=int, default=8, help="train: epochs of each run, at least 3")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--systems", nargs="+", help="default: all for train, those with stages for overlap")
    parser.add_argument("--graphs", nargs="+", default=["ogbn-products", "reddit"], help="whose shapes")
    parser.add_argument(
        "--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the parts train and overlap"
    )
    given = parser.parse_args()
    if given.epochs < 3:
        parser.error(f"epochs must be at least 3, because two warm up, got {given.epochs}")
    if not 0 < given.size <= 1:
        parser.error(f"size must lie in (0, 1], got {given.size}")
    if given.device == "cpu" and not (given.part and set(given.part) <= {"train", "overlap"}):
        parser.error("device cpu is for the parts train and overlap; add --part train")
    return given


def main() -> int:
    given = parse()
    if given.device == "cuda" and gpus() == 0:
        print("run_gpu: PyTorch must see a CUDA device, got none; run this where there is one", file=sys.stderr)
        return 2
    work = Pass(given)
    failed = []
    for name in given.part or PARTS:
        if work.done(name):
            print(f"== {name}: passed before", flush=True)
            continue
        start = time.monotonic()
        run: Callable[[], bool] = getattr(work, name)
        try:
            passed = run()
        except OutOfTime:
            print(f"== {name}: not finished in {given.budget:.0f} s; call it again to go on", flush=True)
            return 3
        print(f"== {name}: {'passed' if passed else 'failed'} in {time.monotonic() - start:.0f} s", flush=True)
        if not passed:
            failed.append(name)
        elif given.device == "cuda" and name != "train":  # `train` stores its own rows
            work.note(name)
    print(f"failed: {', '.join(failed)}" if failed else "all passed", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
