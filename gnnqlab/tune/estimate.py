"""Estimate of an epoch's seconds without a launched run, from processor times of the traced epochs.

It gives a first result at once; a measurement with worker processes (:mod:`gnnqlab.tune.timing`) predicts better. The
processor time of a thread approximates that of a separate worker. Transfers are computed from the rate of the link.
"""

from __future__ import annotations

from gnnqlab.bits.policy import Fixed
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.link import Link
from gnnqlab.train.processors import usable_processors
from gnnqlab.tune.offline_assigner import OfflineAssigner
from gnnqlab.tune.timing import EpochTime, Timing
from gnnqlab.tune.traced import Trace
from gnnqlab.tune.wire import GOODPUT, Wire

__all__ = ["estimate_timing"]

_LOOPBACK = 1e9
"""Bytes per second between two processes of one machine."""
_GAMMA_S = 3e-4
"""Seconds of an exchange of short messages between two processes."""
_COPY = 0.4
"""Time of copying float32 rows relative to quantizing them."""


def estimate_timing(config: RunConfig, trace: Trace) -> Timing:
    """Estimate the result of a measurement with worker processes.

    Args:
        config: the configuration that was traced, with the rate of its link.
        trace: its trace, with timed epochs.
    """
    hosts = config.launch.hosts or 1
    kind = "emulated" if hosts > 1 else "loopback"
    link = Link(kind=kind, hosts=hosts, name=config.launch.link or "")
    # Rows get only the fraction GOODPUT of a link's nominal rate.
    theta = 1 / _LOOPBACK if link.bytes_per_s is None else 1 / GOODPUT / link.bytes_per_s
    transport = "ring" if config.train.transport == "ring" else "direct"
    wire = Wire(workers=config.workers, hosts=hosts, theta_s_per_byte=theta, gamma_s=_GAMMA_S, transport=transport)
    gradient_bytes = 4 * (trace.weights.numel() + 1)
    # Launched workers share the processors of this machine; each thread was timed alone.
    slowdown = max(1.0, config.workers / usable_processors())
    phases = {name: slowdown * seconds for name, seconds in trace.phases.items()}
    phases["reduce"] = phases.get("reduce", 0.0) + _GAMMA_S + theta * wire.reduce_bytes(gradient_bytes)
    # The trace quantizes; a float32 run only copies rows to and from its buffers.
    copy_phases = {name: (_COPY if name in ("encode", "decode") else 1.0) * value for name, value in phases.items()}
    assigner = OfflineAssigner(trace)

    def epoch_time(bits: int, phase_seconds: dict[str, float]) -> EpochTime:
        sent_bytes = assigner.sent_bytes(assigner.choose(Fixed(bits=bits)))  # (P, P) per layer and direction
        volume = trace.row_weight * sum(wire.busiest_bytes(amount) for amount in sent_bytes.values())
        epoch_s = sum(phase_seconds.values()) + len(sent_bytes) * _GAMMA_S + theta * volume
        return EpochTime(epoch_s=epoch_s, phases=phase_seconds, busiest_bytes=volume, exchanges=len(sent_bytes))

    return Timing(
        exact=epoch_time(32, copy_phases),
        quantized=epoch_time(8, phases),
        gradient_bytes=gradient_bytes,
        workers=config.workers,
        hosts=hosts,
        link=link.label,
        bytes_per_s=link.bytes_per_s,
        transport=config.train.transport,
        launched=False,
    )
