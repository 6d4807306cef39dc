"""Provenance of a result: properties of the machine that affect measurements, and versions of the package."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["machine", "package"]


def machine() -> dict[str, Any]:
    """Return processor, cores, versions and GPU of this machine."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.train.memory import has_large_pages
    from gnnqlab.train.processors import cpu_quota

    model = platform.processor()  # often empty on Linux
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "cpu_quota": cpu_quota(),
        "instruction_set": native.status()["isa"] or "none",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "large_pages": has_large_pages(os.environ),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }


def package() -> dict[str, str | None]:
    """Return the version of this package, its kernel backend, and its commit if it runs from a checkout.

    Example:
        >>> sorted(package())
        ['commit', 'kernels', 'version']
    """
    from gnnqlab.kernels import native

    version = sys.modules["gnnqlab"].__version__  # of the imported package, not of the installed one
    return {"version": version, "kernels": native.status()["backend"], "commit": _commit()}


def _commit() -> str | None:
    root = Path(__file__).parents[3]
    # An installed package may lie inside the repository of another project, whose commit would be wrong.
    if not (root / ".git").exists():
        return None
    try:
        command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=True).stdout.strip() or None
    except (OSError, subprocess.SubprocessError):
        return None
