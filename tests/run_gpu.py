"""`make gpu`: everything that needs a GPU, in one call on the machine that has one.

Builds the kernels with the nvcc at hand into gnnqlab/kernels/_lib, runs the tests marked gpu and those of what the CUDA
compiler reports, the kernels' tests under compute-sanitizer where it is installed, and `gnnqlab bench gpu`, whose JSON
goes to the folder given by --out. It needs PyTorch with CUDA and pytest; DGL, another Python or another PyTorch do not
matter. Each step runs even if an earlier one failed; the exit code is 0 only if all passed, 2 where there is no GPU.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parent.parent
CHECKS = ("memcheck", "racecheck", "initcheck")


def build() -> bool:
    folder = ROOT / "build" / "gpu"
    ninja = ["-G", "Ninja"] if shutil.which("ninja") else []
    return (
        run(["cmake", "-S", "cuda_ext", "-B", str(folder), *ninja, "-DCMAKE_BUILD_TYPE=Release"])
        and run(["cmake", "--build", str(folder), "--parallel"])
        and run(["cmake", "--install", str(folder), "--prefix", str(ROOT)])
    )


def tests() -> bool:
    return run([sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests"]) and run(
        [sys.executable, "-m", "pytest", "-q", "tests/kernels/test_cuda_compiled.py"]
    )


def sanitized() -> bool:
    tool = shutil.which("compute-sanitizer")
    if tool is None:
        print("compute-sanitizer is not installed: left out", file=sys.stderr)
        return True
    # Its own allocator, so that an access beyond a tensor is one beyond an allocation.
    environment = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
    pytest = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-x", "-o", "timeout=3000"]
    narrow = ["tests/kernels/test_gpu.py", "-k", "not current_stream"]  # the tool makes every launch wait
    results = [run([tool, "--tool", check, "--error-exitcode", "9", *pytest, *narrow], environment) for check in CHECKS]
    return all(results)


def benchmark(out: Path, repeats: int) -> bool:
    out.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "gnnqlab.cli", "bench", "gpu", "--json", "--repeats", str(repeats)]
    print("$", *command, flush=True)
    done = subprocess.run(command, cwd=ROOT, env=environment_of({}), stdout=subprocess.PIPE, text=True)
    (out / "bench_gpu.json").write_text(done.stdout.splitlines()[-1] + "\n" if done.stdout else "")
    print(done.stdout, flush=True)
    return done.returncode == 0


def run(command: list[str], environment: dict[str, str] | None = None) -> bool:
    print("$", *command, flush=True)
    return subprocess.run(command, cwd=ROOT, env=environment_of(environment or {})).returncode == 0


def environment_of(more: dict[str, str]) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), **more}


def has_gpu() -> bool:
    import torch

    return torch.cuda.is_available()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "runs" / "gpu", help="folder for the measured tables")
    parser.add_argument("--repeats", type=int, default=15, help="interleaved repeats of the benchmark")
    parser.add_argument("--steps", default="build,tests,sanitized,benchmark", help="which of them, separated by commas")
    given = parser.parse_args()
    steps: dict[str, Callable[[], bool]] = {
        "build": build,
        "tests": tests,
        "sanitized": sanitized,
        "benchmark": lambda: benchmark(given.out, given.repeats),
    }
    chosen = given.steps.split(",")
    unknown = [name for name in chosen if name not in steps]
    if unknown:
        parser.error(f"steps must be of {','.join(steps)}, got {','.join(unknown)}")
    if not has_gpu():
        print("run_gpu: PyTorch must see a CUDA device, got none; run this where there is one", file=sys.stderr)
        return 2
    failed = []
    for name in chosen:
        start = time.monotonic()
        passed = steps[name]()
        print(f"== {name}: {'passed' if passed else 'failed'} in {time.monotonic() - start:.0f} s", flush=True)
        failed += [] if passed else [name]
    print(f"{'failed: ' + ', '.join(failed) if failed else 'all passed'}", flush=True)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
