"""Trainings over a link between emulated hosts, measured in turn; and the same with every message left out.

The usual graph is a planted partition of 40 000 nodes, 2 000 000 edges and 256 features, of which METIS makes shares
with 0.42 (two workers) and 0.71 (four) remote neighbours a node; AdaQP Table 1 has 0.42 and 0.63 for Reddit.
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
    "Measured",
    "fit_alone",
    "measure_in_turn",
    "measure_run",
    "usual_graph",
    "wire_itself",
    "wire_share",
]

ALONE = "computation alone"
"""What a run without messages is called in tables."""
_COMPUTES = ["central_s", "marginal_s", "dense_s", "optimizer_s", "other_s"]


@dataclass(frozen=True)
class Measured:
    """One run: medians over its settled epochs, in seconds."""

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
    """Share of wall-clock that SYLVIE's extraction and coordination took, if the system has them."""
    link_s: float = 0.0
    """What the epoch's bytes, weight gradients included, take at the rate of a host's link."""
    epochs_s: tuple[float, ...] = ()
    """Every settled epoch, as the slowest worker saw it."""
    links_s: tuple[float, ...] = ()
    """What the bytes of each of these take at that rate."""
    training: RunResult | None = None
    """The whole of it, from its first epoch to its score; none of a run without messages, which learns nothing."""
    wire_itself: float = float("nan")
    """Wire time over bytes by the rate where the receiver was there first (:func:`wire_itself`)."""


def usual_graph(nodes: int = 40_000) -> Graph:
    """Return the graph that the figures are measured on, or one like it with another number of nodes."""
    from gnnqlab.graph.generate import sbm

    name = f"sbm of {nodes} with 0.42 remote"
    return sbm(nodes, 16, 50, features=256, homophily=0.98, stray=0.0, signal=0.3, name=name)


def measure_in_turn(configs: Mapping[str, RunConfig], repeats: int) -> dict[str, list[Measured]]:
    """Train with each configuration once, then with each once more, and so on; says on stderr how far it is.

    Args:
        configs: by name; that of ``ALONE`` is trained without messages.
        repeats: how often.

    Returns:
        The runs of each name.
    """
    found: dict[str, list[Measured]] = {}
    for number in range(repeats):
        for name, config in configs.items():
            latest = measure_run(config, alone=name == ALONE)
            found.setdefault(name, []).append(latest)
            what = f"{config.model.name}, {config.workers} workers, repeat {number}: {name}"
            print(f"{what} {latest.epoch_s:.3f} s an epoch", file=sys.stderr, flush=True)
    return found


def measure_run(config: RunConfig, *, alone: bool = False) -> Measured:
    """Train once, with the timeline of every epoch, and return what it took.

    Args:
        config: of the run.
        alone: leave every message out, and the link with them: what computation alone takes.
    """
    from gnnqlab.launch.local import launch
    from gnnqlab.launch.worker_target import FIT

    if alone:
        launched = replace(config.launch, hosts=1, link=None, vanilla_share=None)
        config = replace(config, launch=launched, train=replace(config.train, headers="off"))
    config = replace(config, train=replace(config.train, timeline_every=1))
    fit = "benchmarks.engine.link_run:fit_alone" if alone else FIT
    with tempfile.TemporaryDirectory(prefix="gnnqlab-") as root:
        with launch(config, root=root, fit=fit) as run:  # the end of the block waits until the machine is quiet again
            measured = _measured(run.wait(), config)
            return measured if alone else replace(measured, training=read_result(run))


