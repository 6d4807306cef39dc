"""Charts of CUDA kernels and of training on GPUs.

All but `draw_compiled` take the rows of ``gq.results.bench_results()``, stored by ``make gpu``. Without measurements
they return a notice with the command to run.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars, lines, panels, scatter
from gnnqlab.lab.figures.theme import OKABE_ITO
from gnnqlab.units import human_bytes

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = [
    "PARTS", "Notice", "draw_compiled", "draw_kernels", "draw_overlap", "draw_training", "list_measurements",
    "training_table",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"measured": "list_measurements"})

PARTS = {
    "gpu-kernels": "kernels compared with their ceilings",
    "gpu-train": "training at the shapes of ogbn-products and Reddit",
    "gpu-overlap": "computation hidden behind messages",
}
"""Table of ``make gpu`` -> its content."""
# Kind of kernel -> colour of its bars.
_KINDS = {"codec": "blue", "noise": "purple", "sums": "green", "attention": "orange", "int8": "sky"}
# Number of workers -> colour of its bars.
_WORKERS = {1: "grey", 2: "blue", 4: "vermillion", 8: "green"}


@dataclass(frozen=True)
class Notice:
    """Sentence shown instead of a figure; text in backticks is rendered as code."""

    text: str

    def __repr__(self) -> str:
        return self.text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        words = re.sub(r"`([^`]*)`", r"<code>\1</code>", html.escape(self.text))  # `code` -> HTML, after escaping
        return {"text/plain": self.text, "text/html": f"<p><strong>{words}</strong></p>"}


def _part(results: DataFrame, part: str) -> DataFrame:
    return results[results["part"] == part].dropna(axis=1, how="all")  # columns that only other parts use are dropped


def _missing_notice(part: str) -> Notice:
    return Notice(f"Not measured on a GPU yet: {PARTS[part]}. Run `make gpu` on a machine with a GPU to measure it.")


def list_measurements(results: DataFrame) -> DataFrame:
    """List the GPU measurements, one line per part: ``what``, ``rows``, ``device``, ``date`` and ``command``.

    Example:
        >>> import pandas as pd
        >>> list_measurements(pd.DataFrame(columns=["part", "date", "device", "command"]))["rows"].tolist()
        [0, 0, 0]
    """
    import pandas as pd

    lines = []
    for part, description in PARTS.items():
        rows = results[results["part"] == part]
        # distinct origins of the rows
        origin = [", ".join(map(str, rows[name].unique())) or "–" for name in ("device", "date", "command")]
        lines.append((part, description, len(rows), *origin))
    return pd.DataFrame(lines, columns=["part", "what", "rows", "device", "date", "command"]).set_index("part")


def draw_kernels(results: DataFrame, *, dark: bool = False) -> FigureData | Notice:
    """Draw every kernel's speed relative to its ceiling or rival, and the goals; one bar per metric."""
    rows = _part(results, "gpu-kernels")
    if rows.empty:
        return _missing_notice("gpu-kernels")
    device = str(rows["device"].iloc[0])
    rows = rows.assign(
        # metric and variant, without an empty variant
        name=[", ".join(filter(None, names)) for names in zip(rows["metric"], rows["variant"].fillna(""))],
        comparison=[
            f"{value:.4g} {unit}, {rival} {rival_value:.4g}"
            for value, unit, rival, rival_value in zip(rows["value"], rows["unit"], rows["rival"], rows["rival_value"])
        ],
    )
    goals = rows[rows["goal"].notna()] if "goal" in rows else rows.iloc[:0]  # a column of missing values was dropped
    missed_goals = [
        f"{name} {ratio:.2f} of {goal:g}"
        for name, ratio, goal in zip(goals["name"], goals["ratio"], goals["goal"] if len(goals) else ())
        if ratio < goal
    ]
    words = f"{len(goals) - len(missed_goals)} of {len(goals)} goals reached" + (
        f"; missed: {', '.join(missed_goals)}" if missed_goals else ""
    )
    figure = bars(
        rows,
        x="name",
        y="ratio",
        by="kernel",
        styles=_KINDS,
        horizontal=True,
        details="comparison",
        zero="x",
        x_axis="speed relative to the ceiling or rival (1: equal)",
        y_axis={"title_text": "kernel", "tickfont": {"size": 10}},
        title=f"Kernels on {device}",
        caption=f"{len(rows)} measurements of kernels on {device}, relative to ceilings or rivals: {words}.",
        dark=dark,
        height=170 + 22 * len(rows),  # 22 pixels per bar
    )
    # Goals are short vertical marks on the bars, so that a missed goal is right of the end of its bar.
    figure.add_scatter(
        y=goals["name"].tolist(),
        x=goals["goal"].tolist() if len(goals) else [],
        mode="markers",
        name="goal",
        marker={"symbol": "line-ns-open", "size": 12, "color": OKABE_ITO["vermillion"], "line": {"width": 3}},
    )
    figure.add_vline(x=1, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1})
    columns = ["case", "figure", "value", "unit", "rival", "rival_value", "ratio"]
    return FigureData(figure, rows[columns].set_index("case"))


