"""``run.export_trace``: activities of all workers of a run as Chrome trace events."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.atomic import write_text
from gnnqlab.lab.training.critical_path import recorded_epoch

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.run.run import Run

__all__ = ["THREADS", "export_trace", "trace_events"]

THREADS = {"schedule": 1, "computing": 2, "messages": 3, "wire": 4}
"""Threads of a worker's process and their numbers: layer and direction in progress, aggregation, work on messages
(encode, post, wait, decode), and transfers to it. Concurrent transfers get further threads after ``wire``."""
_THREAD_OF = {"central": "computing", "marginal": "computing", "transfer": "wire"}
_GAP_US = 1000.0
"""Gap between two epochs, because the time between their beginnings is not recorded."""
Event = dict[str, Any]


def export_trace(run: Run, path: str | Path | None = None, *, epoch: int | None = None) -> Path:
    """Write the recorded epochs of a run as Chrome trace events, for ui.perfetto.dev or chrome://tracing.

    A process is a worker; its threads are those of `THREADS`. Every slice has its layer (from 0), direction, epoch and
    round as arguments, and the slice of an epoch its row of ``run.records``, including the seconds of phases without
    slices (dense layers, all-reduce of gradients, optimizer step). Arrows lead from a sender's post to the transfer at
    the receiver, if both are of one epoch. Epochs follow each other with a gap of one millisecond.

    Args:
        run: a run with recorded epochs (``timeline_every``); workers on several machines have different clocks.
        path: the file to write, ``.json``; by default ``trace.json`` in the run's folder.
        epoch: the only epoch to write; by default all that were recorded.

    Returns:
        The path that was written.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded, or the file has another extension.

    Example:
        ``run.export_trace("epochs.json")``
    """
    from gnnqlab import __version__

    path = Path(run.folder / "trace.json" if path is None else path)
    if path.suffix.lower() != ".json":
        raise ValueError(f"a trace is a JSON file, so its name must end in .json, got {path.name!r}")
    events = trace_events(run.timeline, run.records, epoch=epoch)
    origin = {"run": run.id, "written by": f"gnnqlab {__version__}", **_facts(run.summary)}
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps({"traceEvents": events, "displayTimeUnit": "ms", "otherData": origin}))
    return path


def trace_events(timeline: DataFrame, records: DataFrame, *, epoch: int | None = None) -> list[Event]:
    """Return the events of a timeline: names of processes and threads, slices (``X``), arrows (``s`` to ``f``).

    Args:
        timeline: ``run.timeline``.
        records: ``run.records``.
        epoch: the only epoch; by default all that were recorded.

    Returns:
        Events as dictionaries for JSON, times in microseconds.

    Raises:
        ValueError: if nothing, or not that epoch, was recorded.
    """
    chosen_epoch = recorded_epoch(timeline, epoch)
    epochs = [chosen_epoch] if epoch is not None else sorted(set(timeline["epoch"]))
    # (epoch, rank) -> record.
    of_epoch = {(int(row["epoch"]), int(row["rank"])): row for row in records.to_dict("records")}
    slices: list[Event] = []
    arrows: list[Event] = []
    zero = 0.0
    for number in epochs:
        parts = [*_parts(timeline[timeline["epoch"] == number], zero)]
        for rank in sorted({part["pid"] for part in parts}):
            slices += _layer_slices(
                [part for part in parts if part["pid"] == rank], number, of_epoch.get((number, rank), {})
            )
        slices += parts
        arrows += _arrows(parts, first_id=len(arrows) // 2)  # ids continue, with two events per arrow
        # The next epoch begins after the end of this one.
        zero = max(part["ts"] + part["dur"] for part in parts) + _GAP_US
    return [*_names(slices), *slices, *arrows]


def _parts(timeline: DataFrame, zero: float) -> Iterable[Event]:
    """Yield a slice for each part; slices of one thread do not overlap."""
    begin = timeline["start_s"].min()
    end_by_thread: dict[tuple[int, int], float] = {}  # (worker, thread) -> end of its last slice
    columns = ["epoch", "layer", "direction", "rank", "what", "peer", "start_s", "end_s"]
    rows = timeline.assign(round=timeline["round"] if "round" in timeline.columns else 0)[[*columns, "round"]]
    for row in rows.sort_values(["start_s", "end_s"], kind="stable").to_dict("records"):
        thread = THREADS[_THREAD_OF.get(row["what"], "messages")]
        start, end = zero + 1e6 * (row["start_s"] - begin), zero + 1e6 * (row["end_s"] - begin)
        # A concurrent transfer takes the next thread that is free; viewers cannot show slices that overlap partly.
        while end_by_thread.get((row["rank"], thread), start) > start + 1e-3 and thread >= THREADS["wire"]:
            thread += 1
        end_by_thread[row["rank"], thread] = end
        args = {name: row[name] for name in ("layer", "direction", "epoch", "round")}
        if row["peer"] >= 0:  # -1: no sender, or an unknown one
            args["sender"] = row["peer"]
        yield _slice(row["what"], "part", row["rank"], thread, start, end, args)


def _layer_slices(parts: Sequence[Event], epoch: int, record: Mapping[str, Any]) -> list[Event]:
    """Return the slice of an epoch, and inside it one slice per sequence of parts of one layer and direction."""
    activities = [part for part in parts if part["name"] != "transfer"]
    if not activities:
        return []
    rank = activities[0]["pid"]
    runs: list[list[Any]] = []
    for part in activities:
        place = tuple(part["args"][name] for name in ("layer", "direction", "round"))
        end = part["ts"] + part["dur"]
        # Consecutive parts of one layer and direction are one slice.
        if runs and runs[-1][0] == place:
            runs[-1][2] = max(runs[-1][2], end)
        else:
            runs.append([place, part["ts"], end])
    # A slice ends where the next one starts, because slices of one thread must not overlap.
    turns = [
        _slice(f"layer {layer + 1} {way}", "turn", rank, THREADS["schedule"], start, min(end, next_start),
               {"layer": layer, "direction": way, "epoch": epoch, "round": number})
        for ((layer, way, number), start, end), next_start in zip(runs, [*(run[1] for run in runs[1:]), float("inf")])
    ]  # fmt: skip
    # Value == value: without NaN, which JSON lacks.
    args = {"epoch": epoch, **{name: value for name, value in record.items() if value == value and name != "epoch"}}
    last_end = max(part["ts"] + part["dur"] for part in activities)
    return [_slice(f"epoch {epoch}", "epoch", rank, THREADS["schedule"], activities[0]["ts"], last_end, args), *turns]


def _arrows(parts: Sequence[Event], *, first_id: int) -> list[Event]:
    """Return an arrow for each message whose post was recorded in the same epoch."""
    # (sender, layer, direction, round) -> its post.
    posts = {(part["pid"], *_place(part)): part for part in parts if part["name"] == "post"}
    arrows: list[Event] = []
    for part in parts:
        post = posts.get((part["args"].get("sender", -1), *_place(part))) if part["name"] == "transfer" else None
        end = part["ts"] + part["dur"]
        if post is None or post["ts"] > end:
            continue
        common_fields = {"name": "message", "cat": "message", "id": first_id + len(arrows) // 2}
        # An arrow ends at the slice that encloses its time, so it ends just before the end of the transfer.
        arrow_end = max(post["ts"], end - min(1.0, part["dur"] / 2))
        arrows.append({**common_fields, "ph": "s", "pid": post["pid"], "tid": post["tid"], "ts": post["ts"]})
        arrows.append({**common_fields, "ph": "f", "bp": "e", "pid": part["pid"], "tid": part["tid"], "ts": arrow_end})
    return arrows


def _place(part: Event) -> tuple[Any, ...]:
    return tuple(part["args"][name] for name in ("layer", "direction", "round"))


def _names(slices: Sequence[Event]) -> list[Event]:
    words = {number: name for name, number in THREADS.items()}
    events: list[Event] = []
    for rank in sorted({part["pid"] for part in slices}):
        events.append({"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"worker {rank}"}})
        events.append({"name": "process_sort_index", "ph": "M", "pid": rank, "args": {"sort_index": rank}})
        for thread in sorted({part["tid"] for part in slices if part["pid"] == rank}):
            name = words.get(thread, f"wire ({thread - THREADS['wire'] + 1})")
            events += [
                {"name": "thread_name", "ph": "M", "pid": rank, "tid": thread, "args": {"name": name}},
                {"name": "thread_sort_index", "ph": "M", "pid": rank, "tid": thread, "args": {"sort_index": thread}},
            ]
    return events


def _slice(name: str, kind: str, rank: int, thread: int, start: float, end: float, args: Mapping[str, Any]) -> Event:
    times = {"ts": start, "dur": end - start}  # microseconds, as the format requires
    return {"name": name, "cat": kind, "ph": "X", "pid": rank, "tid": thread, **times, "args": dict(args)}


def _facts(summary: Mapping[str, Any]) -> dict[str, Any]:
    return {name: summary[name] for name in ("system", "graph", "model", "workers", "link") if name in summary}
