"""Calibrate a link: find the rate at which Vanilla spends a given share of its epoch communicating (AdaQP Table 1).

The share is measured by short Vanilla runs on the hosts of the training, because on emulated hosts the link takes
processor time as well. The first run, without a link, measures computing time and bytes for the first estimate.
"""

from __future__ import annotations

import dataclasses
import math
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from gnnqlab.launch.guarded import begin
from gnnqlab.systems.registry import make_system
from gnnqlab.terminal import show_elapsed
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.link import link_name, parse_link

__all__ = [
    "Calibration",
    "LinkTrial",
    "calibrate",
    "first_rate",
    "next_rate",
    "search",
    "estimate_host_bytes",
    "resolve_comm_share",
]

_TOLERANCE = 0.01  # of the share: one percentage point
_TRIES = 4
_EPOCHS = (5, 60)
_TRIAL_S = 3.0
"""Duration of a trial, which determines its number of epochs within the bounds above."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class LinkTrial:
    """Result of one short Vanilla run."""

    link: str
    """Rate of the link."""
    share: float
    """Median communication time divided by median epoch time."""
    epoch_s: float
    """Median epoch time."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Calibration:
    """Target and trials of a calibration."""

    target_share: float
    """Target share of communication in Vanilla's epoch."""
    trials: tuple[LinkTrial, ...]
    """All trials, in order."""

    @property
    def best(self) -> LinkTrial:
        """Trial closest to the target."""
        return min(self.trials, key=lambda trial: abs(trial.share - self.target_share))


def first_rate(num_bytes: float, compute_s: float, share: float) -> float:
    """Return the bits per second at which ``num_bytes`` take ``share`` of an epoch that computes for ``compute_s``.

    ``share = t / (t + compute_s)``, so the bytes must take ``t = share / (1 - share) * compute_s``.

    Example:
        >>> round(first_rate(3e6, 0.1, 0.75))  # three quarters of the epoch: 0.3 s
        80000000
    """
    return 8 * num_bytes / (share / (1 - share) * compute_s)


def next_rate(rate: float, share: float, target_share: float) -> float:
    """Return an improved rate, given the ``share`` at ``rate``, for communication time proportional to 1 / rate.

    Example:
        >>> round(next_rate(80e6, 0.8, 0.75))  # 4 to 1, should be 3 to 1
        106666667
    """
    return rate * (share / (1 - share)) / (target_share / (1 - target_share))


def search(measure: Callable[[str], LinkTrial], rate: float, target_share: float) -> Calibration:
    """Try at most four links, until the share of one is within one percentage point of the target.

    Args:
        measure: trains Vanilla over a link of the given name.
        rate: bits per second of the first link.
        target_share: target share of the epoch.
    """
    trials: list[LinkTrial] = []
    for _ in range(_TRIES):
        link = link_name(rate)
        if any(trial.link == link for trial in trials):
            break  # the limit of a link's range, or of its three digits, is reached
        trials.append(measure(link))
        # A share of 0 or 1 would make the next rate 0 or infinite.
        share = min(max(trials[-1].share, 0.001), 0.999)
        if abs(share - target_share) <= _TOLERANCE:
            break
        rate = next_rate(parse_link(link), share, target_share)
    return Calibration(target_share=target_share, trials=tuple(trials))


def calibrate(config: RunConfig) -> Calibration:
    """Find the link for ``config.launch.comm_share`` by at most five short runs.

    Raises:
        WorkerFailed: if one of them fails.
    """
    target_share = config.launch.comm_share
    assert target_share is not None and config.launch.hosts is not None
    # Without a link: seconds of computing, and bytes, from which the first rate is estimated.
    summary = _vanilla(config, epochs=_EPOCHS[0], hosts=1, link=None)
    compute_s = max(summary["epoch_s"] - summary["comm_s"], 1e-4)  # positive, since the first rate divides by it
    host_bytes = estimate_host_bytes(
        summary["bytes_sent"], summary["bytes_gradients"], config.workers, config.launch.hosts
    )
    min_epochs, max_epochs = _EPOCHS
    # An epoch is expected to take compute_s / (1 - target_share).
    epochs = min(max(math.ceil(_TRIAL_S * (1 - target_share) / compute_s), min_epochs), max_epochs)

    def measure(link: str) -> LinkTrial:
        result = _vanilla(config, epochs=epochs, hosts=config.launch.hosts, link=link)
        trial = LinkTrial(link=link, share=result["comm_s"] / result["epoch_s"], epoch_s=result["epoch_s"])
        print(
            f"calibrating the link: at {link} Vanilla communicates {100 * trial.share:.1f} % of its epoch "
            f"(target {100 * target_share:g} %)",
            file=sys.stderr,
            flush=True,
        )
        return trial

    return search(measure, first_rate(host_bytes, compute_s, target_share), target_share)


def resolve_comm_share(configs: Sequence[RunConfig]) -> list[RunConfig]:
    """Return the configurations with a link in place of ``comm_share``, calibrated for the first one, same for all."""
    if configs[0].launch.comm_share is None:
        return list(configs)
    best_trial = calibrate(configs[0]).best
    return [
        _with_launch_settings(config, link=best_trial.link, comm_share=None, vanilla_share=round(best_trial.share, 4))
        for config in configs
    ]


def estimate_host_bytes(messages: float, gradients: float, workers: int, hosts: int) -> float:
    """Estimate the bytes that a host sends to others per epoch: its share of all messages and of a ring all-reduce."""
    # P - P / H of the P - 1 peers of a worker are on other hosts (P workers, H hosts).
    to_others = (workers - workers / hosts) / (workers - 1)
    # A ring all-reduce sends 2 (P - 1) / P of the buffer over each edge of the ring; one edge leaves each host.
    return messages * to_others / hosts + 2 * (workers - 1) / workers * gradients


@show_elapsed("calibrating the link by a short run of Vanilla")
def _vanilla(config: RunConfig, *, epochs: int, **launch: Any) -> dict[str, Any]:
    """Return the summary of a short Vanilla run with the graph, model, partition and exchange of a configuration."""
    # Vertex-cuts and block partitions work only with their own exchange.
    partition, exchange = config.system.partition.fixed(), config.system.exchange  # Vanilla needs one partition
    system = dataclasses.replace(make_system("vanilla"), partition=partition, exchange=exchange)
    train = dataclasses.replace(config.train, epochs=epochs, evaluate_every=0)
    run_config = dataclasses.replace(config, system=system, train=train)
    run_config = _with_launch_settings(run_config, comm_share=None, vanilla_share=None, detach=False, **launch)
    with (
        tempfile.TemporaryDirectory(prefix="gnnqlab-") as root,
        begin(run_config, root=root) as run,  # its end waits for the guard, so that no process disturbs the next trial
    ):
        gradients = run.wait().records["bytes_gradients"].max()
        return {**run.summary, "bytes_gradients": int(gradients)}


def _with_launch_settings(config: RunConfig, **launch: Any) -> RunConfig:
    return dataclasses.replace(config, launch=dataclasses.replace(config.launch, **launch))
