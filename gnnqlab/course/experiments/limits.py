"""Limits of an epoch (roofline): rates of the machine, the least time of each part, and a chart of both.

The limit of a part is the least time of its work on this machine: compulsory bytes of aggregations at the rate of a
plain read of the same size, floating point operations at the rate of the framework's product of the same shape,
row-wise passes and the codec at the rate of memcpy, messages at the rate of the link. A part can be below its limit if
it was hidden, as messages behind the computation of central nodes. Products of sparse features are sums of rows of the
weights, and count as aggregations.
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
from gnnqlab.systems.registry import make_system
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

_MIN_S = 0.01
"""Least total seconds of the repeats of a rate."""


@dataclass
class Rates:
    """Measured rates, one per size or shape, each measured on first use.

    A rate is the best of consecutive repeats, as many as needed to fill `_MIN_S`, because other load on the machine
    only slows them down. Data that fits into a CPU cache is read from there.
    """

    repeats: int = 7
    """Least number of repeats."""
    timer: Callable[[], float] = time.perf_counter
    """PhaseTimer, in seconds; the same as for the measurements that are compared with these rates."""
    _best_seconds: dict[tuple[str, object], float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.repeats < 1:
            raise ValueError(f"repeats must be at least 1, got {self.repeats}")

    def read_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a plain read (a sum of float32) of ``num_bytes``."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))  # float32
            return lambda: x.sum()

        return num_bytes / self._best(("read", num_bytes), prepare)

    def copied_bytes_per_s(self, num_bytes: int) -> float:
        """Return the rate of a memcpy of ``num_bytes``: each byte is read and written, and counts once."""

        def prepare() -> Callable[[], object]:
            x = torch.ones(_values(num_bytes))
            y = torch.empty_like(x)
            return lambda: y.copy_(x)

        return num_bytes / self._best(("copy", num_bytes), prepare)

    def flops_per_s(self, product: Product) -> float:
        """Return the rate of PyTorch's float32 product of this shape, into a preallocated output."""

        def prepare() -> Callable[[], object]:
            a, b = torch.ones(product.rows, product.inner), torch.ones(product.inner, product.columns)
            # A transposed operand is a view with column-major memory, as in the product of the training pass.
            a = a.t().contiguous().t() if product.transposed == "a" else a
            b = b.t().contiguous().t() if product.transposed == "b" else b  # row-major operand of the transposed view
            out = torch.empty(product.rows, product.columns)
            return lambda: torch.mm(a, b, out=out)

        return product.flops / self._best(("product", product), prepare)

    def _best(self, key: tuple[str, object], prepare: Callable[[], Callable[[], object]]) -> float:
        if key not in self._best_seconds:
            run = prepare()
            run()  # warm up: allocate, fill caches
            seconds: list[float] = []
            while len(seconds) < self.repeats or sum(seconds) < _MIN_S:
                start = self.timer()
                run()
                seconds.append(self.timer() - start)
            self._best_seconds[key] = min(seconds)  # other load only slows a run down
        return self._best_seconds[key]


