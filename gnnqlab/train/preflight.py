"""Whether a run can be at all: a node for each worker, and less memory than is free."""

from __future__ import annotations

from pathlib import Path

from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.nn.models.registry import is_stacked
from gnnqlab.train.config.run_config import RunConfig

__all__ = ["require_memory", "free_bytes", "min_memory"]

_CGROUP = Path("/sys/fs/cgroup")


def min_memory(config: RunConfig) -> dict[str, int] | None:
    """Return bytes by purpose that all workers of a run together hold at once, at least; ``None`` if nobody knows.

    Of N nodes, E stored edges, F features, L layers of h columns and P workers: ``weights 16 P (F h + (L - 2) h^2)``,
    which are weights, gradients and two averages of Adam in float32; ``features 4 N F``; ``adjacency 4 E``; ``kept
    4 N h (L - 1)``, a row of every hidden layer for the backward pass, one layer less where rows are made again. Rows
    of other workers, buffers of messages, the optimizer's and the kernels' own come on top, so that no run that could
    train is refused. Models and products that have not said what they keep count nothing for it.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> min_memory(configure("rmat:20,16", layers=3, hidden=256, workers=2))["kept"]
        2147483648
    """
    size, model = least_size(config.graph), config.model
    if size is None:
        return None
    stacked = is_stacked(model.name) and model.layers > 1
    numbers = size.features * model.hidden + (model.layers - 2) * model.hidden**2 if stacked else 0
    kept = config.system.compute.kept_bytes if stacked else 0
    layers = model.layers - (1 if config.train.keep_for_backward == "all" else 2)
    return {
        "weights": 16 * config.workers * numbers,
        "features": size.feature_bytes,
        "adjacency": 4 * size.edges,
        "kept": int(kept * size.nodes * model.hidden * layers),
    }


def require_memory(config: RunConfig) -> None:
    """Refuse a run with more workers than nodes, and one that cannot fit into the memory of this machine or its GPUs.

    Graphs whose size only loading would tell are refused later, by whoever cuts them.

    Raises:
        ValueError: with how many nodes there are, or with what it takes at least, purpose by purpose.
    """
    size = least_size(config.graph)
    if size is not None and config.workers > size.nodes:
        raise ValueError(
            f"each worker must have a node, got {config.workers} workers for {size.nodes} nodes of {config.graph}; "
            "choose fewer workers"
        )
    least, free = min_memory(config), free_bytes(config.launch.device, config.workers)
    if least is None or free is None or sum(least.values()) <= free:
        return
    table = ", ".join(f"{purpose} {size / 1e9:.1f} GB" for purpose, size in least.items())
    raise ValueError(
        f"a run must fit into memory, got {sum(least.values()) / 1e9:.1f} GB at least for {config.workers} workers "
        f"({table}) where {free / 1e9:.1f} GB are free; choose fewer layers or hidden columns, the "
        "part exact of compute, keep_for_backward 'sums', or more machines"
    )


def free_bytes(device: str, workers: int) -> int | None:
    """Return the bytes that new processes may take together; ``None`` where the system does not say.

    On a CPU the smaller of what the system has available and what a control group leaves; on GPUs what is free on as
    many as the workers use.

    Example:
        >>> free_bytes("cpu", 2) is None or free_bytes("cpu", 2) > 0
        True
    """
    if device == "cuda":
        import torch

        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(min(workers, torch.cuda.device_count())))
    return _least(_available(), _left_in_group(_CGROUP))


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _left_in_group(root: Path) -> int | None:
    """What the limit of a container leaves; files that the system caches for it could be dropped, so they are free."""
    for limit, used, cached in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            most, now = (root / limit).read_text().strip(), int((root / used).read_text())
            told = (root / limit).with_name("memory.stat").read_text()
        except (OSError, ValueError):
            continue
        if not most.isdigit():
            return None  # "max": no limit
        stat = dict(line.split() for line in told.splitlines())
        return max(0, int(most) - now + int(stat.get(cached, 0)))
    return None


def _least(*sizes: int | None) -> int | None:
    known = [size for size in sizes if size is not None]
    return min(known) if known else None
