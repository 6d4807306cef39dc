"""Yesterday's rows, to be looked at: how old they are, how wrong that makes them, and what travels meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from gnnqlab.exchange.pipeline import AdaptivePipeline, Pipelined
from gnnqlab.exchange.schedule import Overlapped, Schedule
from gnnqlab.lab.bundle import Bundle
from gnnqlab.lab.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.partition.parts import Parts
    from gnnqlab.systems.system import System

__all__ = ["MODES", "ages", "compare_modes", "draw_epoch", "draw_old_rows", "old_rows"]

MODES: dict[str, Schedule] = {
    "always-sync": Overlapped(),
    "always-async": Pipelined(),
    "adaptive": AdaptivePipeline(bound=10),
}
"""The lines of SYLVIE's Table XI: schedules by name."""


def ages(schedule: Any, losses: Sequence[float], *, epoch_s: float = 1.0) -> DataFrame:
    """Return how old the rows are that each epoch uses, by the schedule and the Coordinator that training has.

    Args:
        schedule: a part of the axis ``schedule``.
        losses: of the epochs, what the Coordinator looks at.
        epoch_s: seconds of every epoch.

    Returns:
        By ``epoch``: ``rows of`` (the epoch that posted them), ``age`` and ``why``, if somebody decided that.

    Example:
        >>> ages(Pipelined(), [4, 3, 2])["age"].tolist(), ages(Overlapped(), [4, 3, 2])["age"].tolist()
        ([0, 1, 1], [0, 0, 0])
        >>> ages(AdaptivePipeline(bound=2), [9, 8, 7, 6, 5, 4])["age"].tolist()
        [0, 1, 1, 0, 1, 1]
    """
    import pandas as pd

    from gnnqlab.train.coordinator import Coordinator

    runner = schedule.runner()
    coordinator = Coordinator.of(None, schedule, runner)
    lines = []
    why: dict[int, str] = {}
    for epoch, loss in enumerate(losses):
        step = _Posted(epoch)
        runner.run(step, (0, "forward"))
        lines.append((epoch, step.used, epoch - step.used, why.get(epoch, "")))
        if coordinator is not None:
            coordinator.after_epoch(epoch, loss, epoch_s)
            why.update({entry["epoch"]: f"{entry['what']}: {entry['why']}" for entry in coordinator.decisions})
    return pd.DataFrame(lines, columns=["epoch", "rows of", "age", "why"]).set_index("epoch")


class _Posted:
    """A step of one layer whose row is the number of the epoch that posted it."""

    def __init__(self, epoch: int) -> None:
        self._epoch = epoch
        self.used = -1

    def post(self) -> None:
        self.came = _Came(self._epoch)

    def wait(self) -> None:
        self.take(self.came)

    def take(self, came: _Came, rows: Tensor | None = None) -> None:
        self.used = int(came.finish())

    def prepare(self) -> None: ...
    def independent(self) -> None: ...
    def dependent(self) -> None: ...


class _Came:
    def __init__(self, epoch: int) -> None:
        self._epoch = epoch

    def arrive(self) -> None: ...

    def finish(self) -> Tensor:
        import torch

        return torch.tensor(float(self._epoch))


