"""The kept table of all systems as one picture: how much sooner than Vanilla each trains, and at which score."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import finish

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_verdict", "verdict"]


def verdict(results: DataFrame, *, services: bool = True) -> DataFrame:
    """Return Vanilla's total time over each system's, a row a system, a column a graph and model.

    Args:
        results: of :func:`gnnqlab.bench_results`; those of ``gnnqlab bench systems`` are used.
        services: each system with every service that this library has for it (``+``), Vanilla too; else as published.

    Returns:
        Above 1 is sooner than Vanilla with the same services. ``attrs["points"]`` is a table of the same shape with
        score differences in points, NaN where the 95 % interval holds zero.

    Raises:
        ValueError: if nothing was kept.

    Example:
        >>> import pandas as pd
        >>> rows = {"part": "systems", "case": "cora, gcn, 2 workers", "figure": ["vanilla", "adaqp"], "unit": "s"}
        >>> kept = pd.DataFrame({**rows, "value": [3.0, 2.0], "points": 0.5, "half_interval": 0.1})
        >>> table = verdict(kept, services=False)
        >>> table.loc["adaqp"].tolist(), table.attrs["points"].loc["adaqp"].tolist()
        ([1.5], [0.5])
    """
    import pandas as pd

    found = results[(results["part"] == "systems") & (results["unit"] == "s")]
    chosen = found[found["figure"].str.endswith("+") == services]
    if chosen.empty:
        raise ValueError("totals of gnnqlab bench systems are needed, got none; keep them with --keep systems")
    cells: dict[str, dict[str, float]] = {}
    points: dict[str, dict[str, float]] = {}
    for case, rows in chosen.groupby("case", sort=False):
        name = ", ".join(str(case).split(", ")[:2])
        by_system = rows.set_index(rows["figure"].str.removesuffix("+"))
        cells[name] = (by_system.loc["vanilla", "value"] / by_system["value"]).to_dict()
        certain = by_system["points"].abs() > by_system["half_interval"]
        points[name] = by_system["points"].where(certain).to_dict()
    table = pd.DataFrame(cells)
    table.attrs["points"] = pd.DataFrame(points).loc[table.index]
    return table


def draw_verdict(table: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw :func:`verdict` as cells, blue where sooner than Vanilla and orange where later.

    Raises:
        ValueError: if there is no system.
    """
    import plotly.graph_objects as go

    if table.empty:
        raise ValueError("at least one system is needed, got none; see verdict")
    points = table.attrs["points"]
    said = [
        [
            f"{table.iat[i, j]:.2f} ×"
            + ("" if points.iat[i, j] != points.iat[i, j] else f"<br>{points.iat[i, j]:+.1f}")
            for j in range(table.shape[1])
        ]
        for i in range(table.shape[0])
    ]
    far = max(0.05, float((table - 1).abs().max().max()))
    figure = go.Figure(
        go.Heatmap(
            x=[str(case).replace(", ", "<br>") for case in table.columns],
            y=list(table.index),
            z=table.to_numpy().tolist(),
            text=said,
            texttemplate="%{text}",
            zmid=1.0,
            zmin=1 - far,
            zmax=1 + far,
            colorscale=[(0.0, "#e69f00"), (0.5, "#f4f4f4"), (1.0, "#56b4e9")],
            textfont={"color": "#1a1a1a", "size": 12},
            colorbar={"title": {"text": "times as<br>fast"}},
            hovertemplate="%{y} on %{x}: %{z:.2f} times as fast as Vanilla<extra></extra>",
        )
    )
    figure.update_xaxes(title_text="graph, model")
    figure.update_yaxes(title_text="system", autorange="reversed")
    best = table.idxmax()
    told = "; ".join(f"{case}: {name} {table.loc[name, case]:.2f} ×" for case, name in best.items())
    caption = (
        f"Total time beside Vanilla's, the best of each column: {told}. "
        "Points are told where a 95 % interval leaves zero out."
    )
    finish(figure, title="All systems, total time beside Vanilla", caption=caption, dark=dark, height=430)
    return Bundle(figure, table.round(2))
