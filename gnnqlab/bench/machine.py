"""The machine that measures: what of it decides a figure."""

from __future__ import annotations

import os
import platform
from typing import Any

__all__ = ["machine"]


def machine() -> dict[str, Any]:
    """Return what a reader needs to know about the machine that measured."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.train.memory import has_large_pages

    model = platform.processor()
    try:
        with open("/proc/cpuinfo") as file:
            model = next((line.partition(":")[2].strip() for line in file if line.startswith("model name")), model)
    except OSError:
        pass
    return {
        "processor": model,
        "cores": len(os.sched_getaffinity(0)),
        "instruction_set": native.status()["isa"] or "none",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "large_pages": has_large_pages(os.environ),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
    }
