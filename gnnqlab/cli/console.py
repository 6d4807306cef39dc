"""Tables for a terminal: comparisons of runs, and plain lists."""

from __future__ import annotations

from typing import Any

from gnnqlab.train.loop.scores import further_test_scores, get_test_score

__all__ = ["grid_table", "plain_table", "run_table"]


def run_table(summaries: list[dict[str, Any]]) -> str:
    """Return a table of runs; ratios are relative to the first."""
    return plain_table(_rows(summaries, [summary["system"] for summary in summaries]))


def grid_table(comparisons: list[dict[str, Any]]) -> str:
    """Return comparisons as one table, one row per run; ratios are relative to the baseline of the graph and model.

    Args:
        comparisons: each with ``graph``, ``model``, ``summaries``, ``names`` of the runs, ``target`` (the validation
            score whose time the summaries have as ``to_target_s``, or ``None``), ``failed`` (names of runs that ended
            without figures) and ``no_line``: the reason if a requested mini-batch row is missing; optionally
            ``baseline``, the position of its run, and ``notes``, words about runs by name.
    """
    rows, notes = [], []
    is_grid = len(comparisons) > 1
    for comparison in comparisons:
        # A single cell needs no columns for graph and model, which would be constant.
        cell_columns = {"graph": comparison["graph"], "model": comparison["model"]} if is_grid else {}
        run_rows = _rows(
            comparison["summaries"],
            comparison["names"],
            target=comparison["target"],
            is_grid=is_grid,
            baseline=comparison.get("baseline", 0),
        )
        place = f", {comparison['model']} on {comparison['graph']}" if is_grid else ""
        notes += [f"{name}{place} {words}" for name, words in comparison.get("notes", {}).items()]
        run_rows += [{"system": name, "test": "failed"} for name in comparison["failed"]]
        if comparison["no_line"]:
            run_rows.append({"system": "mini-batch", "test": "no line"})
            notes.append(
                f"no mini-batch line for {comparison['model']} on {comparison['graph']}: {comparison['no_line']}"
            )
        rows += [cell_columns | row for row in run_rows]
    return "\n".join([plain_table(rows), *notes])


def _rows(
    summaries: list[dict[str, Any]],
    names: list[str],
    *,
    target: float | None = None,
    is_grid: bool = False,
    baseline: int = 0,
) -> list[dict[str, str]]:
    """Return the cells of compared runs; the target is in the name of its column, or in its own one if ``is_grid``."""
    rows = []
    for name, summary in zip(names, summaries, strict=True):
        base, score, other_scores = summaries[baseline], get_test_score(summary), further_test_scores(summary)
        cells: dict[str, str] = {}
        if is_grid:
            cells = {
                "target": _percent(target),
                "to target": "" if target is None else _time_to_target(summary["to_target_s"], base["to_target_s"]),
            }
        elif target is not None:
            cells = {f"to {100 * target:.1f} %": _time_to_target(summary["to_target_s"], base["to_target_s"])}
        rows.append(
            {
                "system": name,
                "test": "" if score is None else f"{100 * score:.2f} %",
                **{label: "" if value is None else f"{100 * value:.2f} %" for label, value in other_scores.items()},
                "total": f"{summary['train_s']:.2f} s",
                # Speed-up of the whole training, without evaluation.
                "faster": f"{base['train_s'] / summary['train_s']:.2f}x",
                **cells,
                "median epoch": f"{1000 * summary['epoch_s']:.1f} ms",  # seconds -> ms, as for the three parts below
                "waiting": f"{1000 * summary['comm_s']:.1f} ms",
                "computing": f"{1000 * summary['comp_s']:.1f} ms",
                "quantizing": f"{1000 * summary['quant_s']:.1f} ms",
                "data": f"{summary['bytes_payload'] / 1e6:.3f} MB",  # bytes per epoch, all workers -> MB
                "parameters": f"{summary['bytes_params'] / 1e6:.3f} MB",  # scales and zero-points
                "fewer bytes": f"{base['bytes_sent'] / summary['bytes_sent']:.1f}x" if summary["bytes_sent"] else "",
                "link": summary["link"],
            }
        )
    return rows


def _percent(target: float | None) -> str:
    return "" if target is None else f"{100 * target:.1f} %"


def _time_to_target(seconds: float | None, first_seconds: float | None) -> str:
    if seconds is None:
        return "not reached"
    return f"{seconds:.2f} s" + (f", {first_seconds / seconds:.2f}x" if first_seconds is not None and seconds else "")


def plain_table(rows: list[dict[str, Any]]) -> str:
    """Return rows as aligned columns, with the union of their keys as header."""
    if not rows:
        return "(nothing)"
    # Union of the keys, in the order of their first appearance.
    columns = list(dict.fromkeys(column for row in rows for column in row))
    cells = [columns, *[[str(row.get(column, "")) for column in columns] for row in rows]]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
