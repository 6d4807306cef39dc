"""Report of one or more runs: a single HTML page that works offline, on a phone and in dark mode."""

from __future__ import annotations

import html
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.figures.bundle import table_html
from gnnqlab.lab.figures.offline import page
from gnnqlab.lab.figures.theme import styles_of, template
from gnnqlab.lab.training.comparison_table import (
    comparison_frame,
    evaluation_note,
    match_evaluations,
    usual_target,
)
from gnnqlab.lab.training.readable_table import ReadableTable, seed_table
from gnnqlab.lab.training.report_cards import (
    as_number,
    cards_of_comparison,
    cards_of_run,
    cards_over_seeds,
    in_seconds,
    percent,
    ratio_text,
    test_score,
    time_text,
)
from gnnqlab.lab.training.report_figures import ReportFigures
from gnnqlab.lab.training.seed_groups import SeedGroup, find_baseline, group_seeds
from gnnqlab.lab.training.snapshot import RunLike, Snapshot, graph_name, labels, origin_html, take
from gnnqlab.train.loop.scores import further_test_scores, score_label
from gnnqlab.units import human_bytes

__all__ = ["export", "write_report"]

_FEW = 4
"""Most runs whose values fit side by side on a phone."""


def write_report(runs: Sequence[RunLike], path: str | Path, *, target: float | None = None) -> Path:
    """Write the report of runs; the first is the baseline of the others.

    The page is self-contained, including Plotly's script (compressed, 1.9 MB), and makes no requests.

    Args:
        runs: one or more runs, see ``snapshot.RunLike``. A run without any recorded epoch appears in the table only.
        path: the file to write; an existing one is replaced as a whole.
        target: validation score of the time to accuracy, as for :func:`gnnqlab.compare`.

    Returns:
        The path that was written.

    Raises:
        ValueError: if there is no run.
    """
    if not runs:
        raise ValueError("a report needs at least one run, got none; pass write_report([run], path)")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, _page(match_evaluations([take(run) for run in runs]), target))
    return path


def export(runs: RunLike | Sequence[RunLike], path: str | Path) -> Path:
    """Write runs as one self-contained HTML page: figures, tables, configuration, and the command to repeat each run.

    Runs may still train; the page shows their current state. It can be sent by e-mail, opens from a disk, on a phone
    and in dark mode. Long runs are drawn with fewer points, so that the page stays below 5 MB.

    Args:
        runs: one run, or several; the others are compared with the first.
        path: the file to write, ``.html``; an existing one is replaced as a whole.

    Returns:
        The path that was written.

    Raises:
        ValueError: if there is no run, or the file has another extension.

    Example:
        ``gq.compare(gq.runs()[-2:]).report("comparison.html")``
    """
    path = Path(path)
    if path.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"a report is an HTML page, so its name must end in .html, got {path.name!r}")
    return write_report(list(runs) if isinstance(runs, Sequence) else [runs], path)


def _page(runs: Sequence[Snapshot], target: float | None) -> str:
    folder = Path(__file__).parent
    names = labels(runs)
    # A run without an epoch has nothing to draw.
    figures = ReportFigures({name: run for name, run in zip(names, runs) if len(run.records)})
    goal = usual_target(runs) if target is None else target
    groups = group_seeds(runs)
    # Several runs with equal settings and different seeds: means come first.
    over_seeds = _seed_table(runs, groups, goal) if len(groups) < len(runs) else None
    title = _title(runs, [group.label for group in groups])
    sections = [
        _header(runs, names, title, goal, over_seeds),
        *([] if over_seeds is None else [_over_seeds(over_seeds, find_baseline(groups, 0).label)]),
        _section("Comparison" if len(runs) > 1 else "Result", _comparison(runs, target)),
        *(_section(title, content) for title, content in figures.sections),
        _section("Configuration", "".join(_configuration(name, run) for name, run in zip(names, runs))),
    ]
    page_values = {"figures": figures.drawn, "templates": {"light": template(), "dark": template(dark=True)}}
    footer = "<footer>Written by gnnqlab. This page is self-contained and works offline.</footer>"
    body, style = f"<main>\n{''.join(sections)}\n</main>\n{footer}", (folder / "report.css").read_text(encoding="utf-8")
    return page(folder / "report.js", body, title=title, style=style, name="figures", values=page_values)


def _seed_table(runs: Sequence[Snapshot], groups: Sequence[SeedGroup], target: float) -> ReadableTable:
    """Return the table of means over seeds, with one row per group."""
    frame = comparison_frame(runs, target=target, baseline=0)
    return seed_table(frame, score=score_label(runs[0].summary), target=target, baseline=find_baseline(groups, 0).label)


