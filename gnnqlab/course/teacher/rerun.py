"""Run code that a student handed in once more, in a process of its own, with a time limit.

The process has all rights of the teacher: run it in a container, as Gradescope does, or after reading the code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import io
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from gnnqlab.course import graded
from gnnqlab.course.student.code import CODE

__all__ = ["main", "rerun"]

_SETTINGS: Mapping[str, Mapping[str, int]] = {"20.policy": {"bits": 4}, "20.codec": {"most": 20}}
_ARGUMENTS: Mapping[str, tuple[int, ...]] = {"20.codec": (2,)}


def rerun(name: str, source: str, *, limit_s: float = 300) -> tuple[bool, str]:
    """Return True if the code passes its grader, and the grader's last line.

    Args:
        name: key of `CODE`.
        source: its source, as it was handed in.
        limit_s: seconds after which the process is ended.
    """
    with tempfile.TemporaryDirectory() as runs:
        try:
            done = subprocess.run(
                [sys.executable, "-m", "gnnqlab.course.teacher.rerun", name],
                input=source,
                capture_output=True,
                text=True,
                timeout=limit_s,
                env={**os.environ, "GNNQLAB_RUNS": runs},
                cwd=runs,
            )
        except subprocess.TimeoutExpired:
            return False, f"ended after {limit_s:g} s"
    lines = (done.stdout or done.stderr).strip().splitlines()
    return done.returncode == 0, lines[-1] if lines else "no output"


def main(name: str, source: str) -> int:
    """Grade one source; print the grader's reply; return 0 if it passes."""
    answer = _last_defined(source)
    if answer is None:
        print("Not yet: the source defines no function and no class.")
        return 1
    if isinstance(answer, type):
        answer = answer()  # a policy or a codec is a value
    grade: Callable[..., bool] = getattr(graded, CODE[name])
    return 0 if grade(answer, *_ARGUMENTS.get(name, ()), **_SETTINGS.get(name, {})) else 1


def _last_defined(source: str) -> Any:
    """Return the last function or class that a source defines, with the names that notebooks have imported."""
    import dataclasses
    import math

    import numpy as np
    import torch

    gq = importlib.import_module("gnnqlab")
    known = {"gq": gq, "math": math, "np": np, "torch": torch, "dataclass": dataclasses.dataclass}
    names: dict[str, Any] = {**known, "__name__": "handed_in"}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(compile(source, "<handed in>", "exec"), names)
    defined = [each for name, each in names.items() if name not in known and not name.startswith("__")]
    own = [each for each in defined if callable(each) and not isinstance(each, functools.partial)]
    return own[-1] if own else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.stdin.read()))
