"""Training systems compared: by their axes, by total time and score, and by the number of workers."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData, table_html
from gnnqlab.lab.figures.byte_axis import log_byte_ticks
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.lab.figures.theme import finish
from gnnqlab.lab.training.memory_view import memory_figure
from gnnqlab.systems.registry import SYSTEMS
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from gnnqlab.launch import Run

__all__ = [
    "SystemTable", "agreement", "draw_memory", "draw_scale", "draw_verdict", "measure_runs", "systems_by_axes",
    "verdict",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"measured_of": "measure_runs", "draw_held": "draw_memory"})


@dataclass(frozen=True)
class SystemTable:
    """Table of systems by axis; cells that differ from the first system are bold."""

    frame: DataFrame

    def __repr__(self) -> str:
        return str(self.frame.to_string())

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        first_row = self.frame.iloc[0]
        page = table_html(self.frame, caption="Systems as choices along the axes; bold: differs from the first system")
        for axis in self.frame.columns[:-1]:
            for choice in set(self.frame[axis]) - {first_row[axis]}:  # choices that differ from the first system
                cell = html.escape(choice)  # cells hold escaped text
                page = re.sub(f"(<td[^>]*>){re.escape(cell)}</td>", rf"\1<b>{cell}</b></td>", page)
        # Words get room, so that rows stay low on a narrow page, where the table scrolls sideways.
        page = re.sub(r"(<td[^>]*>)((?:(?!<td).)*)(</td>\s*</tr>)", r'\1<div style="min-width:26em">\2</div>\3', page)
        return {"text/plain": repr(self), "text/html": re.sub("``(.+?)``", r"<code>\1</code>", page)}


def systems_by_axes() -> SystemTable:
    """Return every registered system with its choice along each axis; axes on which all agree are omitted.

    Example:
        >>> table = systems_by_axes().frame
        >>> table.loc["vanilla", "codec"], table.loc["adaqp", "schedule"]
        ('float32', 'overlapped')
    """
    import pandas as pd

    lines = {}
    for name, recipe in SYSTEMS.items():
        # the recipe as JSON: axis -> part with its settings
        choices = {axis: part["name"] for axis, part in recipe().to_json().items() if isinstance(part, dict)}
        # first line of the docstring, after the colon
        summary = (recipe.__doc__ or "").partition("\n")[0].partition(": ")
        lines[name] = {**choices, "in words": (summary[2] or summary[0]).rstrip(".")}
    frame = pd.DataFrame.from_dict(lines, orient="index")
    frame.index.name = "system"
    # axes on which at least two systems differ
    differing_axes = [axis for axis in frame.columns if axis == "in words" or frame[axis].nunique() > 1]
    # Vanilla first: others are compared with it
    names = ["vanilla", *[name for name in frame.index if name != "vanilla"]]
    return SystemTable(frame.loc[names, differing_axes])


def verdict(results: DataFrame, *, services: bool = True) -> DataFrame:
    """Return the speed-up in total time over Vanilla, one row per system, one column per graph and model.

    Args:
        results: result of :func:`gnnqlab.results.bench_results`; only rows of ``gnnqlab bench systems`` are used.
        services: compare systems and Vanilla with every service of this library (``+``); else as published.

    Returns:
        Values above 1 are faster than Vanilla with the same services. ``attrs["points"]`` is a table of the same shape
        with score differences in points, NaN if the 95 % interval contains zero.

    Raises:
        ValueError: if there are no such results.

    Example:
        >>> import pandas as pd
        >>> rows = {"part": "systems", "graph": "cora", "model": "gcn", "figure": ["vanilla", "adaqp"], "unit": "s"}
        >>> kept = pd.DataFrame({**rows, "value": [3.0, 2.0], "points": 0.5, "half_interval": 0.1})
        >>> table = verdict(kept, services=False)
        >>> table.loc["adaqp"].tolist(), table.attrs["points"].loc["adaqp"].tolist()
        ([1.5], [0.5])
    """
    import pandas as pd

    totals = results[(results["part"] == "systems") & (results["unit"] == "s")]
    service_rows = totals[totals["figure"].str.endswith("+") == services]  # "+": with every service of this library
    if service_rows.empty:
        raise ValueError("totals of gnnqlab bench systems are needed, got none; keep them with --keep systems")
    cells: dict[str, dict[str, float]] = {}
    points: dict[str, dict[str, float]] = {}
    for (graph, model), rows in service_rows.groupby(["graph", "model"], sort=False):
        name = f"{graph}, {model}"
        system_rows = rows.set_index(rows["figure"].str.removesuffix("+"))  # names without the suffix
        # seconds of Vanilla over those of the system
        cells[name] = (system_rows.loc["vanilla", "value"] / system_rows["value"]).to_dict()
        is_certain = system_rows["points"].abs() > system_rows["half_interval"]  # the interval excludes zero
        points[name] = system_rows["points"].where(is_certain).to_dict()
    table = pd.DataFrame(cells)
    table.attrs["points"] = pd.DataFrame(points).loc[table.index]
    return table


def draw_verdict(table: DataFrame, *, dark: bool = False) -> FigureData:
    """Draw :func:`verdict` as a heat map: blue is faster than Vanilla, orange slower.

    Raises:
        ValueError: if there is no system.
    """
    import plotly.graph_objects as go

    if table.empty:
        raise ValueError("at least one system is needed, got none; see verdict")
    points = table.attrs["points"]
    texts = [
        [
            f"{table.iat[i, j]:.2f} ×"
            + ("" if points.iat[i, j] != points.iat[i, j] else f"<br>{points.iat[i, j]:+.1f}")
            for j in range(table.shape[1])
        ]
        for i in range(table.shape[0])
    ]
    color_range = max(0.05, float((table - 1).abs().max().max()))  # colours symmetric around 1, at least ± 0.05
    figure = go.Figure(
        go.Heatmap(
            x=[str(case).replace(", ", "<br>") for case in table.columns],
            y=list(table.index),
            z=table.to_numpy().tolist(),
            text=texts,
            texttemplate="%{text}",
            zmid=1.0,
            zmin=1 - color_range,
            zmax=1 + color_range,
            colorscale=[(0.0, "#e69f00"), (0.5, "#f4f4f4"), (1.0, "#56b4e9")],
            textfont={"color": "#1a1a1a", "size": 12},
            colorbar={"title": {"text": "speed-up"}},
            hovertemplate="%{y} on %{x}: speed-up %{z:.2f} over Vanilla<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="graph, model")
    figure.update_yaxes(title_text="system", autorange="reversed")
    best_systems = table.idxmax()
    words = "; ".join(f"{case}: {name} {table.loc[name, case]:.2f} ×" for case, name in best_systems.items())
    caption = (
        f"Speed-up in total time over Vanilla, the best of each column: {words}. "
        "Points are given where a 95 % interval excludes zero."
    )
    finish(figure, title="All systems, speed-up over Vanilla", caption=caption, dark=dark, height=430)
    return FigureData(figure, table.round(2))


# One style per system.
_STYLES = (
    "grey solid circle", "blue solid square", "vermillion dash diamond", "green dot triangle-up", "purple dashdot x",
    "orange longdash star", "sky dash cross",
)  # fmt: skip
# Column -> title of the axis.
_PANELS = (("bytes", "sent per epoch, all workers (bytes)"), ("memory_bytes", "memory of a worker (bytes)"))


def measure_runs(runs: Mapping[str, Run]) -> DataFrame:
    """Return the bytes sent and the memory of runs, in the columns of :func:`gnnqlab.tune.by_workers.by_workers`.

    Args:
        runs: displayed name of the system -> run; a suffix after ``|`` distinguishes runs of one system with
            different numbers of workers. Launch them with ``memory_every=1``.

    Returns:
        ``bytes`` is that of the last epoch: payload and quantization parameters.
    """
    import pandas as pd

    rows = []
    for label, run in runs.items():
        last_records = run.records[run.records["epoch"] == run.records["epoch"].max()]
        memory = run.memory[run.memory["epoch"] == run.memory["epoch"].max()]
        rows.append(
            {
                "system": label.split("|")[0].strip(),  # the name without its suffix
                "workers": run.config.workers,
                "bytes": float((last_records["bytes_payload"] + last_records["bytes_params"]).sum()),
                "memory_bytes": float(memory.groupby("rank")["bytes"].sum().max()),  # the worker that needs the most
            }
        )
    return pd.DataFrame(rows)


def agreement(found: DataFrame, measured: DataFrame) -> DataFrame:
    """Return measured over predicted values, by system and number of workers; 1 is exact.

    Example:
        >>> import pandas as pd
        >>> found = pd.DataFrame({"system": ["SAR"], "workers": 2, "bytes": 10.0, "memory_bytes": 100.0})
        >>> agreement(found, found.assign(memory_bytes=110.0)).loc[("SAR", 2)].to_dict()
        {'bytes': 1.0, 'memory': 1.1}
    """
    keys = ["system", "workers"]
    # rows in the order of the measurements
    ratio = measured.set_index(keys) / found.set_index(keys).loc[list(measured.set_index(keys).index)]
    return ratio.rename(columns={"memory_bytes": "memory"}).round(3)


def draw_scale(found: DataFrame, measured: DataFrame | None = None, *, dark: bool = False) -> FigureData:
    """Draw bytes and memory over the number of workers, one line per system, both axes logarithmic.

    Args:
        found: result of :func:`gnnqlab.tune.by_workers.by_workers`.
        measured: result of :func:`measure_runs`, drawn as open markers of the same shape.

    Raises:
        ValueError: if there is no system, or more than line styles.
    """
    names = list(found["system"].unique())
    if not 1 <= len(names) <= len(_STYLES):
        raise ValueError(f"between 1 and {len(_STYLES)} systems can be drawn, got {len(names)}")
    styles = dict(zip(names, _STYLES))
    counts = sorted(found["workers"].unique().tolist())
    workers = {"title_text": "workers", **value_ticks(counts)}
    charts = []
    for panel, title in _PANELS:
        # zero has no place on a logarithmic axis
        predicted_rows = found[found[panel] > 0].assign(amount=found[panel].map(human_bytes))
        chart = lines(
            predicted_rows,
            x="workers",
            y=panel,
            by="system",
            styles=styles,
            size=7,
            details="amount",
            log="y",
            x_axis=workers,
            y_axis={"title_text": title, **_ticks(found, measured, panel)},
            hover="%{x} workers: %{customdata}",
        )
        if measured is not None:
            marks = {name: f"{style}-open" for name, style in styles.items()}  # the same shape and colour, open
            measured_rows = measured[measured[panel] > 0].assign(amount=measured[panel].map(human_bytes))
            scatter(
                measured_rows[measured_rows["system"].isin(names)],
                x="workers",
                y=panel,
                by="system",
                styles=marks,
                size=15,
                details="amount",
                hover="measured, %{x} workers: %{customdata}",
                figure=chart,
            )
        charts.append(chart)
    largest_rows = found[found["workers"] == counts[-1]].sort_values("bytes")
    words = ", ".join(
        f"{name} {human_bytes(sent_bytes)}" for name, sent_bytes in zip(largest_rows["system"], largest_rows["bytes"])
    )
    caption = f"Sent per epoch at {counts[-1]} workers: {words}." + (
        "" if measured is None else " Open markers are measured."
    )
    figure = panels(
        charts, gap=0.12, title="Traffic and memory by workers", caption=caption, dark=dark, height=440, legend_rows=2
    )
    return FigureData(figure, found)


def draw_memory(runs: Mapping[str, Run]) -> FigureData:
    """Draw the peak memory of runs by purpose, as stacked bars; the frame has the maximum of each purpose.

    Args:
        runs: displayed name -> run, launched with ``memory_every=1``.

    Raises:
        ValueError: if a run recorded no memory.
    """
    import pandas as pd

    memories = {name: run.memory for name, run in runs.items()}
    figure = memory_figure(memories)
    # maximum over workers and epochs
    peaks = {name: memory.groupby("purpose", sort=False)["peak_bytes"].max() for name, memory in memories.items()}
    return FigureData(figure, pd.DataFrame(peaks).T.rename_axis("system"))


def _ticks(predictions: DataFrame, measurements: DataFrame | None, panel: str) -> dict[str, Any]:
    # both frames share one axis
    amounts = [
        value for frame in (predictions, measurements) if frame is not None for value in frame[panel] if value > 0
    ]
    return log_byte_ticks(min(amounts), max(amounts)) if amounts else {}
