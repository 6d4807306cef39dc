"""A report of one or more runs: a single HTML page that works without a network, on a phone and in the dark."""

from __future__ import annotations

import base64
import functools
import gzip
import html
import json
import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gnnqlab.lab import plots
from gnnqlab.lab.bundle import caption_of, name_links, table_html
from gnnqlab.lab.comparison_table import comparison_frame
from gnnqlab.lab.frames import (
    by_epoch,
    device_pairs,
    human_bytes,
    phase_seconds,
    volume_per_epoch,
)
from gnnqlab.lab.live_model import LiveModel
from gnnqlab.lab.live_thinning import rounded, thinned
from gnnqlab.lab.live_views import draw_live, live_frame
from gnnqlab.lab.snapshot import RunLike, Snapshot, graph_name, labels, score_name, take
from gnnqlab.lab.target import usual_target
from gnnqlab.lab.theme import style_of, template
from gnnqlab.launch.run import Run

if TYPE_CHECKING:
    from pandas import DataFrame
    from plotly.graph_objects import Figure

__all__ = ["write_report"]

# Nothing may be fetched: the page is the same in ten years, in a plane, and tells no one that it was read.
_MOST_POINTS = 600
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"


def write_report(runs: Sequence[RunLike], path: str | Path, *, target: float | None = None) -> Path:
    """Write the report of the runs; the first is what the others are compared with.

    The page holds everything it needs, Plotly's script included (packed, 1.9 MB), and may fetch nothing.

    Args:
        runs: one or more runs, see ``snapshot.RunLike``. A run without any recorded epoch appears in the table only.
        path: the file to write; an existing one is replaced as a whole.
        target: validation score whose time is shown, as for :func:`gnnqlab.compare`.

    Returns:
        The path that was written.

    Raises:
        ValueError: if there is no run.
    """
    if not runs:
        raise ValueError("a report needs at least one run, got none; pass write_report([run], path)")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        partial.write_text(_page([take(run) for run in runs], target), encoding="utf-8")
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return path


def _page(runs: Sequence[Snapshot], target: float | None) -> str:
    here = Path(__file__).parent
    names = labels(runs)
    figures: dict[str, Figure] = {}
    sections = [
        _header(runs, names),
        _section("Side by side" if len(runs) > 1 else "Result", _comparison(runs, target)),
        *_figure_sections({name: run for name, run in zip(names, runs) if len(run.records)}, figures),
        _section("Configuration", "".join(_configuration(name, run) for name, run in zip(names, runs))),
    ]
    drawn = {
        "figures": {name: _bare(figure) for name, figure in figures.items()},
        "templates": {"light": template(), "dark": template(dark=True)},
    }
    title = _title(runs, names)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)} · gnnqlab</title>
