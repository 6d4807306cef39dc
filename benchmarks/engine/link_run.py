"""Interleaved trainings over a link between emulated hosts, and trainings without any message.

The default graph is a planted partition of 40 000 nodes, 2 000 000 edges and 256 features; METIS parts of it have 0.42
(two workers) and 0.71 (four) remote neighbours per node, compared with 0.42 and 0.63 for Reddit in AdaQP Table 1.
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.study.result import RunResult, read_result

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.message.transport.transport import Transfer, Transport
    from gnnqlab.train.config.run_config import RunConfig
    from gnnqlab.train.heartbeat import Heartbeat

__all__ = [
    "ALONE",
    "LinkMeasurement",
    "fit_without_messages",
    "measure_in_turn",
    "measure_run",
    "usual_graph",
    "wire_itself",
    "wire_share",
]

ALONE = "computation alone"
"""Name of a run without messages in tables."""
# Columns of the records with computation only.
_COMPUTES = ["central_s", "marginal_s", "dense_s", "optimizer_s", "other_s"]


@dataclass(frozen=True)
class LinkMeasurement:
    """Measurements of one run: medians over all epochs but the first, in seconds."""

    epoch_s: float
    comm_s: float
    quant_s: float
    compute_s: float
    assign_s: float
    bytes_sent: float
    wire: float
    label: str
    score: float
    coordination: float | None = None
    """Share of wall-clock time of SYLVIE's extraction and coordination, if the system has them."""
    link_s: float = 0.0
    """Seconds of an epoch's bytes, including weight gradients, at the rate of a host's link."""
    epochs_s: tuple[float, ...] = ()
    """Seconds of every epoch but the first, of the slowest worker."""
    links_s: tuple[float, ...] = ()
    """Seconds of the bytes of each of these epochs at that rate."""
    training: RunResult | None = None
    """Result of the whole training; ``None`` without messages, because nothing useful is learned."""
    wire_itself: float = float("nan")
    """Wire time over the least time of the bytes, if the receiver posted first (:func:`wire_itself`)."""


def usual_graph(nodes: int = 40_000) -> Graph:
    """Return the default graph, or a similar one with another number of nodes."""
    from gnnqlab.graph.generate import sbm

    name = f"sbm of {nodes} with 0.42 remote"
    return sbm(nodes, 16, 50, features=256, homophily=0.98, stray=0.0, signal=0.3, name=name)


def measure_in_turn(configs: Mapping[str, RunConfig], repeats: int) -> dict[str, list[LinkMeasurement]]:
    """Train with each configuration in turn, ``repeats`` times; report progress on stderr.

    Args:
        configs: name -> configuration; ``ALONE`` is trained without messages.
        repeats: number of runs of each configuration.

    Returns:
        Name -> its runs.
    """
    runs: dict[str, list[LinkMeasurement]] = {}
    for number in range(repeats):
        for name, config in configs.items():
            measurement = measure_run(config, alone=name == ALONE)
            runs.setdefault(name, []).append(measurement)
            label = f"{config.model.name}, {config.workers} workers, repeat {number}: {name}"
            print(f"{label} {measurement.epoch_s:.3f} s per epoch", file=sys.stderr, flush=True)
    return runs


def measure_run(config: RunConfig, *, alone: bool = False) -> LinkMeasurement:
    """Train once, with the timeline of every epoch, and return the measurements.

    Args:
        config: configuration of the run.
        alone: omit every message and the link, to measure computation alone.
    """
    from gnnqlab.launch.local import launch
    from gnnqlab.launch.worker_target import FIT

    if alone:
        # no link, and no share of a link to calibrate
        launch_settings = replace(config.launch, hosts=1, link=None, vanilla_share=None)
        # messages of zeros have no valid checksums
        config = replace(config, launch=launch_settings, train=replace(config.train, verify_messages="off"))
    # timeline of every epoch, for `wire_itself`
    config = replace(config, train=replace(config.train, timeline_every=1))
    fit = "benchmarks.engine.link_run:fit_without_messages" if alone else FIT
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        with launch(config, root=root, fit=fit) as run:  # leaving the block waits until the machine is idle again
            measurement = _measurement_of(run.wait(), config)
            return measurement if alone else replace(measurement, training=read_result(run))


def _measurement_of(run: Any, config: RunConfig) -> LinkMeasurement:
    from gnnqlab.launch.calibrate import estimate_host_bytes
    from gnnqlab.train.records.evaluation_pauses import epoch_seconds

    summary, records = run.summary, run.records
    settled_records = records[records["epoch"] > 0]  # the first epoch includes set-up
    # slowest worker of each epoch, then the median over epochs
    compute_s = (
        settled_records.assign(all=settled_records[_COMPUTES].sum(axis=1)).groupby("epoch")["all"].max().median()
    )
    epochs = settled_records.groupby("epoch")

    def link_s(bytes_sent: float) -> float:
        gradients = float(records["bytes_gradients"].max())  # the same in all epochs
        rate = summary.get("link_bytes_per_s")  # bytes per second of a host's link
        return estimate_host_bytes(bytes_sent, gradients, config.workers, summary["hosts"]) / rate if rate else 0.0

    return LinkMeasurement(
        epoch_s=summary["epoch_s"],
        comm_s=summary["comm_s"],
        quant_s=summary["quant_s"],
        compute_s=float(compute_s),
        # Time by which assignments delayed the slowest worker, divided by the number of epochs.
        assign_s=float(records.groupby("rank")["assign_s"].sum().max()) / config.train.epochs,
        bytes_sent=summary["bytes_sent"],
        wire=wire_share(run.traffic, summary.get("link_bytes_per_s"), config.workers, summary["hosts"]),
        wire_itself=wire_itself(
            run.timeline, run.traffic, summary.get("link_bytes_per_s"), config.workers, summary["hosts"]
        ),
        label=summary["link"],
        score=summary.get("test_accuracy") or summary.get("test_f1_micro") or 0.0,
        coordination=summary.get("coordination_share"),
        link_s=link_s(summary["bytes_sent"]),
        epochs_s=tuple(epoch_seconds(records).iloc[1:]),
        links_s=tuple(map(link_s, epochs[["bytes_payload", "bytes_params"]].sum().sum(axis=1))),
    )


