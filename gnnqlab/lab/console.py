"""Tables for a terminal: runs side by side, measurements beside their rivals, plain lists."""

from __future__ import annotations

from typing import Any

__all__ = ["bench_table", "plain_table", "run_table"]


def run_table(summaries: list[dict[str, Any]]) -> str:
    """Return runs side by side; ratios are against the first."""
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
                "waiting": f"{1000 * summary['comm_s']:.1f} ms",
                "computing": f"{1000 * summary['comp_s']:.1f} ms",
                "quantizing": f"{1000 * summary['quant_s']:.1f} ms",
                "MB/epoch": f"{summary['bytes_sent'] / 1e6:.3f}",
                "fewer bytes": f"{first['bytes_sent'] / max(summary['bytes_sent'], 1):.1f}x",
                "link": summary["link"],
            }
        )
    return plain_table(rows)


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
