"""Tables for a terminal: runs side by side, measurements beside their rivals, plain lists."""

from __future__ import annotations

from typing import Any

__all__ = ["bench_table", "plain_table", "run_table"]


def run_table(summaries: list[dict[str, Any]], *, target: float | None = None) -> str:
    """Return runs side by side; ratios are against the first.

    Args:
        target: validation score whose time the summaries have as ``to_target_s``.
    """
    first = summaries[0]
    rows = []
    for summary in summaries:
        score = summary.get("test_accuracy", summary.get("test_f1_micro"))
        rows.append(
            {
                "system": summary["system"],
                "test": "" if score is None else f"{100 * score:.2f} %",
                "epoch": f"{1000 * summary['epoch_s']:.1f} ms",
                "speed": f"{first['epoch_s'] / summary['epoch_s']:.2f}x",
                **({} if target is None else {f"to {100 * target:.1f} %": _reached(summary["to_target_s"])}),
                "waiting": f"{1000 * summary['comm_s']:.1f} ms",
                "computing": f"{1000 * summary['comp_s']:.1f} ms",
                "quantizing": f"{1000 * summary['quant_s']:.1f} ms",
                "data": f"{summary['bytes_payload'] / 1e6:.3f} MB",
                "parameters": f"{summary['bytes_params'] / 1e6:.3f} MB",
                "fewer bytes": f"{first['bytes_sent'] / summary['bytes_sent']:.1f}x" if summary["bytes_sent"] else "",
                "link": summary["link"],
            }
        )
    return plain_table(rows)


def _reached(seconds: float | None) -> str:
    return "not reached" if seconds is None else f"{seconds:.2f} s"


def bench_table(rows: list[dict[str, Any]]) -> str:
    def number(value: Any) -> str:
        return "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)

    return plain_table(
        [
            {
                "case": row["case"],
                "figure": row["figure"],
                "ours": f"{number(row['value'])} {row['unit']}",
                "beside": f"{row['rival']} {number(row['rival_value'])}",
                "ratio": number(row["ratio"]),
                "goal": number(row["goal"]),
                "reached": {True: "yes", False: "NO", None: ""}[row["reached"]],
            }
            for row in rows
        ]
    )


def plain_table(rows: list[dict[str, Any]]) -> str:
    if not rows:
        return "(nothing)"
    columns = list(rows[0])
    cells = [columns, *[[str(row.get(column, "")) for column in columns] for row in rows]]
    widths = [max(len(line[index]) for line in cells) for index in range(len(columns))]
    return "\n".join("  ".join(cell.ljust(width) for cell, width in zip(line, widths)).rstrip() for line in cells)
