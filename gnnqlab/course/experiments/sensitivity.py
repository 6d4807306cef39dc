"""Settings of AdaQP varied over several seeds: runs, tables by group size (AdaQP Fig. 11a), charts with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gnnqlab.former_names import former_functions
from gnnqlab.graph.sources import load
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.simulation.gradient_noise import gradient_noise
from gnnqlab.theory.intervals import interval
from gnnqlab.tune.probe import probe

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.graph.convert.given import GraphLike
    from gnnqlab.run.run import Run

__all__ = ["group_size_table", "launch_seeds", "sensitivity_chart", "sweep_table"]
__getattr__ = former_functions(__name__, {"repeated": "launch_seeds"})


def launch_seeds(graph: Any, *, seeds: Sequence[int] = (0, 1, 2), **settings: Any) -> list[Run]:
    """Launch the same training once per seed, one after another, and wait for each.

    Args:
        graph: see :func:`gnnqlab.launch`.
        seeds: seeds of weights, dropout and noise.
        **settings: see :func:`gnnqlab.launch`.
    """
    from gnnqlab.launch.start import launch

    # one after another: parallel runs would disturb each other's times
    return [launch(graph, seed=seed, wait=True, **settings) for seed in seeds]


def sweep_table(runs: dict[Any, Sequence[Run]], *, knob: str) -> DataFrame:
    """Return one line per run: ``knob, seed, accuracy, epoch_s, bytes_sent``.

    Args:
        runs: value of the setting -> its runs.
        knob: name of the setting, for the first column.
    """
    import pandas as pd

    rows = []
    for value, value_runs in runs.items():
        for run in value_runs:
            summary = run.summary
            score = summary.get("test_accuracy", summary.get("test_f1_micro"))  # multi-label graphs report micro-F1
            accuracy = float("nan") if score is None else float(score)
            rows.append((value, run.config.train.seed, accuracy, summary["epoch_s"], summary["bytes_sent"]))
    return pd.DataFrame(rows, columns=[knob, "seed", "accuracy", "epoch_s", "bytes_sent"])


def group_size_table(
    graph: GraphLike,
    *,
    sizes: Sequence[int] = (5, 20, 100),
    seeds: Sequence[int] = (0, 1, 2),
    lam: float = 0.5,
    repeats: int = 12,
    epochs: int = 12,
    **settings: Any,
) -> DataFrame:
    """Return one line per group size and seed: ``group_size, seed, variance, bytes_sent``.

    Each seed has its own weights, traced ranges and noise. The variance is measured over ``repeats`` passes at the last
    traced weights.

    Args:
        graph: a graph, or its name or path.
        sizes: numbers of rows that share a bit-width.
        seeds: seeds of weights and noise.
        lam: λ.
        repeats: passes with independent noise.
        epochs: epochs to trace.
        **settings: see `gnnqlab.tune.probe.probe`.
    """
    import pandas as pd

    loaded_graph = load(graph)
    rows = []
    for seed in seeds:
        # One traced training per seed serves all group sizes.
        graph_probe = probe(graph, seed=seed, epochs=epochs, launched=False, theorem=False, **settings)
        for size in sizes:
            # bit-widths of this group size, from the same trace
            forecast = graph_probe.forecast(lam=lam, group_size=size)
            noise = gradient_noise(
                loaded_graph,
                graph_probe.build_policy(forecast),
                graph_probe.config.model,
                workers=graph_probe.config.workers,
                repeats=repeats,
                weights=graph_probe.trace.weights,  # the last traced weights
                system=graph_probe.config.system_on_hosts,
                seed=seed,
            )
            rows.append((size, seed, noise.variance, forecast.bytes_sent))
    return pd.DataFrame(rows, columns=["group_size", "seed", "variance", "bytes_sent"])


# Column of the setting -> label of its axis.
_KNOBS = {
    "lam": "λ", "group_size": "group size (rows)", "period": "period (epochs)", "bits": "bits per element",
    "delta": "δ (epochs)",
}  # fmt: skip
# Quantity -> label of its axis and factor from the stored unit.
_VALUES = {
    "accuracy": ("test accuracy (%)", 100.0),
    "epoch_s": ("epoch (ms)", 1e3),
    "variance": ("gradient variance<br>(squared unit of it)", 1.0),
    "bytes_sent": ("sent per epoch (kB)", 1e-3),
}


def sensitivity_chart(
    frame: DataFrame,
    *,
    knob: str,
    values: Sequence[str] = ("accuracy", "epoch_s"),
    baseline: DataFrame | None = None,
    dark: bool = False,
) -> FigureData:
    """Draw the effect of a setting: one panel per quantity, means with 95 % intervals, every run as a faint point.

    Args:
        frame: one line per run, with a column of the setting and one per quantity, see
            `gnnqlab.course.experiments.sensitivity.sweep_table`.
        knob: column of the varied setting.
        values: quantities, ``accuracy``, ``epoch_s``, ``variance`` or ``bytes_sent``.
        baseline: runs of another system with the same quantities; their mean is a dashed line.
        dark: colours for a dark page.

    Raises:
        ValueError: if a column is missing or there is no run.
    """
    import pandas as pd

    missing_columns = [name for name in (knob, *values) if name not in frame]
    if missing_columns or frame.empty:
        raise ValueError(
            f"a line for each run needs columns {(knob, *values)}, missing {missing_columns}; see sweep_table"
        )
    settings = sorted(frame[knob].unique())
    names = [f"{value:g}" for value in settings]
    label_of_knob = _KNOBS.get(knob, knob)
    value_axis = {"title_text": label_of_knob, "type": "category", "categoryarray": names}
    summary, charts = pd.DataFrame(index=pd.Index(settings, name=knob)), []
    for name in values:
        label, unit = _VALUES.get(name, (name, 1.0))
        # mean and half of the 95 % interval, per value
        intervals = [interval((unit * frame.loc[frame[knob] == value, name]).tolist()) for value in settings]
        table = pd.DataFrame(intervals, columns=["mean", "half"], index=names)
        plain_label = label.replace("<br>", " ")
        summary[plain_label], summary[f"{plain_label} ±"] = table["mean"].tolist(), table["half"].tolist()
        # every run as a faint point
        runs = pd.DataFrame({"at": [f"{value:g}" for value in frame[knob]], "one": unit * frame[name]})
        figure = scatter(runs, x="at", y={"one": "one run"}, styles=["grey circle-open"], size=7, x_axis=value_axis)
        exponents = 0 < (table["mean"] + table["half"]).max() < 1e-2  # superscripts of powers are too small to read
        lines(
            table,
            y={"mean": ("mean, 95 % interval", "blue solid square")},
            size=9,
            error="half",
            y_axis={
                "title_text": label,
                "tickformat": "~e" if exponents else None,
                "rangemode": "normal"
                if name == "accuracy"
                else "tozero",  # axes from zero, or differences of 1 % look like a trend
            },
            figure=figure,
        )
        if baseline is not None:
            level = table.assign(level=unit * float(baseline[name].mean()))  # mean of the baseline, a horizontal line
            level_names = {"level": "baseline, mean"}
            lines(level, y=level_names, styles=["vermillion dash"], mode="lines", figure=figure)
        charts.append(figure)
    words = "; ".join(
        f"{label} " + ", ".join(f"{mean:.4g} ± {half:.2g}" for mean, half in zip(summary[label], summary[f"{label} ±"]))
        for label in summary
        if not label.endswith(" ±")
    )
    caption = (
        f"For {label_of_knob} {', '.join(names)}, {frame.groupby(knob).size().min()} runs each, "
        f"mean and 95 % interval: {words}."
    )
    figure = panels(charts, gap=0.14, title=f"Effect of {label_of_knob}", caption=caption, dark=dark, height=350)
    return FigureData(figure, summary)