<style>{(here / "report.css").read_text(encoding="utf-8")}</style>
</head>
<body>
<main>
{"".join(sections)}
</main>
<footer>Written by gnnqlab. This page holds all it needs and fetches nothing.</footer>
<script type="application/json" id="figures">{_script_json(drawn)}</script>
<script type="application/gzip+base64" id="plotly">{_packed_plotly()}</script>
<script>{(here / "report.js").read_text(encoding="utf-8")}</script>
</body>
</html>
"""


def _title(runs: Sequence[Snapshot], names: Sequence[str]) -> str:
    graphs = sorted({graph_name(run.summary) for run in runs})
    shown = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{shown} on {', '.join(graphs)}"


def _header(runs: Sequence[Snapshot], names: Sequence[str]) -> str:
    summary = runs[0].summary
    setting = [
        str(summary["model"]).upper() if summary.get("model") else "",
        _counted(summary.get("workers"), "worker"),
        _counted(summary.get("epochs"), "epoch"),
        f"link: {summary['link']}" if summary.get("link") else "",
    ]
    if len(runs) > 1:
        facts = _comparing_facts(summary, runs[-1].summary, names[0], names[-1])
    else:
        facts = _single_facts(summary)
    cards = "".join(
        f'<div><dt>{html.escape(what)}</dt><dd class="value">{html.escape(value)}</dd>'
        f'<dd class="note">{html.escape(note)}</dd></div>'
        for what, value, note in facts
    )
    return (
        f"<header><h1>{html.escape(_title(runs, names))}</h1>"
        f'<p class="setting">{html.escape(" · ".join(filter(None, setting)))}</p>'
        f'<dl class="facts">{cards}</dl></header>'
    )


def _comparing_facts(
    first: Mapping[str, Any], other: Mapping[str, Any], reference: str, name: str
) -> list[tuple[str, str, str]]:
    """The three things to know of the last run beside the first: how well, how much, how fast."""
    ours, theirs = _score(other), _score(first)
    sent, sent_before = _number(other.get("bytes_sent")), _number(first.get("bytes_sent"))
    epoch, epoch_before = _number(other.get("epoch_s")), _number(first.get("epoch_s"))
    points = f"{100 * (ours - theirs):+.2f} points, " if math.isfinite(ours - theirs) else ""
    return [
        (f"Test {score_name(other)}, {name}", _percent(ours), f"{points}{reference} {_percent(theirs)}"),
        (
            f"Bytes sent, {name}",
            _fraction(sent, sent_before),
            f"{human_bytes(sent)} an epoch, {reference} {human_bytes(sent_before)}",
        ),
        (
            f"Speed, {name}",
            _ratio(epoch_before / epoch if epoch else math.nan, 2),
            f"{_seconds(epoch)} an epoch, {reference} {_seconds(epoch_before)}",
        ),
    ]


def _single_facts(summary: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    best = _percent(_number(summary.get("best_val")))
    return [
        (f"Test {score_name(summary)}", _percent(_score(summary)), f"best on validation {best}"),
        ("Bytes sent", human_bytes(_number(summary.get("bytes_sent"))), "an epoch, all workers"),
        ("Epoch", _seconds(summary.get("epoch_s")), "median"),
    ]


def _comparison(runs: Sequence[Snapshot], target: float | None) -> str:
    """A column per run, a row per quantity: few enough columns for a phone."""
    goal = usual_target(runs) if target is None else target
    frame = comparison_frame(runs, target=target)
    summaries = [run.summary for run in runs]
    rows: dict[str, list[str]] = {
        f"test {'score' if len(set(map(score_name, summaries))) > 1 else score_name(summaries[0])}": [
            _percent(_score(summary)) for summary in summaries
        ],
        "best on validation": [_percent(_number(summary.get("best_val"))) for summary in summaries],
        "final loss": [f"{_number(value):.4g}" for value in frame["final_loss"]],
        "epoch (median)": [_seconds(value) for value in frame["epoch_s"]],
        "speed": [_ratio(value, 2) for value in frame["speedup"]],
        f"time to {_percent(goal)} on validation": [
            "not reached" if math.isnan(value) else _seconds(value) for value in frame["to_target_s"]
        ],
        "sent an epoch": [human_bytes(_number(value)) for value in frame["bytes_per_epoch"]],
        "of it scales and zero-points": [human_bytes(_number(value)) for value in frame["bytes_params"]],
        "less sent": [_ratio(value, 1) for value in frame["fewer_bytes"]],
        "communication": [_seconds(value) for value in frame["comm_s"]],
        "computation": [_seconds(value) for value in frame["comp_s"]],
        "coding": [_seconds(value) for value in frame["quant_s"]],
        "choice of bits": [_seconds(value) for value in frame["assign_s"]],
        "memory, worst worker": [human_bytes(_number(value)) for value in frame["peak_memory_bytes"]],
    }
    if len(runs) == 1:
        rows = {
            name: cells for name, cells in rows.items() if name not in ("speed", "less sent") and "time to" not in name
        }
    head = "".join(
        f'<th scope="col"><span class="swatch" style="background:{style_of(name).color}"></span>'
        f"{html.escape(name)}</th>"
        for name in map(str, frame.index)
    )
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in rows.items()
    )
    against = f"; speed and bytes are measured against {labels(runs)[0]}" if len(runs) > 1 else ""
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Comparison table">'
        f"<table><caption>Seconds and bytes are per epoch{html.escape(against)}.</caption>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>{_link_note(summaries)}"
    )


def _link_note(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Say what a speed measured without a network is worth."""
    links = [str(summary.get("link") or "") for summary in summaries]
    if any("paced" in link for link in links):
        return (
            '<p class="note">The hosts of these runs are not emulated, because the machine does not allow it: the '
            "workers share a loopback that was slowed down to the rate of the link (paced).</p>"
        )
    if len(summaries) == 1 or "loopback" not in links:
        return ""
    return (
        '<p class="note">These workers share one machine (loopback): bytes move through memory there, so sending fewer '
        "of them saves little time. Over a network the time follows the bytes.</p>"
    )


