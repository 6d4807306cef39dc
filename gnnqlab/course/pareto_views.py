"""Time against variance: what λ chooses between, for one problem and for a whole epoch; and solvers side by side."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.theme import OKABE_ITO, finish

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.assigner.problem import Problem
    from gnnqlab.tune.forecast import Forecast

__all__ = ["assignments_chart", "pareto_chart", "solvers_table"]


def pareto_chart(
    front: Sequence[Forecast],
    *,
    chosen: Forecast | None = None,
    beside: Mapping[str, Forecast] | None = None,
    dark: bool = False,
) -> Bundle:
    """Draw predicted time of an epoch against gradient variance over λ.

    Args:
        front: forecasts of one setting at many λ, see `gnnqlab.tune.probe.Probe.front`.
        chosen: the one that is marked.
        beside: other systems by label, drawn as single points.
        dark: colours for a dark page.

    Raises:
        ValueError: if the front is empty, or a forecast in it has no λ.
    """
    import pandas as pd
    import plotly.graph_objects as go

    if not front:
        raise ValueError("a front needs at least one forecast, got none; take probe.front()")
    if any(each.lam is None for each in front):
        raise ValueError("every forecast of a front must have a λ, got one of a system that assigns nothing")
    figure = go.Figure()
    figure.add_scatter(
        x=[1e3 * each.epoch_s for each in front],
        y=[each.total_variance for each in front],
        customdata=[(each.lam, each.mean_bits) for each in front],
        mode="lines+markers+text",
        text=[f"λ = {each.lam:g}" if each in (front[0], front[-1]) else "" for each in front],
        textposition=["bottom left" if each is front[-1] else "top right" for each in front],
        line={"color": OKABE_ITO["blue"], "width": 2},
        marker={"symbol": "circle-open", "size": 9, "color": OKABE_ITO["blue"]},
        name="assigned, λ from " + f"{front[0].lam:g} to {front[-1].lam:g}",
        hovertemplate="λ %{customdata[0]:.2f}: %{x:.4g} ms, V %{y:.3g}, %{customdata[1]:.2f} bits a row<extra></extra>",
    )
    looks = [("grey", "square"), ("orange", "diamond"), ("green", "x"), ("purple", "cross")]
    points = list((beside or {}).items())
    for number, (label, each) in enumerate(points):
        color, symbol = looks[number % len(looks)]
        figure.add_scatter(
            x=[1e3 * each.epoch_s],
            y=[each.total_variance],
            mode="markers",
            marker={"symbol": symbol, "size": 12, "color": OKABE_ITO[color]},
            name=label,
            hovertemplate=f"{label}: %{{x:.4g}} ms, V %{{y:.3g}}<extra></extra>",
        )
    if chosen is not None:
        figure.add_scatter(
            x=[1e3 * chosen.epoch_s],
            y=[chosen.total_variance],
            mode="markers",
            marker={"symbol": "star", "size": 17, "color": OKABE_ITO["vermillion"]},
            name=f"λ = {chosen.lam:g}",
            hovertemplate="here: %{x:.4g} ms, V %{y:.3g}<extra></extra>",
        )
    figure.update_xaxes(title_text="predicted epoch (ms)")
    figure.update_yaxes(title_text="gradient variance V (no unit)", type="log")
    first, last = front[0], front[-1]
    caption = (
        f"Predicted time against variance over {first.link}: from {1e3 * first.epoch_s:.3g} ms and V = "
        f"{first.total_variance:.3g} at λ = {first.lam:g} to {1e3 * last.epoch_s:.3g} ms and V = "
        f"{last.total_variance:.3g} at λ = {last.lam:g}."
    )
    if chosen is not None:
        caption += f" The star, λ = {chosen.lam:g}: {1e3 * chosen.epoch_s:.3g} ms, V = {chosen.total_variance:.3g}."
    finish(figure, title="What a little more time buys", caption=caption, dark=dark, height=380, legend_rows=2)
    rows = [(f"λ = {each.lam:g}", each) for each in front] + points
    frame = pd.DataFrame(
        {
            "epoch (ms)": [1e3 * each.epoch_s for _, each in rows],
            "speed-up": [each.speedup for _, each in rows],
            "variance": [each.total_variance for _, each in rows],
            "bits a row": [each.mean_bits for _, each in rows],
            "kB": [each.bytes_sent / 1e3 for _, each in rows],
        },
        index=pd.Index([name for name, _ in rows], name="setting"),
    )
    return Bundle(figure, frame)


def assignments_chart(problem: Problem, *, dark: bool = False) -> Bundle:
    """Draw every assignment that there is of a small problem, and those that some λ chooses.

    Raises:
        ValueError: if there are more than eight groups.
    """
    from itertools import product

    import numpy as np
    import pandas as pd
    import plotly.graph_objects as go

    from gnnqlab.bits.assigner.pareto import front_over_lam

    groups = problem.group_rows.size
    if groups > 8:
        raise ValueError(f"all assignments are drawn of at most 8 groups, got {groups}; take pareto_chart")
    rows = []
    for choice in product(range(len(problem.widths)), repeat=groups):
        index = np.array(choice)
        widths = " ".join(str(problem.widths[place]) for place in choice)
        rows.append((widths, 1e3 * problem.seconds(index), problem.variance(index)))
    frame = pd.DataFrame(rows, columns=["widths", "exchange (ms)", "variance"]).set_index("widths")
    lams = [step / 50 for step in range(51)]
    found: dict[str, list[float]] = {}
    for lam, solution in zip(lams, front_over_lam(problem, lams), strict=True):
        found.setdefault(" ".join(map(str, solution.widths.tolist())), []).append(lam)
    picked = frame.loc[list(found)].sort_values("exchange (ms)")
    figure = go.Figure()
    figure.add_scatter(
        x=frame["exchange (ms)"].tolist(),
        y=frame["variance"].tolist(),
        customdata=frame.index.tolist(),
        mode="markers",
        marker={"symbol": "circle-open", "size": 7, "color": OKABE_ITO["grey"]},
        name=f"all {len(frame)} assignments",
        hovertemplate="bits %{customdata}: %{x:.4g} ms, V %{y:.3g}<extra></extra>",
    )
    figure.add_scatter(
        x=picked["exchange (ms)"].tolist(),
        y=picked["variance"].tolist(),
        text=[f" {widths}" for widths in picked.index],
        textposition="top right",  # the line falls, so words above it are clear of it
        cliponaxis=False,
        mode="lines+markers+text",
        line={"color": OKABE_ITO["vermillion"], "width": 2},
        marker={"symbol": "star", "size": 12, "color": OKABE_ITO["vermillion"]},
        name="chosen by some λ",
        hovertemplate="bits %{text}: %{x:.4g} ms, V %{y:.3g}<extra></extra>",
    )
    widest = float(frame["exchange (ms)"].max())
    least = float(frame["exchange (ms)"].min())
    figure.update_xaxes(
        title_text="exchange (ms)", range=[least - 0.05 * (widest - least), widest + 0.2 * (widest - least)]
    )
    figure.update_yaxes(title_text="variance V (no unit)", type="log")
    words = "; ".join(
        f"{widths} for λ from {min(found[widths]):.2f} to {max(found[widths]):.2f}" for widths in picked.index
    )
    caption = f"All {len(frame)} assignments of {groups} groups. Bits that some λ chooses: {words}."
    finish(figure, title="Every assignment, and those worth having", caption=caption, dark=dark, height=380)
    picked = picked.assign(**{"from λ": [min(found[each]) for each in picked.index]})
    return Bundle(figure, picked)


def solvers_table(problem: Problem, *, highs: bool = True) -> DataFrame:
    """Solve one problem by all means there are; return a line each with ``objective, gap, seconds``.

    Brute force tries up to eight groups. HiGHS solves the model as Eq. 12 writes it, if cvxpy is installed.

    Args:
        problem: what to assign.
        highs: whether HiGHS is asked; it may take long where there are many groups.
    """
    import pandas as pd

    from gnnqlab.bits.assigner.reference import brute_force, solve_reference
    from gnnqlab.bits.assigner.solver import solve

    rows = []
    if problem.group_rows.size <= 8:
        start = time.perf_counter()
        best = brute_force(problem)
        rows.append(("brute force", best.objective, best.gap, time.perf_counter() - start))
    if highs:
        try:
            found = solve_reference(problem, time_limit_s=60.0)
            gap = float("nan") if found.solution is None else found.solution.gap
            rows.append(("HiGHS", found.objective, gap, found.seconds))
        except RuntimeError:  # cvxpy is not installed: the others remain
            pass
    start = time.perf_counter()
    fast = solve(problem)
    rows.append(("fast solver", fast.objective, fast.gap, time.perf_counter() - start))
    return pd.DataFrame(rows, columns=["solver", "objective", "gap", "seconds"]).set_index("solver")
