"""Trainings without distribution, or with fewer workers, from the same probe.

One process has the processors of one host: on CPUs those of its workers, whose time it divides by their number; with a
GPU for each worker, one GPU. Nothing is sent. Fewer workers are whole hosts, see :mod:`gnnqlab.tune.at_scale`.
"""

from __future__ import annotations

from dataclasses import dataclass

from gnnqlab.tune.at_scale import at_scale
from gnnqlab.tune.probe import Probe
from gnnqlab.units import human_seconds

__all__ = ["Alternative", "list_alternatives"]


@dataclass(frozen=True, kw_only=True)
class Alternative:
    """Vanilla on fewer workers."""

    workers: int
    hosts: int
    epoch_s: float
    """Predicted seconds of an epoch."""

    def __str__(self) -> str:
        if self.workers == 1:
            return f"one process: {human_seconds(self.epoch_s)} an epoch"
        hosts = "one host" if self.hosts == 1 else f"{self.hosts} hosts"
        return f"Vanilla on {self.workers} workers, {hosts}: {human_seconds(self.epoch_s)} an epoch"


def list_alternatives(probe: Probe) -> list[Alternative]:
    """Return one process, and Vanilla on each smaller number of hosts, or on half of the workers of one host.

    Args:
        probe: of Vanilla on an edge-cut; for an estimate without traced epochs one process alone, since every other
            number of workers would need a cut of its own.
    """
    workers, hosts = probe.wire.workers, probe.wire.hosts
    per_host = workers // hosts
    # One process uses the threads of all workers of its host; a GPU is not divided.
    shared = per_host if probe.config.launch.device == "cpu" else 1
    if not probe.trace.losses:
        seconds = {name: workers * probe.trace.phases[name] for name in ("central", "marginal", "dense", "other")}
        alone_s = sum(seconds.values()) + probe.trace.phases["optimizer"]
        return [Alternative(workers=1, hosts=1, epoch_s=alone_s / shared)]
    counts = [per_host * count for count in range(1, hosts)] if hosts > 1 else [workers // 2]
    counts = sorted({1, *counts} - {0, workers})
    rows = at_scale(probe, {"vanilla": probe.config.system}, workers=counts, per_host=per_host)
    return [
        Alternative(
            workers=int(row.workers),
            hosts=int(row.hosts),
            epoch_s=float(row.epoch_s) / (shared if row.workers == 1 else 1),
        )
        for row in rows.itertuples(index=False)
    ]
