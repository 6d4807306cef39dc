"""Figures of a report: each in its place on the page, with its caption and its numbers."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.lab.figures.bundle import caption_of, name_links, table_html
from gnnqlab.lab.figures.frames import by_epoch, device_pairs, most_bytes, phase_seconds, volume_per_epoch
from gnnqlab.lab.figures.theme import PHASES
from gnnqlab.lab.training import plots
from gnnqlab.lab.training.cache_view import draw_cache
from gnnqlab.lab.training.entropy_view import draw_entropy, has_entropy
from gnnqlab.lab.training.live_model import LiveModel
from gnnqlab.lab.training.live_thinning import round_values, thin
from gnnqlab.lab.training.live_views import draw_live, live_frame
from gnnqlab.lab.training.snapshot import Snapshot
from gnnqlab.lab.training.timeline_view import shown_layer, timeline_chart
from gnnqlab.run.run import Run
from gnnqlab.train.loop.scores import score_label

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["ReportFigures"]

_MAX_POINTS = 600


class ReportFigures:
    """Figures of runs, by sections of the page.

    Args:
        runs: label -> run with at least one recorded epoch; without any run a single section states this.
    """

    def __init__(self, runs: Mapping[str, Snapshot]) -> None:
        self._runs = runs
        self._records = {name: run.records for name, run in runs.items()}
        self._placed: dict[str, Figure] = {}
        self.sections = self._sections()
        """Title and content (HTML) of each section that is not empty."""
        self.drawn = {place: _bare(figure) for place, figure in self._placed.items()}
        """Plotly's data and layout of each figure, by the id of its element in the sections."""

    def _sections(self) -> list[tuple[str, str]]:
        if not self._runs:
            return [("Figures", "<p>No epoch was recorded, so there is nothing to draw.</p>")]
        contents = {
            "Convergence": self._convergence(),
            "Time": self._time(),
            "Bytes": self._bytes(),
            "From epoch to epoch": self._course(),
        }
        return [(title, f'<div class="figures">{figures}</div>') for title, figures in contents.items() if figures]

    def _place(self, figure: Figure, frame: DataFrame, *, full_width: bool = False) -> str:
        name = f"figure-{len(self._placed) + 1}"  # id of the element that the script fills
        # Drawn by the page's script.
        self._placed[name] = name_links(figure, (run.summary.get("link") for run in self._runs.values()))
        caption, title = caption_of(figure), str(figure.layout.title.text)
        return (
            f"<figure{' class=full' if full_width else ''}><h3>{html.escape(title)}</h3>"
            f'<div class="plot" id="{name}" role="figure" aria-label="{html.escape(caption, quote=True)}" '
            f'style="min-height:{figure.layout.height}px"></div><figcaption>{html.escape(caption)}</figcaption>'
            '<details><summary>The numbers</summary><div class="wide" tabindex="0">'
            f"{table_html(frame, caption=title)}</div></details></figure>"
        )

    def _convergence(self) -> str:
        import pandas as pd

        records, score = self._records, score_label(next(iter(self._runs.values())).summary)
        epochs = {name: by_epoch(table) for name, table in records.items()}

        def side_by_side(column: str) -> DataFrame:
            return pd.concat({name: table.set_index("epoch")[column] for name, table in epochs.items()}, axis=1)

        losses, times = side_by_side("loss"), side_by_side("train_s")
        scores = side_by_side("val_score").dropna(how="all")
        content = self._place(plots.convergence(records, value="loss"), _thin_rows(losses), full_width=len(scores) == 0)
        if len(scores):
            content += self._place(plots.convergence(records, score=score), _thin_rows(scores))
            content += self._place(
                plots.convergence(records, against="time", score=score), _thin_rows(times), full_width=True
            )
        return content

    def _time(self) -> str:
        import pandas as pd

        tables = {name: phase_seconds(records, per_worker=True) for name, records in self._records.items()}
        seconds = pd.concat(tables).fillna(0.0)
        labels = {phase.column: f"{phase.label} (ms)" for phase in PHASES}
        seconds = (1000 * seconds).rename(columns=labels)
        seconds.index = pd.Index([f"{name}, worker {rank}" for name, rank in seconds.index], name="system, worker")
        return self._place(plots.breakdown(self._records), seconds, full_width=True) + self._timelines()

    def _timelines(self) -> str:
        """Return the timelines of one layer's exchange on all workers, of runs that recorded them."""
        by_layer: dict[int, dict[str, DataFrame]] = {}
        for name, run in self._runs.items():
            if run.timeline is not None and (layer := shown_layer(run.timeline)) is not None:
                by_layer.setdefault(layer, {})[name] = run.timeline  # one figure per layer, a panel per run
        charts = [timeline_chart(timelines, layer=layer) for layer, timelines in by_layer.items()]
        return "".join(self._place(chart.figure, chart.frame, full_width=True) for chart in charts)

    def _bytes(self) -> str:
        import pandas as pd

        runs = {name: run for name, run in self._runs.items() if len(run.traffic)}
        if not runs:
            return ""
        volumes = pd.DataFrame({name: volume_per_epoch(records) for name, records in self._records.items()}).T
        content = self._place(plots.volume(self._records), volumes.rename_axis("system"), full_width=True)
        maps = {name: device_pairs(run.traffic, workers=run.summary.get("workers")) for name, run in runs.items()}
        largest = most_bytes(maps.values())
        for name, run in runs.items():
            # Maps side by side are compared by colour, so all have one scale; numbers distinguish dark cells.
            figure = plots.traffic_map(run.traffic, label=name, workers=run.summary.get("workers"), largest=largest)
            content += self._place(figure, maps[name].rename_axis("sender"))
        return content + self._entropies(runs) + self._caches()

    def _entropies(self, runs: Mapping[str, Snapshot]) -> str:
        """Return the figures of the entropy of codes, of runs that counted codes."""
        runs_with_entropy = {name: run for name, run in runs.items() if has_entropy(run.traffic)}
        bundles = [draw_entropy(run, label=name) for name, run in runs_with_entropy.items()]
        return "".join(self._place(bundle.figure, bundle.frame) for bundle in bundles)

    def _caches(self) -> str:
        """Return the figures of rows sent, of runs with a cache."""
        cached_runs = {name: run for name, run in self._runs.items() if run.cache is not None and len(run.cache)}
        bundles = [draw_cache(run, label=name) for name, run in cached_runs.items()]
        return "".join(self._place(bundle.figure, _thin_rows(bundle.frame), full_width=True) for bundle in bundles)

    def _course(self) -> str:
        folders = {name: run.folder for name, run in self._runs.items() if run.folder is not None}
        live_figures = {name: _live(name, folder) for name, folder in folders.items()}
        # One colour scale for the maps of all runs.
        largest = max((trace.zmax for figure, _ in live_figures.values() for trace in _heat_maps(figure)), default=None)
        for figure, _ in live_figures.values():
            figure.update_traces(zmax=largest, selector={"type": "heatmap"})
        return "".join(self._place(*pair, full_width=True) for pair in live_figures.values())