def old_rows(
    parts: Parts,
    *,
    ages: Sequence[int] = (1, 2, 5),
    smoothing: Sequence[float] = (),
    bits: Sequence[int] = (2,),
    layer: int = 1,
    hidden: int = 64,
    layers: int = 3,
    dropout: float = 0.0,
    lr: float = 0.01,
    epochs: int = 60,
    seed: int = 0,
) -> DataFrame:
    """Return by how much an old row is wrong, beside a fresh row in few bits.

    The distance from the row of this epoch, over all rows that travel, relative to their length. The training is that
    of one process, with exact rows.

    Args:
        parts: says which rows travel.
        ages: in epochs.
        smoothing: γ; the mean ``m <- γ m + (1 - γ) row`` over rows that are one epoch old.
        bits: fresh rows with stochastic rounding, the root of their expected squared error.
        layer: whose input, from 0.
        hidden, layers, dropout, lr, epochs, seed: of a GCN and its training.

    Returns:
        By ``epoch``, a column each: ``2 epochs old``, ``γ = 0.5``, ``fresh, 2 bits``.

    Raises:
        ValueError: if no row travels.

    Example:
        >>> from gnnqlab.lab import course
        >>> from gnnqlab.partition.parts import partition
        >>> frame = old_rows(partition(course.ten_nodes(), course.Halves(), workers=2), ages=(1, 3), epochs=20)
        >>> bool((frame["3 epochs old"] > frame["1 epoch old"]).iloc[5:].all())
        True
    """
    import pandas as pd
    import torch

    from gnnqlab.theory.variance import decoded_moments

    ids = torch.cat([shard.halo for shard in parts.shards]).unique()
    if ids.numel() == 0:
        raise ValueError("rows must travel to be old, but these parts share no edge; cut the graph into more parts")
    rows = _rows_by_epoch(parts.graph, ids, layer, hidden, layers, dropout, lr, epochs, seed)

    def wrong(other: Tensor, fresh: Tensor) -> float:
        return float((other - fresh).norm() / fresh.norm())

    table: dict[str, list[float]] = {}
    for age in ages:
        name = f"{age} epoch{'s' if age > 1 else ''} old"
        table[name] = [float("nan")] * age + [wrong(rows[t - age], rows[t]) for t in range(age, epochs)]
    for gamma in smoothing:
        mean, distances = rows[0], [float("nan")]
        for t in range(1, epochs):
            mean = torch.lerp(rows[t - 1], mean, gamma)
            distances.append(wrong(mean, rows[t]))
        table[f"γ = {gamma:g}"] = distances
    for width in bits:
        squares = [float(decoded_moments(fresh, width).exact.sum()) for fresh in rows]
        errors = [square**0.5 / float(fresh.norm()) for square, fresh in zip(squares, rows)]
        table[f"fresh, {width} bit{'s' if width > 1 else ''}"] = errors
    return pd.DataFrame(table, index=pd.Index(range(epochs), name="epoch"))


def _rows_by_epoch(
    graph: Graph, ids: Tensor, layer: int, hidden: int, layers: int, dropout: float, lr: float, epochs: int, seed: int
) -> list[Tensor]:
    """The rows that one layer aggregates, epoch by epoch."""
    from gnnqlab.nn.message_passing import LocalGraph
    from gnnqlab.nn.models.registry import ModelSettings, build_model
    from gnnqlab.train.config import TrainSettings
    from gnnqlab.train.objective import Objective
    from gnnqlab.train.trainer import Trainer

    model = ModelSettings(name="gcn", layers=layers, hidden=hidden, dropout=dropout)
    network = build_model(model, graph.num_features, graph.num_classes, seed=seed)
    local = LocalGraph(graph, seed=seed)
    trainer = Trainer(local, Objective.of(graph), network, TrainSettings(seed=seed, lr=lr))
    found: list[Tensor] = []
    aggregate: Callable[..., Tensor] = local._aggregate

    def keep(x: Tensor, alpha: str, hop: int, epoch: int, training: bool) -> Tensor:
        if hop == layer:
            found.append(x.detach()[ids].clone())
        return aggregate(x, alpha, hop, epoch, training)

    local._aggregate = keep  # type: ignore[method-assign]
    for epoch in range(epochs):
        trainer.epoch(epoch)
    return found


def draw_old_rows(frames: Mapping[str, DataFrame], *, dark: bool = False) -> Bundle:
    """Draw `old_rows`, a panel a frame: solid blue for age, dashed green for smoothed, grey dots for few bits."""
    import pandas as pd
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=len(frames), shared_yaxes=True, subplot_titles=list(frames), horizontal_spacing=0.05
    )
    shown: set[str] = set()
    for column, frame in enumerate(frames.values(), start=1):
        for kind, color, dash, names in _families(frame):
            for place, name in enumerate(names):
                figure.add_scatter(
                    x=frame.index.tolist(),
                    y=(100 * frame[name]).tolist(),
                    mode="lines",
                    name=name,
                    legendgroup=name,
                    showlegend=name not in shown,
                    line={"color": color[place % len(color)], "dash": dash, "width": 2.5},
                    hovertemplate=f"{name}: %{{y:.1f}} % · epoch %{{x}}<extra>{kind}</extra>",
                    row=1,
                    col=column,
                )
                shown.add(name)
    figure.update_xaxes(title_text="epoch")
    figure.update_yaxes(type="log", tickvals=[0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200])
    figure.update_yaxes(title_text="distance from the fresh row (% of its length)", row=1, col=1)
    words = [
        f"{label}: " + ", ".join(f"{name} {100 * frame[name].iloc[-10:].mean():.2g} %" for name in frame)
        for label, frame in frames.items()
    ]
    caption = f"By how much rows are wrong, mean of the last ten epochs. {'; '.join(words)}."
    finish(figure, title="How wrong is an old row?", caption=caption, dark=dark, height=420)
    figure.update_layout(legend={"y": -0.2, "yanchor": "top"}, margin={"t": 76, "b": 110})
    return Bundle(figure, pd.concat(frames, axis=1))


