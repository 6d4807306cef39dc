"""Preflight checks of a run: at least one node per worker, and enough free memory."""

from __future__ import annotations

from pathlib import Path

from gnnqlab.graph.sources.sizes import least_size
from gnnqlab.nn.models.registry import is_stacked
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.node_features import num_features
from gnnqlab.train.processors import group_folders
from gnnqlab.units import human_bytes

__all__ = ["require_memory", "free_bytes", "min_memory"]

_CGROUP, _MEMBERSHIP = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")


def min_memory(config: RunConfig) -> dict[str, int] | None:
    """Return a lower bound on the bytes of all workers of a run together, by purpose; ``None`` if the size is unknown.

    For N nodes, E stored edges, F features, L layers of dimension h and P workers: ``weights 16 P (F h + (L - 2) h^2)``
    for weights, gradients and two moments of Adam in float32; ``features 4 N F``; ``adjacency 4 E``; ``kept
    4 N h (L - 1)``, embeddings of hidden layers saved for backward, one layer less with recomputation. Halo rows,
    message buffers and workspaces come on top: the bound is low, so no run that fits is refused. Models and matrix
    products that do not declare their saved activations count 0 bytes.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> min_memory(configure("rmat:20,16", layers=3, hidden=256, workers=2))["kept"]
        2147483648
    """
    size, model = least_size(config.graph), config.model
    if size is None:
        return None
    is_stack = is_stacked(model.name) and model.layers > 1
    # A lower bound: without biases, norms and the last layer.
    features = num_features(size.features, config.task.node_features, config.model.hidden)
    numbers = features * model.hidden + (model.layers - 2) * model.hidden**2 if is_stack else 0
    saved_bytes = config.system.compute.kept_bytes if is_stack else 0
    # One hidden embedding less than layers; recomputation drops another one.
    layers = model.layers - (1 if config.train.recompute == "none" else 2)
    return {
        "weights": 16 * config.workers * numbers,
        "features": size.feature_bytes if config.task.node_features == "given" else 4 * size.nodes * features,
        "adjacency": 4 * size.edges,
        "kept": int(saved_bytes * size.nodes * model.hidden * layers),
    }


def require_memory(config: RunConfig) -> None:
    """Raise if a run has more workers than nodes, or cannot fit into the memory of this machine or its GPUs.

    Graphs whose size is known only after loading are checked later, by the partitioner.

    Raises:
        ValueError: with the number of nodes, or with the least memory of each purpose.
    """
    size = least_size(config.graph)
    if size is not None and config.workers > size.nodes:
        raise ValueError(
            f"each worker must own a node, got {config.workers} workers for {size.nodes} nodes of "
            f"{Path(config.graph).name}; choose fewer workers"
        )
    min_sizes, free_memory = min_memory(config), free_bytes(config.launch.device, config.workers)
    if min_sizes is None or free_memory is None or sum(min_sizes.values()) <= free_memory:
        return
    table = ", ".join(f"{purpose} {human_bytes(size)}" for purpose, size in min_sizes.items())
    raise ValueError(
        f"a run must fit into memory, got at least {human_bytes(sum(min_sizes.values()))} for {config.workers} workers "
        f"({table}) where {human_bytes(free_memory)} are free; choose fewer layers or hidden columns, the "
        "part exact of compute, recompute 'selective', or more machines"
    )


def free_bytes(device: str, workers: int) -> int | None:
    """Return the bytes that new processes can allocate together; ``None`` if the system does not report them.

    On a CPU the smaller of the system's available memory and the rest of the control group's limit; on GPUs the free
    memory of those that the workers use.

    Example:
        >>> free_bytes("cpu", 2) is None or free_bytes("cpu", 2) > 0
        True
    """
    if device == "cuda":
        import torch

        return sum(torch.cuda.mem_get_info(gpu)[0] for gpu in range(min(workers, torch.cuda.device_count())))
    # In a container, the limit of its group can be far below the free memory of the machine.
    return _minimum(_available(), _left_in_groups(_CGROUP, _MEMBERSHIP))


def _available() -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    fields = dict(line.split(":", 1) for line in lines if ":" in line)
    return int(fields["MemAvailable"].split()[0]) * 1024 if "MemAvailable" in fields else None


def _left_in_groups(root: Path, membership: Path) -> int | None:
    """Return the rest of a container's memory limit; its page cache counts as free, because the kernel can drop it."""
    # A job of a queue has a group of its own below the root; version 1 has a folder for memory.
    groups = [folder for base in (root, root / "memory") for folder in group_folders(base, membership, "memory")]
    return _minimum(*map(_left_in, groups))


def _left_in(group: Path) -> int | None:
    # Control groups of version 2, then of version 1.
    for limit, used_name, cached_name in (
        ("memory.max", "memory.current", "inactive_file"),
        ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
    ):
        try:
            limit_text, used_bytes = (group / limit).read_text().strip(), int((group / used_name).read_text())
            stat_lines = (group / "memory.stat").read_text().splitlines()
        except (OSError, ValueError):
            continue
        if not limit_text.isdigit():
            return None  # "max": no limit
        stat = dict(line.split() for line in stat_lines)
        return max(0, int(limit_text) - used_bytes + int(stat.get(cached_name, 0)))
    return None


def _minimum(*sizes: int | None) -> int | None:
    known_sizes = [size for size in sizes if size is not None]
    return min(known_sizes) if known_sizes else None