def _heat_maps(figure: Figure) -> list[Any]:
    return [trace for trace in figure.data if trace.type == "heatmap"]


def _live(name: str, folder: Path) -> tuple[Figure, DataFrame]:
    """Return the figure and the table of a run's live view."""
    model = LiveModel(Run(folder))
    model.poll()
    figure = draw_live(model)
    return figure.update_layout(title_text=name), live_frame(model)


def _bare(figure: Figure) -> dict[str, Any]:
    """Return data and layout without title, theme and background, which the page sets, and with thinned points."""
    figure_json: dict[str, Any] = json.loads(figure.to_json())
    for trace in figure_json["data"]:
        if trace["type"] == "scatter" and len(trace.get("x") or ()) > _MAX_POINTS:
            x, y = thin(np.array(trace["x"], dtype=float), np.array(trace["y"], dtype=float))
            trace["x"], trace["y"] = round_values(x, 8), round_values(y)
    layout = {key: value for key, value in figure_json["layout"].items() if key not in ("title", "template", "meta")}
    # Room for the titles of panels, in a figure with several.
    top = 34 if len(figure_json["layout"].get("annotations", ())) > 4 else 24
    layout |= {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "margin": {"t": top}}
    return {"data": figure_json["data"], "layout": layout}


def _thin_rows(table: DataFrame, rows: int = 24) -> DataFrame:
    """Return evenly spaced rows, always including the last one, so that the table stays readable."""
    step = max(1, math.ceil(len(table) / rows))
    return table[(len(table) - 1) % step :: step]
