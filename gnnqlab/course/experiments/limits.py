"""An epoch beside the limits of its parts, measured in the same process: how much of each part is left to win.

A part's limit is the least time of its own work on this machine: compulsory bytes of neighbour sums at the rate of a
plain read of as many, floating point operations at the rate of the framework's product of the same shape, passes over
rows and the codec at that of memcpy, messages at the rate of the link. A part below its limit was hidden: messages
under central rows. Products of sparse features are sums of weights' rows, and stand among neighbour sums.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.course.experiments.counted import Work, count
from gnnqlab.course.experiments.rates import Rates
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.simulation.threaded_workers import one_thread
from gnnqlab.theory.cost import epoch_s
from gnnqlab.train.loop.trainer import Trainer, worker_trainer

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph

__all__ = ["EPOCH", "OTHER", "PARTS", "coded_bytes", "least_s", "limits_table", "measure_limits"]

PARTS: Mapping[str, tuple[str, ...]] = {
    "neighbour sums": ("central", "marginal"),
    "products": ("products",),
    "node-wise": ("elementwise",),
    "codec": ("encode", "decode"),
    "wire": ("wait", "reduce"),
}
"""Parts that have a limit -> phases of the clock, of an epoch whose products are counted ones."""
OTHER, EPOCH = "other", "epoch"
"""What is left, which has no limit, and the whole."""
_WIRE = "wire"
_SETTLING = 2
"""First epochs, which also set things up."""


def least_s(work: Work, rates: Rates, *, coded: Mapping[int, int] | None = None) -> dict[str, float]:
    """Return the least seconds of an epoch's parts but the wire; 0 of what there is nothing of.

    Args:
        work: of one training pass.
        rates: of the process that trains.
        coded: bytes of float32 rows that are encoded or decoded at once, and how often so many are.
    """
    sums = sum(times * each.bytes / rates.read_bytes_per_s(each.bytes) for each, times in work.sums.items())
    products = sum(times * each.flops / rates.flops_per_s(each) for each, times in work.products.items())
    halves = ((each.bytes // 2, times) for each, times in work.passes.items())  # a memcpy reads and writes its bytes
    passes = sum(times * half / rates.copied_bytes_per_s(half) for half, times in halves)
    codec = sum(times * each / rates.copied_bytes_per_s(each) for each, times in (coded or {}).items())
    return {"neighbour sums": sums, "products": products, "node-wise": passes, "codec": codec}


def coded_bytes(trainer: Trainer) -> Counter[int]:
    """Return the bytes of float32 rows that a worker encodes or decodes at once, and how often so many an epoch."""
    found = Counter[int]()
    for channel in [] if trainer.exchange is None else trainer.exchange.channels:
        for rows in (channel.plan.sent_rows, channel.plan.received_rows):
            if number := int(rows.sum()):
                found[4 * number * channel.columns] += 1
    return found


def limits_table(
    seconds: Mapping[str, float], least: Mapping[str, float], *, wire_s: float = 0.0, overlapped: bool = False
) -> DataFrame:
    """Return an epoch beside the limits of its parts.

    Args:
        seconds: by phase of the clock, as ``central``, and ``epoch``: the whole.
        least: by part, as :func:`least_s` returns them.
        wire_s: what the epoch's bytes take at the rate of the link.
        overlapped: whether messages travel while central rows are computed.

    Returns:
        A row a part, those without work among `OTHER`, and `EPOCH`, whose limit is the sum of the others', or of an
        overlapped one what :func:`gnnqlab.theory.cost.epoch_s` makes of them: the larger of wire and all the rest.
        Columns ``measured (ms)``, ``limit (ms)``, ``measured / limit`` (NaN where there is no limit) and ``share (%)``.

    Raises:
        ValueError: if the epoch took no time.

    Example:
        >>> seconds = {"central": 0.004, "products": 0.005, "optimizer": 0.001, "epoch": 0.010}
        >>> limits_table(seconds, {"neighbour sums": 0.001, "products": 0.004})["measured / limit"].tolist()
        [4.0, 1.25, nan, 2.0]
    """
    import pandas as pd

    whole = seconds["epoch"]
    if not whole > 0:
        raise ValueError(f"an epoch must take some time, got {whole} s")
    limits = {part: limit for part, limit in {**least, _WIRE: wire_s}.items() if limit > 0}
    measured = {part: sum(seconds.get(phase, 0.0) for phase in PARTS[part]) for part in PARTS if part in limits}
    measured[OTHER] = whole - sum(measured.values())
    limits[EPOCH] = epoch_s([wire_s], [sum(least.values())], 0.0, overlapped=overlapped)
    found = pd.DataFrame({"measured (ms)": {**measured, EPOCH: whole}, "limit (ms)": limits}).loc[[*measured, EPOCH]]
    found["measured / limit"] = found["measured (ms)"] / found["limit (ms)"]
    found["share (%)"] = 100 * found["measured (ms)"] / whole
    found[["measured (ms)", "limit (ms)"]] *= 1e3
    return found.rename_axis("part")


def measure_limits(
    graph: Graph, *, model: str = "gcn", epochs: int = 8, repeats: int = 7, layers: int = 3, hidden: int = 128
) -> DataFrame:
    """Return :func:`limits_table` of one worker on the whole graph, in one thread of this process.

    Seconds and rates are of processor time, so that what else runs on the machine counts for little. Indicative all
    the same: ``gnnqlab bench limits`` is the one to quote.

    Args:
        graph: with features and labels.
        model: a model that sums neighbours.
        epochs: to train; seconds are medians over them but for the first two.
        repeats: of each rate, of which the best counts.
        layers, hidden: shape of the model.

    Raises:
        ValueError: if too few epochs are left, or the model attends to its neighbours.
    """
    import pandas as pd

    from gnnqlab.partition.edge_cut import Random
    from gnnqlab.partition.parts import cut_graph
    from gnnqlab.systems.system import make_system
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.train.loop.clock import Clock

    if epochs <= _SETTLING:
        raise ValueError(f"epochs must be at least {_SETTLING + 1}, the first {_SETTLING} are left out, got {epochs}")
    shape = ModelSettings(name=model, layers=layers, hidden=hidden)
    shard, found = cut_graph(graph, Random(), 1).shard(graph, 0), []
    clock = Clock(timer=time.thread_time)
    trainer = worker_trainer(shard, make_system("vanilla"), shape, TrainSettings(), clock=clock)
    work = count(trainer)
    with one_thread():
        for epoch in range(epochs):
            clock.take()
            trainer.epoch(epoch)
            seconds = clock.take()
            found.append({**seconds, "epoch": sum(seconds.values())})
        least = least_s(work, Rates(repeats=repeats, timer=time.thread_time))
    trainer.close()
    medians = pd.DataFrame(found[_SETTLING:]).median()
    return limits_table({str(phase): float(each) for phase, each in medians.items()}, least)