def _families(frame: DataFrame) -> list[tuple[str, list[str], str, list[str]]]:
    blues, greens = ["#9ecae1", "#4292c6", "#08519c", "#08306b"], ["#7fceb9", "#009e73", "#00523c"]
    return [
        ("old", blues, "solid", [name for name in frame if name.endswith(" old")]),
        ("smoothed", greens, "dash", [name for name in frame if name.startswith("γ")]),
        ("fresh", [OKABE_ITO["vermillion"], OKABE_ITO["orange"]], "dot", [n for n in frame if n.startswith("fresh")]),
    ]


def draw_epoch(timelines: Mapping[str, DataFrame], *, rank: int = 0, dark: bool = False) -> Bundle:
    """Draw one whole epoch of one worker, a panel a run: what it does, and when the bytes that it uses travel.

    Bytes left of 0 travelled before the epoch began.

    Args:
        timelines: ``run.timeline`` by label; of the recorded epochs the one whose length is the median.
        rank: the worker.
        dark: colours for a dark page.

    Raises:
        ValueError: if a timeline has nothing of that worker.
    """
    import pandas as pd
    from plotly.subplots import make_subplots

    frames = {label: _one_epoch(timeline, rank) for label, timeline in timelines.items()}
    figure = make_subplots(
        rows=len(frames), cols=1, shared_xaxes=True, subplot_titles=list(frames), vertical_spacing=0.22 / len(frames)
    )
    looks = {
        "rows, encode, decode": (OKABE_ITO["green"], ""),
        "wait": (OKABE_ITO["vermillion"], "x"),
        "bytes forward": (OKABE_ITO["sky"], "/"),
        "bytes backward": (OKABE_ITO["orange"], "\\"),
    }
    for row, frame in enumerate(frames.values(), start=1):
        for name, (color, pattern) in looks.items():
            some = frame[frame["part"] == name]
            figure.add_bar(
                y=some["line"].tolist(),
                x=(some["end (ms)"] - some["start (ms)"]).clip(lower=0.15).tolist(),
                base=some["start (ms)"].tolist(),
                orientation="h",
                width=0.7,
                name=name,
                legendgroup=name,
                showlegend=row == 1,
                marker={
                    "color": color,
                    "pattern": {"shape": pattern, "size": 5, "solidity": 0.25},
                    "line": {"width": 0},
                },
                customdata=some["layer"].tolist(),
                hovertemplate=f"{name}, layer %{{customdata}}: %{{x:.1f}} ms from %{{base:.1f}} ms<extra></extra>",
                row=row,
                col=1,
            )
        lines = ["worker", *(f"layer {layer + 1} {way}" for way in ("→", "←") for layer in sorted(set(frame["layer"])))]
        lines = [line for line in lines if line in set(frame["line"])]
        figure.update_yaxes(categoryorder="array", categoryarray=lines, autorange="reversed", showgrid=False, row=row)
        figure.add_vline(x=0, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1}, row=row, col=1)
        figure.update_xaxes(showticklabels=True, row=row, col=1)
    figure.update_xaxes(title_text="milliseconds since the epoch's first layer began", row=len(frames), col=1)
    words = []
    for label, frame in frames.items():
        waited = frame[frame["part"] == "wait"]
        waits = float((waited["end (ms)"] - waited["start (ms)"]).sum())
        length = float(frame[frame["line"] == "worker"]["end (ms)"].max())
        words.append(f"{label} takes {length:.3g} ms to the end of its last layer and waits {waits:.3g} ms of them")
    caption = f"One epoch of worker {rank}, without the sum of weight gradients: {'; '.join(words)}."
    height = 130 + sum(60 + 26 * frame["line"].nunique() for frame in frames.values())
    title = f"An epoch of worker {rank}: what it does, what travels"
    finish(figure, title=title, caption=caption, dark=dark, height=height)
    legend = {"traceorder": "normal", "y": -60 / (height - 160), "yanchor": "top"}
    figure.update_layout(barmode="overlay", legend=legend, margin={"t": 76, "b": 100})
    return Bundle(figure, pd.concat(frames, names=["run"]).reset_index(level=0).set_index("run"))