def _measured(run: Any, config: RunConfig) -> Measured:
    from gnnqlab.launch.calibrate import sent_by_host
    from gnnqlab.train.records.evaluation_pauses import epoch_seconds

    summary, records = run.summary, run.records
    settled = records[records["epoch"] > 0]
    compute_s = settled.assign(all=settled[_COMPUTES].sum(axis=1)).groupby("epoch")["all"].max().median()
    epochs = settled.groupby("epoch")

    def link_s(sent: float) -> float:
        gradients = float(records["bytes_gradients"].max())
        rate = summary.get("link_bytes_per_s")
        return sent_by_host(sent, gradients, config.workers, summary["hosts"]) / rate if rate else 0.0

    return Measured(
        epoch_s=summary["epoch_s"],
        comm_s=summary["comm_s"],
        quant_s=summary["quant_s"],
        compute_s=float(compute_s),
        # What assignments held the slowest worker up for, shared out over the epochs that there were.
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
    """Time that messages between hosts took, over their bytes by the rate of the link.

    A message is timed from its receiver's post. Where the sender posts later than the receiver that is too long, and
    too short for the message the other way by as much, unless that one came before its receiver posted: then it is not
    too short by as much, and the mean is too long (:func:`wire_itself` has no such error).

    Args:
        traffic: as ``run.traffic``; the first epoch is left out.
        bytes_per_s: rate of each host's link; without one the answer is NaN.
        workers: P.
        hosts: hosts; consecutive ranks share one.
    """
    if bytes_per_s is None:
        return float("nan")
    frame = traffic[traffic["epoch"] > traffic["epoch"].min()]
    frame = frame.assign(
        source=frame["sender"] * hosts // workers,
        target=frame["receiver"] * hosts // workers,
        size=frame["payload_bytes"] + frame["param_bytes"],
    )
    frame = frame[frame["source"] != frame["target"]]
    exchange = ["epoch", "layer", "direction"]
    took = frame.groupby([*exchange, "receiver"])["seconds"].max().groupby(exchange).mean()
    sent = frame.groupby([*exchange, "source"])["size"].sum().groupby(exchange).mean()
    return float(took.sum() / (sent.sum() / bytes_per_s))


def wire_itself(
    timeline: pd.DataFrame, traffic: pd.DataFrame, bytes_per_s: float | None, workers: int, hosts: int
) -> float:
    """Time from a host's first post of an exchange until its last message had come, over their bytes by the rate.

    Workers of one machine share a clock, so a message is timed from its sender's post. When a message came that was
    there before its receiver posted, nobody knows: such a host's messages are left out, with their bytes.

    Args:
        timeline: as ``run.timeline``, of every epoch.
        traffic, bytes_per_s, workers, hosts: as for :func:`wire_share`.
    """
    if bytes_per_s is None or timeline.empty or traffic.empty:
        return float("nan")
    place = ["epoch", "layer", "direction", "round"]
    posts = timeline[timeline["what"] == "post"].rename(columns={"rank": "sender", "start_s": "posted"})
    came = timeline[timeline["what"] == "transfer"].rename(columns={"rank": "receiver", "peer": "sender"})
    sizes = traffic.assign(size=traffic["payload_bytes"] + traffic["param_bytes"])
    sizes = sizes.groupby([*place, "sender", "receiver"])["size"].sum().reset_index()
    every = came.merge(posts[[*place, "sender", "posted"]]).merge(sizes)
    every = every.assign(source=every["sender"] * hosts // workers, late=every["start_s"] > every["posted"])
    every = every[(every["source"] != every["receiver"] * hosts // workers) & (every["epoch"] > traffic["epoch"].min())]
    each = every.groupby([*place, "source"]).agg(
        late=("late", "max"), posted=("posted", "min"), come=("end_s", "max"), size=("size", "sum")
    )
    each = each[~each["late"].astype(bool)]
    return float((each["come"] - each["posted"]).sum() / (each["size"].sum() / bytes_per_s)) if len(each) else math.nan


# -- computation alone, in the workers ------------------------------------------------------------------------------


def fit_alone(config: RunConfig, folder: Path, rank: int, workers: int, heartbeat: Heartbeat) -> None:
    """Train with every message of a training pass left out; what comes out is of no use but for its time."""
    from gnnqlab.message.transport.transport import make_transport
    from gnnqlab.train.loop.fit import fit

    def silent(name: str, rank: int, workers: int) -> Transport:
        return Silent() if name == config.train.transport else make_transport(name, rank, workers)

    fit(config, folder, rank, workers, heartbeat, transports=silent)


class Silent:
    """Moves nothing."""

    def post(
        self, send: Mapping[int, Tensor], receive: Mapping[int, Tensor], headers: Any = None, *, bounded: bool = False
    ) -> Transfer:
        from gnnqlab.message.transport.transport import Transfer

        class Nothing(Transfer):
            def _finish(self) -> None:
                self.seconds = dict.fromkeys(receive, 0.0)

        for buffer in receive.values():
            buffer.zero_()
        return Nothing()
