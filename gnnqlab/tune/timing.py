"""Seconds of an epoch by phase, from two short launched runs: one with float32 rows, one with mixed bit-widths.

Threads of one process have other timings than launched workers, so these are normal runs, on the same link. Their
records give the time of computation, which is independent of bit-widths; of encoding and decoding, which is equal for
all quantized bit-widths; and, from two volumes, θ and γ of the link. Results are cached by configuration and machine.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import platform
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.atomic import write_text
from gnnqlab.launch.local import launch
from gnnqlab.partition.parts import cache_folder
from gnnqlab.run.run import Run
from gnnqlab.systems.registry import make_system
from gnnqlab.systems.system import System
from gnnqlab.terminal import show_elapsed
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.link import Link
from gnnqlab.train.processors import usable_processors
from gnnqlab.tune.wire import GOODPUT, Wire

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "PROBED",
    "probed_parts",
    "EpochTime",
    "Timing",
    "read_cached_timing",
    "measure_timing",
    "with_probed_parts",
    "read_epoch_time",
]

PROBED = ("partition", "exchange", "compute")
"""Axes whose parts are traced and timed: a probe is valid only for these parts."""

COMMUNICATION = ("wait", "post")
"""Phases that depend on the wire."""
_COMPUTED = ("central", "marginal", "dense", "optimizer", "other")
"""Phases that do not depend on messages."""
_OCCASIONAL = ("evaluate", "assign")
"""Phases that are not part of a typical training epoch."""
_WARM_UP = 3
"""First epochs, which include set-up."""


@dataclass(frozen=True, kw_only=True)
class EpochTime:
    """Time of one run's epochs in seconds: medians (or another quantile) over epochs of means over workers."""

    epoch_s: float
    phases: dict[str, float]
    """Every phase except communication."""
    busiest_bytes: float
    """Bytes of the busiest link in one direction, summed over the exchanges of an epoch."""
    exchanges: int
    """Exchanges per epoch."""

    @property
    def communication_s(self) -> float:
        """Time of the epoch outside the other phases."""
        return max(0.0, self.epoch_s - sum(self.phases.values()))

    def with_phases(self, phases: Mapping[str, float]) -> EpochTime:
        """Return the time with other phases; communication, which gives the link, stays."""
        return dataclasses.replace(self, phases=dict(phases), epoch_s=self.communication_s + sum(phases.values()))


