"""Limits of an epoch: rates of the machine, the least time of each part, and both in a chart.

A part's limit is the least time of its own work on this machine: compulsory bytes of neighbour sums at the rate of a
plain read of as many, floating point operations at the rate of the framework's product of the same shape, passes over
rows and the codec at that of memcpy, messages at the rate of the link. A part below its limit was hidden: messages
under central rows. Products of sparse features are sums of weights' rows, and stand among neighbour sums.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch

from gnnqlab.course.experiments.counted import Work, count
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.edge_cut import Random
from gnnqlab.partition.parts import cut_graph
from gnnqlab.simulation.threaded_workers import one_thread
from gnnqlab.systems.system import make_system
from gnnqlab.theory.cost import epoch_s
from gnnqlab.theory.limits import Product
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.phase_timer import PhaseTimer
from gnnqlab.train.loop.trainer import Trainer, worker_trainer

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.graph import Graph

__all__ = [
    "EPOCH", "OTHER", "PARTS", "Rates", "coded_bytes", "draw_limits", "least_s", "limits_table", "measure_limits",
]  # fmt: skip

_LEAST_S = 0.01
"""Seconds in which a rate is measured at least."""


@dataclass
class Rates:
    """Measured rates, one for each size or shape, each measured when it is first asked for.

    A rate is the best of some repeats in a row, short ones as many as fit into `_LEAST_S`: what else runs on the
    machine slows them down and speeds none up. What fits into a cache is read from there.
    """

    repeats: int = 7
    """At least."""
    timer: Callable[[], float] = time.perf_counter
    """Seconds; that of the clock by which what stands beside these rates was measured."""
    _known: dict[tuple[str, object], float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")

    def read_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a plain read (a sum of float32) of so many bytes."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))
            return lambda: x.sum()

        return num_bytes / self._best(("read", num_bytes), prepare)

    def copied_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a memcpy of so many bytes: each is read once and written once, and counted once."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))
            y = torch.empty_like(x)
            return lambda: y.copy_(x)

        return num_bytes / self._best(("copy", num_bytes), prepare)

    def flops_per_s(self, product: Product) -> float:
        """Return the rate of the framework's own float32 product of this shape, into memory that is there."""

        def prepare() -> Callable[[], object]:
            a, b = torch.ones(product.rows, product.inner), torch.ones(product.inner, product.columns)
            a = a.t().contiguous().t() if product.transposed == "a" else a
            b = b.t().contiguous().t() if product.transposed == "b" else b
            out = torch.empty(product.rows, product.columns)
            return lambda: torch.mm(a, b, out=out)

        return product.flops / self._best(("product", product), prepare)

    def _best(self, key: tuple[str, object], prepare: Callable[[], Callable[[], object]]) -> float:
        if key not in self._known:
            run = prepare()
            run()
            seconds: list[float] = []
            while len(seconds) < self.repeats or sum(seconds) < _LEAST_S:
                begun = self.timer()
                run()
                seconds.append(self.timer() - begun)
            self._known[key] = min(seconds)
        return self._known[key]


def _values(num_bytes: int) -> int:
    return max(1, -(-num_bytes // 4))


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

    if epochs <= _SETTLING:
        raise ValueError(f"epochs must be at least {_SETTLING + 1}, the first {_SETTLING} are left out, got {epochs}")
    shape = ModelSettings(name=model, layers=layers, hidden=hidden)
    shard, found = cut_graph(graph, Random(), 1).shard(graph, 0), []
    clock = PhaseTimer(timer=time.thread_time)
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


def draw_limits(table: DataFrame, *, title: str = "An epoch beside its limits", dark: bool = False) -> FigureData:
    """Draw each part of an epoch: above what it took, below what its work takes at least, and how many times that is.

    Args:
        table: of :func:`gnnqlab.course.experiments.limits.measure_limits`, or ``limits_table``.
        title: of the figure.
        dark: colours for a dark page.

    Raises:
        ValueError: if the table has no row of the whole epoch.
    """
    if EPOCH not in table.index:
        raise ValueError(f"the table must have a row {EPOCH!r}, got {list(table.index)}; see limits_table")
    parts, whole = table.drop(EPOCH), table.loc[EPOCH]
    limited = parts.dropna(subset="limit (ms)")
    each = "; ".join(
        f"{part} {_ms(row['measured (ms)'])} beside {_ms(row['limit (ms)'])} ms ({row['share (%)']:.0f} %)"
        for part, row in limited.iterrows()
    )
    caption = (
        f"An epoch took {_ms(whole['measured (ms)'])} ms; its limit is {_ms(whole['limit (ms)'])} ms "
        f"({_times(whole['measured / limit'])}). By part, and share of the epoch: {each}. Indicative."
    )
    # Room for what stands behind the longest bar.
    room = [0, 1.12 * float(parts[["measured (ms)", "limit (ms)"]].max().max())]
    figure = bars(
        parts.assign(times=[_times(ratio) for ratio in parts["measured / limit"]]),
        y={"measured (ms)": ("measured", "blue")},
        text="times",
        horizontal=True,
        x_axis={"title_text": "time an epoch (ms)", "range": room},
        y_axis="part",
    )
    figure = bars(
        limited,
        y={"limit (ms)": ("limit", "orange /")},
        horizontal=True,
        figure=figure,
        title=title,
        caption=caption,
        dark=dark,
        height=180 + 50 * len(parts),
    )
    return FigureData(figure, table.round(3))


def _times(ratio: float) -> str:
    """Return a ratio as a bar has it; nothing where there is no limit.

    Example:
        >>> _times(1.25), _times(36.7), _times(1250.0), _times(float("nan"))
        ('1.2 ×', '37 ×', '1250 ×', '')
    """
    return "" if ratio != ratio else f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"


def _ms(milliseconds: float) -> str:
    """Return milliseconds with three digits, or all before the point.

    Example:
        >>> _ms(0.20857), _ms(29.84), _ms(1186.4)
        ('0.209', '29.8', '1186')
    """
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"