def _values(num_bytes: int) -> int:
    return max(1, -(-num_bytes // 4))  # float32 elements, rounded up


PARTS: Mapping[str, tuple[str, ...]] = {
    "neighbour sums": ("central", "marginal"),
    "products": ("products",),
    "node-wise": ("elementwise",),
    "codec": ("encode", "decode"),
    "wire": ("wait", "reduce"),
}
"""Part with a limit -> phases of the clock, in an epoch with counted products."""
OTHER, EPOCH = "other", "epoch"
"""Rows of the rest, which has no limit, and of the whole epoch."""
_WIRE = "wire"
_SETTLING = 2
"""Number of first epochs that are excluded, because they include set-up."""


def least_s(work: Work, rates: Rates, *, coded: Mapping[int, int] | None = None) -> dict[str, float]:
    """Return the least seconds of an epoch's parts without the wire; 0 for parts without work.

    Args:
        work: work of one training pass.
        rates: rates of the process that trains.
        coded: bytes of float32 rows encoded or decoded in one call -> number of such calls.
    """
    # bytes / (bytes per second), each size at its own rate
    sums = sum(
        times * neighbour_sum.bytes / rates.read_bytes_per_s(neighbour_sum.bytes)
        for neighbour_sum, times in work.sums.items()
    )
    products = sum(times * product.flops / rates.flops_per_s(product) for product, times in work.products.items())
    # a memcpy reads and writes its bytes
    halves = ((row_pass.bytes // 2, times) for row_pass, times in work.passes.items())
    passes = sum(times * half / rates.copied_bytes_per_s(half) for half, times in halves)
    codec = sum(times * num_bytes / rates.copied_bytes_per_s(num_bytes) for num_bytes, times in (coded or {}).items())
    return {"neighbour sums": sums, "products": products, "node-wise": passes, "codec": codec}


def coded_bytes(trainer: Trainer) -> Counter[int]:
    """Return the bytes of float32 rows encoded or decoded in one call -> number of such calls per epoch."""
    calls = Counter[int]()
    for channel in [] if trainer.exchange is None else trainer.exchange.channels:  # one channel per layer and direction
        for rows in (channel.plan.sent_rows, channel.plan.received_rows):
            if number := int(rows.sum()):
                calls[4 * number * channel.columns] += 1  # bytes of float32 rows: 4 per element
    return calls


def limits_table(
    seconds: Mapping[str, float], least: Mapping[str, float], *, wire_s: float = 0.0, overlapped: bool = False
) -> DataFrame:
    """Return the measured times and the limits of the parts of an epoch.

    Args:
        seconds: phase of the clock, such as ``central``, -> seconds; ``epoch`` is the whole.
        least: part -> seconds, result of :func:`least_s`.
        wire_s: seconds of the epoch's bytes at the rate of the link.
        overlapped: True if messages are sent while central nodes are computed.

    Returns:
        One row per part (parts without work are in `OTHER`), and `EPOCH`, whose limit is the sum of the others, or for
        an overlapped epoch the larger of wire and all the rest (:func:`gnnqlab.theory.cost.epoch_s`). Columns
        ``measured (ms)``, ``limit (ms)``, ``measured / limit`` (NaN without a limit) and ``share (%)``.

    Raises:
        ValueError: if the epoch took no time.

    Example:
        >>> seconds = {"central": 0.004, "products": 0.005, "optimizer": 0.001, "epoch": 0.010}
        >>> limits_table(seconds, {"neighbour sums": 0.001, "products": 0.004})["measured / limit"].tolist()
        [4.0, 1.25, nan, 2.0]
    """
    import pandas as pd

    total_s = seconds["epoch"]
    if not total_s > 0:
        raise ValueError(f"an epoch must take some time, got {total_s} s")
    limits = {part: limit for part, limit in {**least, _WIRE: wire_s}.items() if limit > 0}
    # phases summed by part
    measured_s = {part: sum(seconds.get(phase, 0.0) for phase in PARTS[part]) for part in PARTS if part in limits}
    measured_s[OTHER] = total_s - sum(measured_s.values())  # the rest has no limit
    limits[EPOCH] = epoch_s([wire_s], [sum(least.values())], 0.0, overlapped=overlapped)
    table = pd.DataFrame({"measured (ms)": {**measured_s, EPOCH: total_s}, "limit (ms)": limits}).loc[
        [*measured_s, EPOCH]
    ]
    table["measured / limit"] = table["measured (ms)"] / table["limit (ms)"]
    table["share (%)"] = 100 * table["measured (ms)"] / total_s
    table[["measured (ms)", "limit (ms)"]] *= 1e3  # seconds -> ms
    return table.rename_axis("part")


def measure_limits(
    graph: Graph, *, model: str = "gcn", epochs: int = 8, repeats: int = 7, layers: int = 3, hidden: int = 128
) -> DataFrame:
    """Measure :func:`limits_table` for one worker on the whole graph, in one thread of this process.

    Seconds and rates are processor time, so other load on the machine has little effect. The result is still
    indicative; ``gnnqlab bench limits`` is the figure to quote.

    Args:
        graph: graph with features and labels.
        model: a model without attention.
        epochs: epochs to train; seconds are medians without the first two.
        repeats: repeats of each rate, of which the best counts.
        layers, hidden: shape of the model.

    Raises:
        ValueError: if there are too few epochs, or the model has attention.
    """
    import pandas as pd

    if epochs <= _SETTLING:
        raise ValueError(f"epochs must be at least {_SETTLING + 1}, the first {_SETTLING} do not count, got {epochs}")
    shape = ModelSettings(name=model, layers=layers, hidden=hidden)
    shard, epoch_phases = cut_graph(graph, Random(), 1).shard(graph, 0), []  # one worker that owns the whole graph
    clock = PhaseTimer(timer=time.thread_time)  # processor time of this thread
    trainer = worker_trainer(shard, make_system("vanilla"), shape, TrainSettings(), clock=clock)
    work = count(trainer)
    with one_thread():
        for epoch in range(epochs):
            clock.take()  # discard the time between epochs
            trainer.epoch(epoch)
            seconds = clock.take()
            epoch_phases.append({**seconds, "epoch": sum(seconds.values())})
        least_seconds = least_s(work, Rates(repeats=repeats, timer=time.thread_time))
    trainer.close()
    medians = pd.DataFrame(epoch_phases[_SETTLING:]).median()  # median over epochs, by phase
    return limits_table({str(phase): float(median) for phase, median in medians.items()}, least_seconds)


def draw_limits(table: DataFrame, *, title: str = "An epoch and its limits", dark: bool = False) -> FigureData:
    """Draw each part of an epoch: measured time above, limit below, and their ratio.

    Args:
        table: result of :func:`gnnqlab.course.experiments.limits.measure_limits`, or ``limits_table``.
        title: title of the figure.
        dark: colours for a dark page.

    Raises:
        ValueError: if the table has no row of the whole epoch.
    """
    if EPOCH not in table.index:
        raise ValueError(f"the table must have a row {EPOCH!r}, got {list(table.index)}; see limits_table")
    parts, epoch_row = table.drop(EPOCH), table.loc[EPOCH]
    limited = parts.dropna(subset="limit (ms)")  # the bars of limits exist for these parts only
    words = "; ".join(
        f"{part} {_ms(row['measured (ms)'])} of at least {_ms(row['limit (ms)'])} ms ({row['share (%)']:.0f} %)"
        for part, row in limited.iterrows()
    )
    caption = (
        f"An epoch took {_ms(epoch_row['measured (ms)'])} ms; its limit is {_ms(epoch_row['limit (ms)'])} ms "
        f"({_times(epoch_row['measured / limit'])}). By part, and share of the epoch: {words}. Indicative."
    )
    # Leave space for the text after the longest bar.
    room = [0, 1.12 * float(parts[["measured (ms)", "limit (ms)"]].max().max())]
    figure = bars(
        parts.assign(times=[_times(ratio) for ratio in parts["measured / limit"]]),
        y={"measured (ms)": ("measured", "blue")},
        text="times",
        horizontal=True,
        x_axis={"title_text": "time per epoch (ms)", "range": room},
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
    """Format a ratio for a bar; empty for NaN, without a limit.

    Example:
        >>> _times(1.25), _times(36.7), _times(1250.0), _times(float("nan"))
        ('1.2 ×', '37 ×', '1250 ×', '')
    """
    return "" if ratio != ratio else f"{ratio:.1f} ×" if ratio < 10 else f"{ratio:.0f} ×"


def _ms(milliseconds: float) -> str:
    """Format milliseconds with three significant digits, or without decimals from 1000 on.

    Example:
        >>> _ms(0.20857), _ms(29.84), _ms(1186.4)
        ('0.209', '29.8', '1186')
    """
    return f"{milliseconds:.3g}" if milliseconds < 1000 else f"{milliseconds:.0f}"