def _one_epoch(timeline: DataFrame, rank: int) -> DataFrame:
    mine = timeline[timeline["rank"] == rank]
    if mine.empty:
        raise ValueError(f"nothing was recorded of worker {rank}; launch with timeline_every=5")
    own = mine[mine["what"] != "transfer"].groupby("epoch")
    took = (own["end_s"].max() - own["start_s"].min()).iloc[1:]  # the first epoch also sets things up
    epoch = int(took.sort_values(kind="stable").index[(len(took) - 1) // 2])
    found = mine[mine["epoch"] == epoch].copy()
    begin = found[found["what"] != "transfer"]["start_s"].min()
    found["start (ms)"], found["end (ms)"] = 1e3 * (found["start_s"] - begin), 1e3 * (found["end_s"] - begin)
    way = {"forward": "→", "backward": "←"}
    travels = found["what"] == "transfer"
    found["line"] = [
        f"layer {layer + 1} {way[direction]}" if moves else "worker"
        for layer, direction, moves in zip(found["layer"], found["direction"], travels)
    ]
    found["part"] = [
        f"bytes {direction}" if moves else "wait" if what == "wait" else "rows, encode, decode"
        for what, direction, moves in zip(found["what"], found["direction"], travels)
    ]
    return found[["epoch", "line", "part", "layer", "start (ms)", "end (ms)"]].sort_values("start (ms)")


def compare_modes(
    graph: Graph, system: System, *, seeds: Sequence[int] = (0,), epochs: int = 40, **settings: Any
) -> DataFrame:
    """Train a system always synchronously, always a day behind, and adaptively (SYLVIE's Table XI).

    Args:
        graph: the graph.
        system: whose schedule is replaced.
        seeds: one run of every mode for each; modes take turns, so that a busy machine disturbs all alike.
        epochs: of every run.
        **settings: of ``gq.launch``: ``workers``, ``hidden``, ``link`` and so on.

    Returns:
        By ``mode``: median ``epoch (ms)``, mean ``final loss`` and ``accuracy (%)``, ``± (points)`` the half width of
        its 95 % interval (Student; NaN with one seed), ``stale epochs (%)``.
    """
    import pandas as pd

    from gnnqlab.lab.sensitivity import interval
    from gnnqlab.launch.start import launch

    lines = []
    for seed in seeds:
        for mode, schedule in MODES.items():
            made = replace(system, schedule=schedule, name=f"{system.name} {mode}")
            run = launch(graph, system=made, epochs=epochs, seed=seed, **settings).wait()
            summary = run.summary
            score = float(summary.get("test_accuracy", summary.get("test_f1_micro", float("nan"))))
            stale = stale_share(mode, run.decisions, epochs)
            lines.append((mode, 1e3 * summary["epoch_s"], summary["final_loss"], 100 * score, 100 * stale))
    columns = ["mode", "epoch (ms)", "final loss", "accuracy (%)", "stale epochs (%)"]
    groups = pd.DataFrame(lines, columns=columns).groupby("mode", sort=False)
    table = groups.mean()
    table["epoch (ms)"] = groups["epoch (ms)"].median()
    halves = [interval(group["accuracy (%)"].tolist())[1] if len(seeds) > 1 else float("nan") for _, group in groups]
    table.insert(3, "± (points)", halves)
    return table


def stale_share(mode: str, decisions: DataFrame, epochs: int) -> float:
    """Return the share of epochs that used rows of the epoch before, from the Coordinator's decisions."""
    if mode != "adaptive":
        return 0.0 if mode == "always-sync" else (epochs - 1) / epochs
    fresh = [True] + [False] * (epochs - 1)
    for epoch, what in zip(decisions["epoch"], decisions["what"]):
        if what in ("fresh rows", "rows of the epoch before"):
            fresh[int(epoch) :] = [what == "fresh rows"] * len(fresh[int(epoch) :])
    return fresh.count(False) / epochs
