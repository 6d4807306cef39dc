"""The parts of an epoch compared with their limits (defined in ``course/experiments/limits.py``).

One worker trains Vanilla, two train AdaQP over a paced link, with one thread each, to exclude contention of threads.
The rates of the limits are measured by the same workers right after their last epoch, at the same time, so that they
share memory and caches as in training. An aggregation reads a row for every edge; its limit reads each row once. The
part of the wire is the waiting time of the workers, its limit all bytes over the rate: with overlap the part may be
less than the limit, which shows the hidden share, not the speed of the transfer.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.engine.graphs import find_graph
from benchmarks.engine.rows import require_among, row
from benchmarks.studies.throughput import MODELS as SHAPES
from gnnqlab.course.experiments.limits import EPOCH, OTHER, PARTS

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.run.run import Run
    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.heartbeat import Heartbeat

__all__ = ["fit_counted", "limits", "format_rows", "table"]

GRAPHS = ("sbm:40000,16,50", "rmat:15,24", "amazon_computers")
MODELS = ("gcn", "graphsage", "gcnii")
SYSTEMS = {1: "vanilla", 2: "adaqp"}
"""Workers -> system."""
LINK = "1gbit"
SETTLING = 3
"""Number of excluded first epochs, with set-up and AdaQP's first assignment."""
_LEAST, _REPEATS = "least-rank{}.json", "repeats.json"
_LIMIT = "limit"


def limits(
    repeats: int = 7,
    *,
    graph: str | None = None,
    models: Sequence[str] = MODELS,
    workers: tuple[int, ...] = tuple(SYSTEMS),
    hidden: int | None = None,
    link: str = LINK,
    epochs: int = 15,
) -> list[dict[str, Any]]:
    """Measure every graph, model and number of workers.

    Args:
        repeats: repeats of each rate, of which the best counts.
        graph: names or paths, separated by semicolons; by default `GRAPHS`, without missing ones.
        models: names of models without attention, in the shapes of ``gnnqlab bench throughput``.
        workers: numbers of workers, 1 and 2.
        hidden: columns of hidden layers; by default those of these shapes.
        link: rate of the paced link between two workers.
        epochs: epochs of each run; medians exclude the first three.

    Returns:
        Rows, see :func:`benchmarks.registry.measure`, one per part and one for the epoch, in ms; the ratio is limit
        over measured, 1 at the limit.

    Raises:
        ValueError: if a model has attention or is unknown, a number of workers is another, or there are too few epochs.
    """
    from gnnqlab.graph.sources import load
    from gnnqlab.train.config.configure import configure

    require_among("models", models, [name for name in SHAPES if name != "gat"])  # those whose work is counted
    require_among("workers", workers, SYSTEMS)
    if epochs <= SETTLING:
        raise ValueError(f"epochs must be at least {SETTLING + 1}, the first {SETTLING} do not count, got {epochs}")
    rows = []
    for name in graph.split(";") if graph else GRAPHS:
        path = find_graph(name) or (name if Path(name).exists() else None)
        if path is None:
            print(f"bench limits: {name}.npz is missing, so its rows are omitted", flush=True)
            continue
        loaded_graph = load(path)
        for model in models:
            for number in workers:
                link_settings: dict[str, Any] = {} if number == 1 else {"hosts": number, "link": link, "wire": "paced"}
                shape = SHAPES[model] if hidden is None else {**SHAPES[model], "hidden": hidden}
                config = configure(
                    loaded_graph, model=model, system=SYSTEMS[number], workers=number, epochs=epochs, evaluate_every=0,
                    threads_per_worker=1, **link_settings, **shape,
                )  # fmt: skip
                rows += _measure_limits(Path(path).stem if path.endswith(".npz") else path, config, repeats)
    return rows


def table(case: str, found: pd.DataFrame) -> list[dict[str, Any]]:
    """Return the rows of :func:`gnnqlab.course.experiments.limits.limits_table`."""
    rows = []
    for part, line in found.iterrows():
        measured_ms, limit_ms = float(line["measured (ms)"]), float(line["limit (ms)"])
        if part == OTHER:
            rows.append(row(case, str(part), measured_ms, "ms", "", None, None))
        else:
            rows.append(row(case, str(part), measured_ms, "ms", _LIMIT, limit_ms, limit_ms / measured_ms))
    return rows