def _figure_sections(runs: Mapping[str, Snapshot], figures: dict[str, Figure]) -> list[str]:
    """The sections with figures; what they draw is put into ``figures`` by the id of its place."""
    if not runs:
        return [_section("Figures", "<p>No epoch was recorded, so there is nothing to draw.</p>")]
    import pandas as pd

    def place(figure: Figure, frame: DataFrame, *, full: bool = False) -> str:
        name = f"figure-{len(figures) + 1}"
        figures[name] = name_links(figure, (run.summary.get("link") for run in runs.values()))
        caption, title = caption_of(figure), str(figure.layout.title.text)
        return (
            f"<figure{' class=full' if full else ''}><h3>{html.escape(title)}</h3>"
            f'<div class="plot" id="{name}" role="img" aria-label="{html.escape(caption, quote=True)}" '
            f'style="min-height:{figure.layout.height}px"></div><figcaption>{html.escape(caption)}</figcaption>'
            '<details><summary>The numbers</summary><div class="wide" tabindex="0">'
            f"{table_html(frame, caption=title)}</div></details></figure>"
        )

    records = {name: run.records for name, run in runs.items()}
    score = score_name(next(iter(runs.values())).summary)
    epochs = {name: by_epoch(one) for name, one in records.items()}
    sections = []

    def side_by_side(column: str) -> DataFrame:
        return pd.concat({name: one.set_index("epoch")[column] for name, one in epochs.items()}, axis=1)

    losses, times = side_by_side("loss"), side_by_side("train_s")
    scores = side_by_side("val_score").dropna(how="all")
    convergence = place(plots.convergence(records, value="loss"), _thinned(losses), full=len(scores) == 0)
    if len(scores):
        convergence += place(plots.convergence(records, score=score), _thinned(scores))
        convergence += place(plots.convergence(records, against="time", score=score), _thinned(times), full=True)
    sections.append(_section("Convergence", f'<div class="figures">{convergence}</div>'))
    seconds = pd.concat({name: phase_seconds(one, per_worker=True) for name, one in records.items()}).fillna(0.0)
    seconds.index = pd.Index([f"{name}, worker {rank}" for name, rank in seconds.index], name="system, worker")
    sections.append(
        _section("Time", f'<div class="figures">{place(plots.breakdown(records), seconds, full=True)}</div>')
    )
    sent = {name: run for name, run in runs.items() if len(run.traffic)}
    if sent:
        volumes = pd.DataFrame({name: volume_per_epoch(one) for name, one in records.items()}).T
        bytes_ = place(plots.volume(records), volumes.rename_axis("system"), full=True)
        pairs = {name: device_pairs(run.traffic, workers=run.summary.get("workers")) for name, run in sent.items()}
        for name, run in sent.items():
            # Each map has its own scale: on a common one, two-bit messages would be one dark square.
            figure = plots.traffic_map(run.traffic, label=name, workers=run.summary.get("workers"))
            bytes_ += place(figure, pairs[name].rename_axis("sender"))
        sections.append(_section("Bytes", f'<div class="figures">{bytes_}</div>'))
    launched = {name: run.folder for name, run in runs.items() if run.folder is not None}
    if launched:
        course = "".join(place(*_course(name, folder), full=True) for name, folder in launched.items())
        sections.append(_section("From epoch to epoch", f'<div class="figures">{course}</div>'))
    return sections


