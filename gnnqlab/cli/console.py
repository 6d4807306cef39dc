"""Output of commands: tables, lines of progress, and standard output that has JSON alone."""

from __future__ import annotations

import contextlib
import ctypes
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from gnnqlab.run.summary import Summary
from gnnqlab.terminal import aligned, output_width
from gnnqlab.train.loop.scores import further_test_scores, get_test_score

__all__ = ["duration_text", "plain_table", "run_table", "say_on_standard_error", "standard_output_for_json"]


def say_on_standard_error(line: str) -> None:
    """Print a line of progress to standard error."""
    print(line, file=sys.stderr, flush=True)


@contextlib.contextmanager
def standard_output_for_json() -> Iterator[None]:
    """Keep standard output for JSON: what libraries print in the block, also compiled ones, goes to standard error."""
    sys.stdout.flush()
    try:
        output = os.dup(1)
    except OSError:  # closed by the caller of this process
        output = -1
    try:
        if output >= 0:
            os.dup2(2, 1)
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        if output >= 0:
            ctypes.CDLL(None).fflush(None)  # lines in the buffers of C, which would be written to the JSON later
            os.dup2(output, 1)
            os.close(output)


def run_table(summary: dict[str, Any]) -> str:
    """Return the main figures of a run as a table of one row; ``--json`` and the report have all."""
    figures, score = Summary(summary).formatted, get_test_score(summary)
    row = {
        "system": summary["system"],
        "test": "" if score is None else f"{100 * score:.2f} %",
        **{
            name: "" if value is None else f"{100 * value:.2f} %"
            for name, value in further_test_scores(summary).items()
        },
        "total": figures["train_s"],
        "median epoch": figures["epoch_s"],
        "waiting": figures["comm_s"],
        "computing": figures["comp_s"],
        "quantizing": figures["quant_s"],
        "sent per epoch": figures["bytes_sent"],
        "of which scales, zero-points": figures["bytes_params"],
        **({} if summary["link"] in ("", "loopback") else {"link": summary["link"]}),
    }
    return plain_table([row])


def duration_text(events: Sequence[dict[str, Any]], summary: dict[str, Any]) -> str:
    """Return a sentence on the time from launch to end, and its part without training; empty if it is not known.

    Example:
        >>> duration_text([{"event": "launched", "time": 10.0}, {"event": "finished", "time": 16.0}], {"train_s": 2.5})
        '6.0 s from the launch to the end, of which 2.5 s are training; the rest is the start, evaluation and files'
    """
    times = [event["time"] for event in events if "time" in event]
    if len(times) < 2:
        return ""
    return (
        f"{times[-1] - times[0]:.1f} s from the launch to the end, of which {summary['train_s']:.1f} s are training; "
        "the rest is the start, evaluation and files"
    )


def plain_table(rows: list[dict[str, Any]]) -> str:
    """Return rows as aligned columns that fit the terminal: the union of their keys, without empty columns."""
    if not rows:
        return "(nothing)"
    # Union of the keys, in the order of their first appearance.
    columns = list(dict.fromkeys(column for row in rows for column, value in row.items() if value != ""))
    cells = [[str(row.get(column, "")) for column in columns] for row in rows]
    return aligned(columns, cells, width=output_width())