def training_table(results: DataFrame) -> DataFrame:
    """Return one line per training run: graph, system, workers, epoch, memory, bytes, loss; or the error."""
    rows = _part(results, "gpu-train")
    names = {
        "graph": "graph", "system": "system", "workers": "workers", "backend": "backend", "epoch_s": "epoch (ms)",
        "memory_bytes": "memory", "bytes_sent": "sent", "final_loss": "final loss", "error": "error",
    }  # fmt: skip
    table = rows[[name for name in names if name in rows]].rename(columns=names).reset_index(drop=True)
    for column in ("memory", "sent"):
        # Columns are missing if every run failed, so each is converted only if present.
        if column in table:
            table[column] = [human_bytes(value) for value in table[column]]
    if "epoch (ms)" in table:
        table["epoch (ms)"] = 1e3 * table["epoch (ms)"]  # seconds -> ms
    return table


def draw_training(results: DataFrame, *, dark: bool = False) -> FigureData | Notice:
    """Draw the epoch of every system, one panel per graph, one bar per number of workers."""
    rows = _part(results, "gpu-train")
    if rows.empty or "epoch_s" not in rows:
        return _missing_notice("gpu-train")
    finished_runs = rows[rows["epoch_s"].notna()]  # runs that failed have no epoch
    names = [
        f"{int(workers)} worker{'s' if workers > 1 else ''}" + (f", {backend}" if workers > 1 else "")
        for workers, backend in zip(finished_runs["workers"], finished_runs["backend"])
    ]
    looks = {
        name: f"{_WORKERS.get(int(workers), 'sky')}{' /' if backend == 'nccl' else ''}"  # hatched bars: NCCL
        for name, workers, backend in zip(names, finished_runs["workers"], finished_runs["backend"])
    }
    labels = [f"{human_bytes(value)} on the fullest GPU" for value in finished_runs["memory_bytes"]]
    bar_rows = finished_runs.assign(name=names, ms=1e3 * finished_runs["epoch_s"], held=labels).sort_values(
        ["workers", "backend"], kind="stable"
    )
    graphs = list(finished_runs["graph"].unique())
    charts = {
        graph: bars(
            bar_rows[bar_rows["graph"] == graph], x="system", y="ms", by="name", styles=looks, details="held",
            y_axis="epoch (ms)", zero="y",
        )
        for graph in graphs
    }  # fmt: skip
    run_texts = [
        f"{graph}: {best_run['system']} with {int(best_run['workers'])} workers, {1e3 * best_run['epoch_s']:.4g} ms"
        for graph in graphs
        for best_run in [finished_runs[finished_runs["graph"] == graph].sort_values("epoch_s").iloc[0]]
    ]
    failure_text = "" if "error" not in rows else f" {int(rows['error'].notna().sum())} runs failed."
    caption = (
        f"Epochs of {len(finished_runs)} training runs on {finished_runs['device'].iloc[0]}. "
        f"Shortest: {'; '.join(run_texts)}.{failure_text}"
    )
    figure = panels(
        charts,
        rows=len(graphs),
        gap=0.3 / len(graphs),
        title="Training on a GPU",
        caption=caption,
        dark=dark,
        height=140 + 280 * len(graphs),
        legend_below=True,
    )
    return FigureData(figure, training_table(results))