def _course(name: str, folder: Path) -> tuple[Figure, DataFrame]:
    """What the live view shows of a run."""
    model = LiveModel(Run(folder))
    model.look()
    figure = draw_live(model)
    return figure.update_layout(title_text=name), live_frame(model)


def _configuration(name: str, run: Snapshot) -> str:
    text = json.dumps(run.config, indent=2, ensure_ascii=False, default=str)
    command = _command(run.config)
    how = "<p>No command line makes this run; from Python, launch it with the configuration below.</p>"
    if command is not None:
        how = "<p>This command repeats it:</p>"
        how += f'<pre class="command" tabindex="0"><code>{html.escape(command)}</code></pre>'
    return (
        f"<h3>{html.escape(name)}</h3>{how}<details><summary>Everything that was set</summary>"
        f'<pre tabindex="0"><code>{html.escape(text)}</code></pre></details>'
    )


def _command(config: Mapping[str, Any]) -> str | None:
    from gnnqlab.train.command import command_of
    from gnnqlab.train.config import RunConfig

    try:
        return command_of(RunConfig.from_json(dict(config)))
    except (ImportError, KeyError, TypeError, ValueError):
        return None  # of another version, or with a part that is not at hand: the report is still worth having


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{content}</section>"


@functools.cache
def _packed_plotly() -> str:
    """Plotly's script, packed to two fifths; ``report.js`` unpacks it."""
    from plotly.offline import get_plotlyjs

    return base64.b64encode(gzip.compress(get_plotlyjs().encode(), mtime=0)).decode()


def _bare(figure: Figure) -> dict[str, Any]:
    """Data and layout without what the page itself gives: title, colours and ground; no more points than pixels."""
    plain: dict[str, Any] = json.loads(figure.to_json())
    for trace in plain["data"]:
        if trace["type"] == "scatter" and len(trace.get("x") or ()) > _MOST_POINTS:
            x, y = thinned(np.array(trace["x"], dtype=float), np.array(trace["y"], dtype=float))
            trace["x"], trace["y"] = rounded(x, 8), rounded(y)
    layout = {key: value for key, value in plain["layout"].items() if key not in ("title", "template", "meta")}
    # The titles of a figure of several panels stand above them.
    top = 34 if len(plain["layout"].get("annotations", ())) > 4 else 24
    layout |= {"paper_bgcolor": "rgba(0,0,0,0)", "plot_bgcolor": "rgba(0,0,0,0)", "margin": {"t": top}}
    return {"data": plain["data"], "layout": layout}


def _script_json(value: object) -> str:
    """JSON that cannot end the script element it stands in."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _thinned(table: DataFrame, rows: int = 24) -> DataFrame:
    """Evenly spaced rows, the last one always there: a table to read, not a dump."""
    step = max(1, math.ceil(len(table) / rows))
    return table[(len(table) - 1) % step :: step]


def _number(value: Any) -> float:
    return math.nan if value is None else float(value)


def _score(summary: Mapping[str, Any]) -> float:
    return _number(summary.get("test_accuracy", summary.get("test_f1_micro")))


def _percent(value: float) -> str:
    return f"{100 * value:.2f} %" if math.isfinite(value) else "–"


def _seconds(value: Any) -> str:
    seconds = _number(value)
    if not math.isfinite(seconds):
        return "–"
    return f"{seconds:.2f} s" if seconds >= 1 else f"{1000 * seconds:.3g} ms"


def _ratio(value: float, digits: int) -> str:
    return f"{value:.{digits}f} ×" if math.isfinite(value) else "–"


def _fraction(value: float, reference: float) -> str:
    """``1/14.2`` where less is sent, ``1.3 ×`` where more is."""
    ratio = reference / value if value and reference else math.nan
    if not math.isfinite(ratio):
        return "–"
    return f"1/{ratio:.1f}" if ratio >= 1.05 else f"{1 / ratio:.2f} ×"


def _counted(count: Any, noun: str) -> str:
    return "" if count is None else f"{count} {noun}{'' if count == 1 else 's'}"