def _over_seeds(table: ReadableTable, baseline: str) -> str:
    """Return the section with means over seeds."""
    caption = f"Means over seeds ± 95 % intervals; × and points are relative to {baseline} with the same seed"
    content = table_html(table.cells, caption=caption, best=table.best)
    return _section("Over seeds", f'<div class="wide" tabindex="0">{content}</div>')


def _title(runs: Sequence[Snapshot], names: Sequence[str]) -> str:
    graphs = sorted({graph_name(run.summary) for run in runs})
    names_text = " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
    return f"{names_text} on {', '.join(graphs)}"


def _header(
    runs: Sequence[Snapshot], names: Sequence[str], title: str, target: float, over_seeds: ReadableTable | None
) -> str:
    summaries = [run.summary for run in runs]
    links = _each("link", summaries)
    setting = [
        ", ".join(str(model).upper() for model in _each("model", summaries)),
        _count_text(_each("workers", summaries), "worker"),
        _count_text(_each("epochs", summaries), "epoch"),
        f"link: {' and '.join(map(str, links))}" if links else "",
    ]
    if over_seeds is not None:
        facts = cards_over_seeds(over_seeds, score_label(runs[0].summary))
        setting.insert(3, _count_text([max(over_seeds.cells["seeds"])], "seed"))
    elif len(runs) > 1:
        facts = cards_of_comparison(runs, names, target)
    else:
        facts = cards_of_run(runs[0], target)
    cards = "".join(
        f'<div><dt>{html.escape(title)}</dt><dd class="value">{html.escape(value)}</dd>'
        f'<dd class="note">{html.escape(note)}</dd></div>'
        for title, value, note in facts
    )
    return (
        f"<header><h1>{html.escape(title)}</h1>"
        f'<p class="setting">{html.escape(" · ".join(filter(None, setting)))}</p>'
        f'<dl class="facts">{cards}</dl>{origin_html(runs, names, is_over_seeds=over_seeds is not None)}</header>'
    )


def _comparison(runs: Sequence[Snapshot], target: float | None) -> str:
    """Return the comparison table, with a column per run and a row per quantity, which suits a phone."""
    goal = usual_target(runs) if target is None else target  # validation score in [0, 1]
    frame = comparison_frame(runs, target=target, baseline=0)  # the first run
    summaries = [run.summary for run in runs]
    rows: dict[str, list[str]] = {
        "total time": [in_seconds(value) for value in frame["train_s"]],
        "total time, speed-up": [ratio_text(value, 2) for value in frame["faster"]],
        f"time to {percent(goal)} on validation": [time_text(value) for value in frame["to_target_s"]],
        f"time to {percent(goal)}, speed-up": [ratio_text(value, 2) for value in frame["faster_to_target"]],
        f"test {'score' if len(set(map(score_label, summaries))) > 1 else score_label(summaries[0])}": [
            percent(test_score(summary)) for summary in summaries
        ],
        **{f"test {label}": _cells(label, summaries) for label in dict.fromkeys(_further_labels(summaries))},
        "best on validation": [percent(as_number(summary.get("best_val"))) for summary in summaries],
        "final loss": [f"{as_number(value):.4g}" for value in frame["final_loss"]],
        "epoch (median)": [in_seconds(value) for value in frame["epoch_s"]],
        "sent per epoch": [human_bytes(as_number(value)) for value in frame["bytes_per_epoch"]],
        "of which scales and zero-points": [human_bytes(as_number(value)) for value in frame["bytes_params"]],
        "less sent": [ratio_text(value, 1) for value in frame["fewer_bytes"]],
        "communication": [in_seconds(value) for value in frame["comm_s"]],
        "computation": [in_seconds(value) for value in frame["comp_s"]],
        "coding": [in_seconds(value) for value in frame["quant_s"]],
        "bit assignment, waited for": [in_seconds(value) for value in frame["assign_s"]],
        "bit assignment, share of training": [percent(as_number(value)) for value in frame["assign_share"]],
        "bit assignment, processor time of the whole training": [in_seconds(value) for value in frame["assign_cpu_s"]],
        "peak memory, largest worker": [human_bytes(as_number(value)) for value in frame["peak_memory_bytes"]],
    }
    # A single run has no baseline, so rows of ratios are left out.
    if len(runs) == 1:
        rows = {
            name: cells
            for name, cells in rows.items()
            if name != "less sent" and "speed-up" not in name and "time to" not in name
        }
    names = [str(name) for name in frame.index]
    # The colours of the figures, which do not contain runs without an epoch: these come last.
    styles = styles_of(sorted(names, key=lambda name: not len(runs[names.index(name)].records)))
    head = "".join(_heading(name, styles[name].color) for name in names)
    body = "".join(
        f'<tr><th scope="row">{html.escape(name)}</th>{"".join(f"<td>{html.escape(cell)}</td>" for cell in cells)}</tr>'
        for name, cells in rows.items()
    )
    # On a phone a few runs are side by side, with the name of each row above its values (report.css).
    attributes = f' class="few" style="--runs: {len(runs)}"' if len(runs) <= _FEW else ""
    notes = f" {words}" if (words := evaluation_note(runs)) else ""
    reference = labels(runs)[0]
    if len(groups := group_seeds(runs)) < len(runs):
        reference = f"{find_baseline(groups, 0).label} with the same seed"
    baseline_note = f"; speed-up and bytes are relative to {reference}" if len(runs) > 1 else ""
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="Comparison table">'
        f"<table{attributes}><caption>Seconds and bytes are per epoch unless stated otherwise"
        f"{html.escape(baseline_note)}.{html.escape(notes)}</caption>"
        f"<thead><tr><td></td>{head}</tr></thead><tbody>{body}</tbody></table></div>{_link_note(summaries)}"
    )