def wire_share(traffic: pd.DataFrame, bytes_per_s: float | None, workers: int, hosts: int) -> float:
    """Return the time of messages between hosts over the least time of their bytes at the rate of the link.

    A message is timed from its receiver's post. If the sender posts later than the receiver, this time is too long, and
    that of the message in the opposite direction is too short by the same amount. If that message arrived before its
    receiver posted, its error is smaller, and the mean is too long (:func:`wire_itself` has no such error).

    Args:
        traffic: table as ``run.traffic``; the first epoch is excluded.
        bytes_per_s: rate of each host's link; ``None`` returns NaN.
        workers: number of workers P.
        hosts: number of hosts; consecutive ranks share one.
    """
    if bytes_per_s is None:
        return float("nan")
    frame = traffic[traffic["epoch"] > traffic["epoch"].min()]  # the first epoch includes set-up
    frame = frame.assign(
        # host of the sender and of the receiver; consecutive ranks share one
        source=frame["sender"] * hosts // workers,
        target=frame["receiver"] * hosts // workers,
        size=frame["payload_bytes"] + frame["param_bytes"],
    )
    frame = frame[frame["source"] != frame["target"]]  # messages within a host do not use the link
    exchange = ["epoch", "layer", "direction"]
    # last message of each receiver, then the mean over receivers
    seconds = frame.groupby([*exchange, "receiver"])["seconds"].max().groupby(exchange).mean()
    # bytes that each host sends, then the mean over hosts
    host_bytes = frame.groupby([*exchange, "source"])["size"].sum().groupby(exchange).mean()
    return float(seconds.sum() / (host_bytes.sum() / bytes_per_s))


def wire_itself(
    timeline: pd.DataFrame, traffic: pd.DataFrame, bytes_per_s: float | None, workers: int, hosts: int
) -> float:
    """Return the time from a host's first post to the arrival of its last message, over the least time of the bytes.

    Workers of one machine share a clock, so a message is timed from its sender's post. The arrival of a message that
    came before its receiver posted is unknown: all messages of such a host in that exchange are excluded.

    Args:
        timeline: table as ``run.timeline``, with every epoch.
        traffic, bytes_per_s, workers, hosts: see :func:`wire_share`.
    """
    if bytes_per_s is None or timeline.empty or traffic.empty:
        return float("nan")
    place = ["epoch", "layer", "direction", "round"]
    posts = timeline[timeline["what"] == "post"].rename(columns={"rank": "sender", "start_s": "posted"})
    arrivals = timeline[timeline["what"] == "transfer"].rename(columns={"rank": "receiver", "peer": "sender"})
    sizes = traffic.assign(size=traffic["payload_bytes"] + traffic["param_bytes"])
    sizes = sizes.groupby([*place, "sender", "receiver"])["size"].sum().reset_index()
    # one row per message: post, arrival and size
    messages = arrivals.merge(posts[[*place, "sender", "posted"]]).merge(sizes)
    # late: posted by its sender before its receiver posted
    messages = messages.assign(
        source=messages["sender"] * hosts // workers, late=messages["start_s"] > messages["posted"]
    )
    messages = messages[
        (messages["source"] != messages["receiver"] * hosts // workers) & (messages["epoch"] > traffic["epoch"].min())
    ]
    exchanges = messages.groupby([*place, "source"]).agg(
        late=("late", "max"), posted=("posted", "min"), arrived=("end_s", "max"), size=("size", "sum")
    )
    exchanges = exchanges[~exchanges["late"].astype(bool)]  # exchanges of a host in which every arrival is known
    seconds = (exchanges["arrived"] - exchanges["posted"]).sum()
    return float(seconds / (exchanges["size"].sum() / bytes_per_s)) if len(exchanges) else math.nan


# -- computation alone, in the workers ------------------------------------------------------------------------------


def fit_without_messages(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train without any message in training passes; only the time is meaningful, not the weights."""
    from gnnqlab.message.transport.transport import make_transport
    from gnnqlab.train.loop.fit import fit

    def silent(name: str, rank: int, workers: int) -> Transport:
        return SilentTransport() if name == config.train.transport else make_transport(name, rank, workers)

    fit(config, folder, rank, workers, heartbeat, transports=silent)


class SilentTransport:
    """Transport that sends nothing and receives zeros."""

    def post(  # the interface of a transport
        self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor], headers: Any = None, *, bounded: bool = False
    ) -> Transfer:
        from gnnqlab.message.transport.transport import Transfer

        class CompletedTransfer(Transfer):
            def _finish(self) -> None:
                self.seconds = dict.fromkeys(receive, 0.0)

        for buffer in receive.values():
            buffer.zero_()  # zeros, so that the computation stays finite
        return CompletedTransfer()