def draw_overlap(results: DataFrame, *, dark: bool = False) -> FigureData | Notice:
    """Draw the share of central nodes computed while a message was in transit, by layer, direction and system."""
    rows = _part(results, "gpu-overlap")
    if rows.empty or "hidden_share" not in rows:
        return _missing_notice("gpu-overlap")
    rows = rows[rows["hidden_share"].notna()]
    way = {"forward": "→", "backward": "←"}
    rows = rows.assign(place=[f"layer {int(n) + 1} {way[d]}" for n, d in zip(rows["layer"], rows["direction"])])
    # mean over workers, percent
    table = 100 * rows.groupby(["graph", "place", "system"], sort=False)["hidden_share"].mean().unstack("system")
    words = ", ".join(f"{system} {table[system].mean():.0f} %" for system in table)
    figure = bars(
        table,
        y=list(table),
        x_axis="graph, layer and direction",
        y_axis={"title_text": "hidden computation (%)", "range": [0, 105]},
        title="Computation hidden behind messages",
        caption=f"Central nodes computed while a message was in transit, mean over workers; over all layers: {words}.",
        dark=dark,
        height=400,
    )
    return FigureData(figure, table)


_STEPS = {32: 100, 40: 75, 48: 62.5, 64: 50}
"""Registers per thread -> occupancy (% of the warps that fit), for blocks of eight warps."""


def draw_compiled(table: DataFrame, *, architecture: str = "90", dark: bool = False) -> FigureData | Notice:
    """Draw registers per thread: one line per kernel, one marker per template variant, one colour per source file.

    Dotted lines mark the register counts up to which a given share of the warps fits.

    Args:
        table: result of ``benchmarks.kernels.compiled.compiled_kernels``.
        architecture: shown in the title.
        dark: colours for a dark page.
    """
    import pandas as pd

    if table.empty:  # table of an empty build
        return Notice(
            "No kernel was compiled: nvcc or the sources in cuda_ext are missing. Install the CUDA toolkit, which "
            "includes nvcc; no GPU is needed."
        )
    words = [
        f"{kernel}, {share:g} % of the warps, {spilled_bytes} B spilled"
        for kernel, share, spilled_bytes in zip(table.index, table["occupancy (%)"], table["spilled (B)"])
    ]
    # name of the kernel without its template arguments
    rows = table.assign(line=table.index.str.partition("<").get_level_values(0), words=words)
    ends = rows.groupby(["file", "line"], sort=False)["registers"].agg(["min", "max"]).reset_index()
    # three points per kernel: least, most and a gap between lines
    spans = pd.concat([ends.assign(at=ends["min"]), ends.assign(at=ends["max"]), ends.assign(at=None)]).sort_index()
    figure = lines(spans, x="at", y="line", by="file", mode="lines", hover="%{y}")
    figure.update_traces(showlegend=False)
    count, num_spilling = rows["line"].nunique(), int((table["spilled (B)"] > 0).sum())
    for registers, share in _STEPS.items():
        figure.add_vline(
            # half a register to the right of the last count with this occupancy
            x=registers + 0.5, line={"color": OKABE_ITO["grey"], "dash": "dot", "width": 1},
            annotation={"text": f"{share:g} %", "font": {"size": 10}}, annotation_position="top",
        )  # fmt: skip
    worst_kernel = table["occupancy (%)"].idxmin()  # the kernel with the lowest occupancy
    caption = (
        f"{len(table)} kernels compiled for sm_{architecture}: {num_spilling or 'none'} "
        f"spill{'' if num_spilling else 's'} registers; the fewest warps, "
        f"{table.loc[[worst_kernel], 'occupancy (%)'].iloc[0]:g} %, fit for {worst_kernel}."
    )
    registers_axis = {
        "title_text": "registers per thread; dotted: up to here this share of all warps fits",
        "range": [0, 1.05 * max(table["registers"].max(), *_STEPS)],
    }
    kernels_axis = {"type": "category", "autorange": "reversed", "dtick": 1, "tickfont": {"size": 11}}
    scatter(
        rows,
        x="registers",
        y="line",
        by="file",
        size=10,
        details="words",
        hover="%{x} registers, %{customdata}",
        figure=figure,
        x_axis=registers_axis,
        y_axis={"title_text": "kernel", **kernels_axis},
        legend_below=True,
        title=f"Registers of the CUDA kernels, sm_{architecture}",
        caption=caption,
        dark=dark,
        height=240 + 18 * count,
    )
    return FigureData(figure, table)
