"""`make wheel`: build an sdist and a wheel made of it alone, set its platform's tag, and check both.

The tools (the group ``release`` of pyproject.toml) are installed in an environment of their own. The CPU kernels are
built for all instruction sets; the CUDA kernels with ``--cuda``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from tests.release.whole import problems_of_sdist, problems_of_wheel

ROOT = Path(__file__).parents[2]
# PyTorch includes it, and two runtimes in a process would compete for the cores.
OPENMP = "libgomp.so.1"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="where sdist and wheel go")
    parser.add_argument("--cuda", action="store_true", help="build the CUDA kernels too")
    parser.add_argument("--built", type=Path, help="check these files of an earlier call, and build nothing")
    chosen = parser.parse_args()
    if chosen.built is None:
        sdist, wheel = build(chosen.out, cuda=chosen.cuda)
    else:
        (sdist,), (wheel,) = (sorted(chosen.built.glob(kind)) for kind in ("*.tar.gz", "*.whl"))
    problems = [*problems_of_sdist(sdist), *problems_of_wheel(wheel, cuda=chosen.cuda), *starts(wheel)]
    for problem in problems:
        print(f"gnnqlab: {problem}", file=sys.stderr)
    print(f"{sdist}\n{wheel}\n{'NOT whole' if problems else 'whole'}")
    return int(bool(problems))


def build(out: Path, *, cuda: bool) -> tuple[Path, Path]:
    """Return the sdist and the wheel, checked by twine and with the widest tag that auditwheel grants."""
    out.mkdir(parents=True, exist_ok=True)
    tools = environment()
    with tempfile.TemporaryDirectory() as name:
        room = Path(name)
        options = ["--config-setting=cmake.define.GNNQLAB_CUDA=ON"] if cuda else []
        # Without --sdist or --wheel the wheel is made of the sdist, in an environment that has nothing else.
        run(tools / "python", "-m", "build", "--outdir", room, *options, ROOT)
        (sdist,), (raw,) = room.glob("*.tar.gz"), room.glob("*.whl")
        run(tools / "auditwheel", "repair", "--exclude", OPENMP, "--wheel-dir", room / "tagged", raw)
        (wheel,) = (room / "tagged").glob("*.whl")
        run(tools / "twine", "check", "--strict", sdist, wheel)
        return Path(shutil.copy(sdist, out)), Path(shutil.copy(wheel, out))


def environment() -> Path:
    """Return the folder of programs of an environment with the tools, which is made once."""
    group = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]["release"]
    folder = ROOT / "build" / "release"
    stamp = folder / "installed"
    if not stamp.is_file() or stamp.read_text() != "\n".join(group):
        venv.create(folder, clear=True, with_pip=True)
        run(folder / "bin" / "python", "-m", "pip", "install", "-q", *group)
        stamp.write_text("\n".join(group))
    return folder / "bin"


def starts(wheel: Path) -> list[str]:
    """Return the errors of the wheel when it is installed alone, outside of the checkout."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run(sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", folder, wheel)
        program = (
            # Without the finder of an editable installation, which would precede any folder.
            "import sys; from importlib.machinery import PathFinder\n"
            "sys.meta_path[:] = [finder for finder in sys.meta_path if isinstance(finder, type)]\n"
            f"assert PathFinder in sys.meta_path; sys.path.insert(0, {str(folder)!r}); from gnnqlab import cli\n"
            "from gnnqlab.kernels import native\n"
            f"assert native.__file__.startswith({str(folder)!r}), native.__file__\n"
            "assert native.status()['reason'] is None, native.status()\n"
            f"cli.main(['notebooks', {str(folder / 'course')!r}]); cli.main(['doctor'])"
        )
        done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True)
        return [] if done.returncode == 0 else [f"{wheel.name} does not start: {done.stderr or done.stdout}"]


def run(*words: str | Path) -> None:
    """Run a program; its output is written to standard error."""
    path = f"{Path(words[0]).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    subprocess.run(list(map(str, words)), check=True, stdout=sys.stderr, env={**os.environ, "PATH": path})


if __name__ == "__main__":
    sys.exit(main())