def _heading(name: str, color: str) -> str:
    """Return a column heading with a run's colour and name; the colour is never on a line without the first word."""
    first_word, _, rest = name.partition(" ")
    swatch = f'<span class="swatch" style="background:{color}"></span>'
    return f'<th scope="col"><span class="first">{swatch}{html.escape(first_word)}</span> {html.escape(rest)}</th>'


def _link_note(summaries: Sequence[Mapping[str, Any]]) -> str:
    """Return a note about speeds that were measured without a network."""
    links = [str(summary.get("link") or "") for summary in summaries]
    if any("paced" in link for link in links):
        return (
            '<p class="note">The hosts of these runs are not emulated, because the machine does not allow it: the '
            "workers share a loopback interface that was slowed down to the rate of the link (paced).</p>"
        )
    if len(summaries) == 1 or "loopback" not in links:
        return ""
    subject = "These workers share" if set(links) == {"loopback"} else "Workers without a link share"
    return (
        f'<p class="note">{subject} one machine (loopback), where bytes are copied in memory, so sending fewer '
        "of them saves little time. Over a network the time depends on the bytes.</p>"
    )


def _configuration(name: str, run: Snapshot) -> str:
    text = json.dumps(run.config, indent=2, ensure_ascii=False, default=str)
    command = _command(run.config)
    command_html = "<p>No command can repeat this run; launch it from Python with the configuration below.</p>"
    if command is not None:
        command_html = "<p>This command repeats the run:</p>"
        command_html += f'<pre class="command" tabindex="0"><code>{html.escape(command)}</code></pre>'
    return (
        f"<h3>{html.escape(name)}</h3>{command_html}<details><summary>All settings</summary>"
        f'<pre tabindex="0"><code>{html.escape(text)}</code></pre></details>'
    )


def _command(config: Mapping[str, Any]) -> str | None:
    from gnnqlab.train.config.command import command_of
    from gnnqlab.train.config.config_file import find_unimported_modules
    from gnnqlab.train.config.run_config import RunConfig

    if find_unimported_modules(config):
        return None  # a command cannot name the user's own classes
    try:
        return command_of(RunConfig.from_json(dict(config)))
    except (KeyError, TypeError, ValueError):
        return None  # written by another version; the rest of the report is still useful


def _section(title: str, content: str) -> str:
    return f"<section><h2>{html.escape(title)}</h2>{content}</section>"


def _further_labels(summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the labels of further scores of some runs."""
    return [label for summary in summaries for label in further_test_scores(summary)]


def _cells(label: str, summaries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [percent(as_number(further_test_scores(summary).get(label))) for summary in summaries]


def _each(name: str, summaries: Sequence[Mapping[str, Any]]) -> list[Any]:
    """Return the distinct values of the runs under a name."""
    return list(dict.fromkeys(value for summary in summaries if (value := summary.get(name)) not in (None, "")))


def _count_text(counts: Sequence[Any], noun: str) -> str:
    """Return ``2 workers``, or ``2 to 8 workers`` if runs differ.

    Example:
        >>> _count_text([30, 90, 60], "epoch"), _count_text([1], "worker"), _count_text([], "epoch")
        ('30 to 90 epochs', '1 worker', '')
    """
    if not counts:
        return ""
    words = str(counts[0]) if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    return f"{words} {noun}{'' if words == '1' else 's'}"