@dataclass(frozen=True, kw_only=True)
class Timing:
    """Measured times of one graph, model and link."""

    exact: EpochTime
    """With float32 rows."""
    quantized: EpochTime
    """With rows of 2, 4 and 8 bits."""
    gradient_bytes: int
    """Bytes that are all-reduced at the end of each epoch."""
    workers: int
    hosts: int
    link: str
    """Name in tables."""
    bytes_per_s: float | None
    """Nominal rate of a host's link; none on a loopback."""
    transport: str
    launched: bool = True
    """True if launched runs were timed; False: an estimate from threads of one process."""

    @property
    def wire(self) -> Wire:
        """Wire of quantized rows: θ from the two volumes, γ what remains of an exchange; neither is negative.

        θ is limited to the nominal rate, if there is one. Then quantized rows, which are fewer bytes, communicate no
        longer than float32 rows: a longer time is other load during their run, which γ would add to every system but
        Vanilla. Float32 rows wait longer: add `exact_waiting_s` to γ.
        """
        float32, codes = self.exact, self.quantized
        volume, seconds = (
            np.array([float32.busiest_bytes, codes.busiest_bytes]),
            np.array([float32.communication_s, codes.communication_s]),
        )
        spread = volume[0] - volume[1]
        theta = (seconds[0] - seconds[1]) / spread if spread > 0 else 0.0
        # Two noisy timings give any slope, also a negative one: limit θ by the nominal rate and by the float32 run.
        if self.bytes_per_s is not None:
            theta = float(np.clip(theta, 1 / self.bytes_per_s, 1.15 / GOODPUT / self.bytes_per_s))
        theta = min(max(0.0, theta), float(seconds[0] / volume[0]) if volume[0] > 0 else 0.0)
        return Wire(
            workers=self.workers,
            hosts=self.hosts,
            theta_s_per_byte=theta,
            gamma_s=_waiting(codes, theta, longest_s=float(seconds[0]) if self.is_loaded else float("inf")),
            transport=self.transport,
            name=self.link,
        )

    @property
    def is_loaded(self) -> bool:
        """True if quantized rows communicated longer than float32 rows over a link of a known rate, by other load."""
        float32, codes = self.exact, self.quantized
        is_limited = self.bytes_per_s is not None and codes.busiest_bytes < float32.busiest_bytes
        return is_limited and codes.communication_s > float32.communication_s

    @property
    def exact_waiting_s(self) -> float:
        """Seconds that an exchange of float32 rows waits longer than one of quantized rows, beyond its bytes.

        Both kinds of epochs wait for slower workers, but not equally: coding takes processor time from the others where
        workers share processors.
        """
        wire = self.wire
        return _waiting(self.exact, wire.theta_s_per_byte) - wire.gamma_s

    @property
    def with_equal_computation(self) -> Timing:
        """Timing whose two runs compute equally long: the shorter of both, since other load only lengthens phases.

        Bit-widths do not change sums and products, so a difference between the runs would favour one kind of messages.
        """
        both = (self.exact, self.quantized)
        shared = [name for name in _COMPUTED if all(name in each.phases for each in both)]
        least = {name: min(each.phases[name] for each in both) for name in shared}
        exact, quantized = (each.with_phases({**each.phases, **least}) for each in both)
        return dataclasses.replace(self, exact=exact, quantized=quantized)

    def with_rate(self, theta_s_per_byte: float) -> Timing:
        """Return the timing on links with another θ, for the delay that float32 rows add to the sum of gradients.

        Both runs sum the same gradients, so a longer sum with float32 rows is time in which rows share the link. Other
        phases and the measured communication stay, see `Prediction.phases`.
        """
        theta = self.wire.theta_s_per_byte
        seconds, rounded_s = (each.phases.get("reduce", 0.0) for each in (self.exact, self.quantized))
        if seconds <= rounded_s or not theta:
            return self
        delayed_s = rounded_s + (seconds - rounded_s) * theta_s_per_byte / theta
        exact = self.exact
        phases = {**exact.phases, "reduce": delayed_s}
        return dataclasses.replace(
            self, exact=dataclasses.replace(exact, phases=phases, epoch_s=exact.epoch_s + delayed_s - seconds)
        )

    def to_json(self) -> dict[str, Any]:
        """Convert to plain JSON; the inverse is :meth:`from_json`."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Timing:
        """Restore a timing from :meth:`to_json`."""
        parts = {name: EpochTime(**value[name]) for name in ("exact", "quantized")}
        return cls(**{**value, **parts})


def _waiting(epoch: EpochTime, theta_s_per_byte: float, *, longest_s: float = float("inf")) -> float:
    """Return the seconds of an exchange that the transfer of its bytes does not explain; a negative rest is noise.

    Args:
        epoch: a measured epoch.
        theta_s_per_byte: θ of its link.
        longest_s: limit of its communication.
    """
    rest = min(epoch.communication_s, longest_s) - theta_s_per_byte * epoch.busiest_bytes
    return max(0.0, rest) / max(1, epoch.exchanges)


def with_probed_parts(system: System, probe_system: System) -> System:
    """Return a system with the parts of another one on the axes `PROBED`."""
    return dataclasses.replace(system, **probed_parts(probe_system))


def probed_parts(system: System) -> dict[str, Any]:
    """Return the parts of a system on the axes `PROBED`; of a partition that changes, the first.

    An exchange that relays rows is probed without relays, see `ExchangePart.probed`.
    """
    parts = system.partition.fixed(), system.exchange.probed(), system.compute
    return dict(zip(PROBED, parts, strict=True))


@show_elapsed("timing two short runs")
def measure_timing(config: RunConfig, *, epochs: int = 20, fresh: bool = False, quantile: float = 0.5) -> Timing:
    """Launch the two short runs, or return the cached result of an earlier call.

    Args:
        config: graph, model, workers, link; of the system only the axes `PROBED` matter.
        epochs: of each run, at least 5; the first 3 are left out.
        fresh: measure again even if there is a cached result.
        quantile: see :func:`read_epoch_time`; only medians are cached.

    Raises:
        ValueError: if ``epochs`` is less than 5.
    """
    if epochs <= _WARM_UP + 1:
        raise ValueError(
            f"epochs must be at least {_WARM_UP + 2}, because the first {_WARM_UP} are left out, got {epochs}"
        )
    short_settings = dataclasses.replace(config.train, epochs=epochs, evaluate_every=0)
    cached_timing = None if fresh else read_cached_timing(config)
    if cached_timing is not None:
        return cached_timing
    path = _path(config)
    epoch_times = []
    # The monitor of a run may still write its last lines after the run has finished, so clean-up may fail.
    with tempfile.TemporaryDirectory(prefix="gnnqlab-probe-", ignore_cleanup_errors=True) as root:
        for name in ("vanilla", "random-bits"):
            system = with_probed_parts(make_system(name), config.system)
            run = launch(dataclasses.replace(config, system=system, train=short_settings), root=root, wait=True)
            epoch_times.append(read_epoch_time(run, quantile=quantile))
        link = Link.from_folder(run.folder, config.workers)
        gradient_bytes = int(run.records["bytes_gradients"].iloc[-1])
    timing = Timing(
        exact=epoch_times[0],
        quantized=epoch_times[1],
        gradient_bytes=gradient_bytes,
        workers=config.workers,
        hosts=link.hosts,
        link=link.label,
        bytes_per_s=link.bytes_per_s,
        transport=config.train.transport,
    )
    if quantile != 0.5:
        return timing
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(timing.to_json()))  # atomic, because another process may measure at the same time
    return timing


def read_cached_timing(config: RunConfig) -> Timing | None:
    """Return the cached result of an earlier call, or ``None``."""
    path = _path(config)
    return Timing.from_json(json.loads(path.read_text())) if path.exists() else None


def read_epoch_time(run: Run, *, quantile: float = 0.5) -> EpochTime:
    """Return the times of a finished run's epochs by phase, without its first ones if there are more.

    Args:
        run: any run.
        quantile: over epochs; 0.5 is the median. Other load on a machine only lengthens epochs, so on a shared machine
            a lower quantile is closer to the run itself.
    """
    records, workers = run.records, run.config.workers
    # Of a very short run at least the last two epochs.
    warm_rows = records[records["epoch"] >= min(_WARM_UP, max(0, int(records["epoch"].max()) - 1))]
    # epoch_s includes assignment, but not evaluation.
    epoch_seconds = (warm_rows["epoch_s"] - warm_rows["assign_s"]).groupby(warm_rows["epoch"]).mean()
    names = [name for name in _phases(records) if name not in (*COMMUNICATION, *_OCCASIONAL)]
    means = warm_rows.groupby("epoch")[[f"{name}_s" for name in names]].mean().quantile(quantile)  # first over workers
    link = Link.from_folder(run.folder, workers)
    wire = Wire(
        workers=workers,
        hosts=link.hosts,
        theta_s_per_byte=0.0,
        transport="ring" if run.config.train.transport == "ring" else "direct",
    )
    # The last epoch stands for all, so traffic of the others is not read.
    volume, exchanges = _busiest(run.read_traffic(epochs=[int(warm_rows["epoch"].max())]), wire)
    return EpochTime(
        epoch_s=float(epoch_seconds.quantile(quantile)),
        phases={name: float(means[f"{name}_s"]) for name in names},
        busiest_bytes=volume,
        exchanges=exchanges,
    )


def _phases(records: pd.DataFrame) -> list[str]:
    from gnnqlab.train.loop.phase_timer import PHASES

    return [name for name in PHASES if f"{name}_s" in records.columns]


def _busiest(traffic: pd.DataFrame, wire: Wire) -> tuple[float, int]:
    """Return the bytes of the busiest link, summed over the exchanges of one epoch, and the number of exchanges."""
    total, exchanges = 0.0, 0
    for _, rows in traffic.groupby(["layer", "direction", "round"]):
        sent_bytes = np.zeros((wire.workers, wire.workers))
        amount = (rows["payload_bytes"] + rows["param_bytes"]).to_numpy()
        # One row per bit-width of a pair, so `+=` by index would drop all but one of them.
        np.add.at(sent_bytes, (rows["sender"].to_numpy(), rows["receiver"].to_numpy()), amount)
        total += wire.busiest_bytes(sent_bytes)
        exchanges += 1
    return total, exchanges


def _path(config: RunConfig) -> Path:
    return cache_folder() / "timings" / f"{_digest(config)}.json"


def _digest(config: RunConfig) -> str:
    """Return a cache key of a measurement: hash of configuration, package version and machine."""
    from gnnqlab import __version__

    facts = config.to_json()
    del facts["recipe"]  # the name of a recipe changes no measurement
    facts["system"] = [facts["system"][axis] for axis in PROBED]
    # Of the training only the settings that change the seconds of an epoch.
    facts["train"] = {name: facts["train"][name] for name in ("transport", "input_features", "recompute")}
    facts["graph"] = _content(config.graph)
    machine = [platform.node(), usable_processors(), __version__]
    return hashlib.blake2b(json.dumps([facts, machine], sort_keys=True).encode(), digest_size=12).hexdigest()


def _content(source: str) -> list[Any]:
    path = Path(source)
    if not path.is_file():
        return [source]
    return [str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns]  # cheaper than a hash of the content