def format_rows(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return the table as formatted text: each part with its limit, and its share of the epoch."""
    epochs = {entry["case"]: entry["value"] for entry in rows if entry["figure"] == EPOCH}
    return [
        {
            "case": entry["case"],
            "part": entry["figure"],
            "measured (ms)": f"{entry['value']:.4g}",
            "limit (ms)": "none" if entry["rival_value"] is None else f"{entry['rival_value']:.4g}",
            "measured / limit": "" if entry["ratio"] is None else f"{1 / entry['ratio']:.2f}",
            "share": f"{100 * entry['value'] / epochs[entry['case']]:.1f} %",
        }
        for entry in rows
    ]


def _measure_limits(name: str, config: RunConfig, repeats: int) -> list[dict[str, Any]]:
    from gnnqlab.launch.local import launch

    def prepare(folder: Path) -> None:
        (folder / _REPEATS).write_text(json.dumps(repeats))

    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        fit = f"{__name__}:fit_counted"
        with launch(config, root=root, prepare=prepare, fit=fit) as run:  # leaving it waits until the machine is idle
            part_limits, label = _with_limits(run.wait(), config), run.summary["link"]
    suffix = f" over {label}" if config.workers > 1 else ""
    shape = f"{config.model.name} {config.model.layers} x {config.model.hidden}"
    return table(f"{name}, {shape}, {config.workers} worker(s), {config.system.name}{suffix}", part_limits)


def _with_limits(run: Run, config: RunConfig) -> pd.DataFrame:
    """Return the parts of a run's epoch with their limits: means over workers, medians over epochs."""
    import pandas as pd

    from gnnqlab.course.experiments.limits import limits_table
    from gnnqlab.launch.calibrate import estimate_host_bytes

    records, summary = run.records, run.summary
    settled_records = records[records["epoch"] >= SETTLING]
    phases = sorted({phase for part in PARTS.values() for phase in part} | {EPOCH})
    means = settled_records.groupby("epoch")[[f"{phase}_s" for phase in phases]].mean().median()
    # Each worker has measured its own least seconds and written them to a file of the run.
    least_seconds = pd.DataFrame(
        [json.loads((run.folder / _LEAST.format(rank)).read_text()) for rank in range(config.workers)]
    )
    wire_s = 0.0
    if rate := summary.get("link_bytes_per_s"):
        sent_bytes = (
            settled_records.groupby("epoch")[["bytes_payload", "bytes_params", "bytes_headers"]]
            .sum()
            .sum(axis=1)
            .median()
        )
        wire_s = (
            estimate_host_bytes(sent_bytes, records["bytes_gradients"].max(), config.workers, summary["hosts"]) / rate
        )
    return limits_table(
        {phase: float(means[f"{phase}_s"]) for phase in phases},
        {str(part): float(each) for part, each in least_seconds.mean().items()},
        wire_s=wire_s,
        overlapped=config.workers > 1,
    )


# -- in the workers -------------------------------------------------------------------------------------------------


def fit_counted(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train with counted products, then write the least seconds of an epoch's parts, at rates measured here."""
    import torch.distributed as dist

    from gnnqlab.course.experiments.counted import Work, count
    from gnnqlab.course.experiments.limits import Rates, coded_bytes, least_s
    from gnnqlab.train.loop.fit import fit
    from gnnqlab.train.loop.trainer import Trainer

    pairs: list[tuple[Trainer, Work]] = []
    fit(config, folder, rank, workers, heartbeat, watch=lambda trainer: pairs.append((trainer, count(trainer))))
    [(trainer, work)] = pairs
    rates = Rates(repeats=json.loads((folder / _REPEATS).read_text()))
    if workers > 1:
        dist.barrier()  # measure rates at the same time, so that workers share memory bandwidth as in training
    least_seconds = least_s(work, rates, coded=coded_bytes(trainer))
    (folder / _LEAST.format(rank)).write_text(json.dumps(least_seconds))
