"""Cost of a live view for a run: epochs of one run with and without the view, in blocks of random order.

The view runs in the kernel of a notebook, as for a user, and sends every message to the front end; no browser draws
them here. Without Jupyter it runs in this process.
"""

from __future__ import annotations

import importlib.util
import json
import random
import statistics
import tempfile
import threading
import time
from typing import Any

import numpy as np

from benchmarks.engine.rows import row

__all__ = ["alternate", "live"]

GRAPH = "sbm:20000,8,20"
BLOCK_S = 6.0
GOAL = 1 / 1.01
_SETTLED = 5
"""Epochs before the first block."""


def live(repeats: int = 8) -> list[dict[str, Any]]:
    """Measure epochs of one run on two workers with and without a live view.

    Args:
        repeats: pairs of blocks of 6 s, one with the view and one without.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`.
    """
    kernel = all(importlib.util.find_spec(name) is not None for name in ("jupyter_client", "ipykernel"))
    measurements = _in_kernel(repeats) if kernel else alternate(repeats)
    watched_s, unwatched_s = measurements["epoch_s"]["with"], measurements["epoch_s"]["without"]
    ratios = [rival_s / epoch_s for epoch_s, rival_s in zip(watched_s, unwatched_s, strict=True)]
    shares = {name: statistics.median(measurements["process"][name]) for name in ("with", "without")}
    case = f"{GRAPH}, adaqp, two workers, view in {'a kernel' if kernel else 'this process'}"
    return [
        row(
            case,
            "median epoch while watched",
            statistics.median(watched_s),
            "s",
            "the same run unwatched",
            statistics.median(unwatched_s),
            statistics.median(ratios),
            GOAL,
            detail=f" (of {repeats} pairs of blocks: {min(ratios):.3f} to {max(ratios):.3f})",
        ),
        row(
            case,
            "processor time of the watching process",
            100 * shares["with"],
            "% of one core",
            "the same process without a view",
            100 * shares["without"],
            None,
        ),
    ]


def alternate(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Open a live view of a run in one block of each pair, in random order.

    Returns:
        ``epoch_s`` and ``process``, each with lists ``with`` and ``without``, one value per block: median seconds of an
        epoch on the slowest worker, and processor seconds of this process per second.
    """
    from gnnqlab.launch.local import launch
    from gnnqlab.train.config.configure import configure

    draw = random.Random(0)
    blocks: list[tuple[str, int, int]] = []
    process: dict[str, list[float]] = {"with": [], "without": []}
    with tempfile.TemporaryDirectory() as root:
        config = configure(GRAPH, system="adaqp", workers=2, epochs=1_000_000)
        with launch(config, root=root) as run:
            while run.epoch < _SETTLED:
                if run.status not in ("starting", "running"):
                    raise RuntimeError(f"the run to watch must train, got status {run.status}: {run.cause}")
                time.sleep(0.1)
            for _ in range(repeats):
                for name in draw.sample(("with", "without"), 2):
                    view = run.live() if name == "with" else None
                    if view is not None:
                        view.panel.access.shown = (
                            True  # open it as a page would; this cost occurs once and is not measured
                        )
                        time.sleep(1.0)
                    start_s, cpu_start_s, first_epoch = time.monotonic(), time.process_time(), run.epoch + 1
                    time.sleep(BLOCK_S)
                    blocks.append((name, first_epoch, run.epoch))
                    process[name].append((time.process_time() - cpu_start_s) / (time.monotonic() - start_s))
                    if view is not None:  # its thread must end, or it would run in the next block
                        view.close()
                        _wait_for_threads()
        records = run.records
    slowest_s = records.groupby("epoch")["epoch_s"].max()
    epoch_s: dict[str, list[float]] = {"with": [], "without": []}
    for name, first_epoch, end in blocks:
        epoch_s[name].append(float(np.median(slowest_s[(slowest_s.index >= first_epoch) & (slowest_s.index < end)])))
    return {"epoch_s": epoch_s, "process": process}


def _wait_for_threads() -> None:
    """Wait until the thread of the closed view has ended."""
    deadline = time.monotonic() + 10
    while any(thread.name.startswith("gnnqlab") for thread in threading.enumerate()) and time.monotonic() < deadline:
        time.sleep(0.1)


def _in_kernel(repeats: int) -> dict[str, dict[str, list[float]]]:
    """Call :func:`alternate` in a Jupyter kernel."""
    from jupyter_client.manager import start_new_kernel

    output: list[str] = []

    def collect(message: dict[str, Any]) -> None:
        if message["header"]["msg_type"] in ("stream", "error"):
            content = message["content"]
            output.append(content.get("text") or "\n".join(content.get("traceback", [])))

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        code = f"import json\nfrom benchmarks.studies.live import alternate\nprint(json.dumps(alternate({repeats})))"
        reply = client.execute_interactive(code, timeout=None, output_hook=collect)
    finally:
        client.stop_channels()
        manager.shutdown_kernel()
    if reply["content"]["status"] != "ok":
        raise RuntimeError(f"a kernel must be able to watch a run, got {''.join(output)}")
    answer = [line for line in "".join(output).splitlines() if line.startswith("{")]  # skip the kernel's own messages
    results: dict[str, dict[str, list[float]]] = json.loads(answer[-1])
    return results
