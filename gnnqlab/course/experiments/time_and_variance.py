"""Time and variance of bit-widths: Pareto fronts, all assignments of a small problem, solvers, and equal bytes."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle, product
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from gnnqlab.bits.assigner.pareto import front_over_lam
from gnnqlab.bits.assigner.reference import brute_force, solve_reference
from gnnqlab.bits.assigner.solver import solve
from gnnqlab.bits.policy import BitPolicy, Fixed, UniformRandom
from gnnqlab.former_names import former_functions
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, scatter
from gnnqlab.simulation.gradient_noise import gradient_noise

if TYPE_CHECKING:
    from pandas import DataFrame

    from gnnqlab.bits.assigner.problem import Problem
    from gnnqlab.graph.graph import Graph
    from gnnqlab.tune.forecast import Forecast
    from gnnqlab.tune.probe import Probe

__all__ = [
    "LAMS", "assignments_chart", "assign_at_equal_bytes", "least_variance", "pareto_chart", "solvers_table",
    "variance_at_equal_bytes",
]  # fmt: skip
__getattr__ = former_functions(__name__, {"at_equal_bytes": "assign_at_equal_bytes"})

LAMS = tuple(float(lam) for lam in np.linspace(0, 1, 41))
"""Values of λ on a front."""
Setting = TypeVar("Setting")


def least_variance(
    tried: Iterable[Setting],
    limit: float,
    *,
    bytes_sent: Callable[[Setting], float],
    variance: Callable[[Setting], float],
) -> Setting:
    """Return the setting of least predicted variance among those that send at most ``limit`` bytes per epoch.

    Raises:
        ValueError: if all send more.

    Example:
        >>> least_variance([(8, 9.0), (4, 2.0), (2, 1.0)], 5, bytes_sent=lambda s: s[0], variance=lambda s: s[1])
        (2, 1.0)
    """
    fitting_settings = [setting for setting in tried if bytes_sent(setting) <= limit]
    if not fitting_settings:
        raise ValueError(f"no λ sends at most {limit:g} bytes; allow more (λ = 0 minimizes time, not bytes)")
    return min(fitting_settings, key=variance)


def assign_at_equal_bytes(
    probe: Probe, *, most_bytes: int | None = None, group_size: int = 10, widths: tuple[int, ...] = (2, 4, 8)
) -> Forecast:
    """Return the assignment of least variance that sends no more bytes than random bit-widths.

    Args:
        probe: probe of a graph, a model and a link.
        most_bytes: another limit of bytes per epoch.
        group_size: rows that share a bit-width.
        widths: bit-widths to choose from.

    Raises:
        ValueError: if every λ sends more.
    """
    # bytes of an epoch with random bit-widths
    limit = probe.forecast(system="random-bits", bit_widths=widths).bytes_sent if most_bytes is None else most_bytes
    front = probe.front(LAMS, group_size=group_size, bit_widths=widths)  # one forecast per λ
    return least_variance(
        front, limit, bytes_sent=lambda forecast: forecast.bytes_sent, variance=lambda forecast: forecast.total_variance
    )


def variance_at_equal_bytes(
    graph: Graph,
    probe: Probe,
    *,
    most_bytes: int | None = None,
    group_size: int = 10,
    repeats: int = 16,
    widths: tuple[int, ...] = (2, 4, 8),
) -> DataFrame:
    """Measure the gradient variance of assigned bit-widths, random ones and a uniform 4 bits, at about equal bytes.

    Args:
        graph: the probed graph.
        probe: its probe; variance is measured at the weights of its last traced epoch.
        most_bytes: limit of the assigned bit-widths in bytes per epoch; by default the bytes of random ones.
        group_size: rows that share a bit-width.
        repeats: passes with independent noise.
        widths: bit-widths to assign or draw.

    Returns:
        By setting: ``kB`` per epoch, predicted ``V``, measured ``variance`` with the standard error ``±``, and
        ``times``, that variance over the assigned one's.
    """
    import pandas as pd

    assigned_forecast = assign_at_equal_bytes(probe, most_bytes=most_bytes, group_size=group_size, widths=widths)
    random_forecast = probe.forecast(system="random-bits", bit_widths=widths)
    fixed_forecast = probe.forecast(system="fixed-bits", bits=4)
    settings: list[tuple[str, Forecast, BitPolicy]] = [  # name, forecast, bit policy to measure
        (f"assigned, λ = {assigned_forecast.lam:.3g}", assigned_forecast, probe.build_policy(assigned_forecast)),
        ("drawn at random", random_forecast, UniformRandom(bit_widths=widths)),
        ("4 bits everywhere", fixed_forecast, Fixed(bits=4)),
    ]
    rows = []
    # All settings are measured with one set of weights and seeds, so they differ in bit-widths only.
    for name, forecast, bits in settings:
        noise = gradient_noise(
            graph,
            bits,
            probe.config.model,
            workers=probe.config.workers,
            repeats=repeats,
            weights=probe.trace.weights,
            system=probe.config.system_on_hosts,
            seed=probe.config.train.seed,
        )
        rows.append((name, forecast.bytes_sent / 1e3, forecast.total_variance, noise.variance, noise.standard_error))
    table = pd.DataFrame(rows, columns=["setting", "kB", "V", "variance", "±"]).set_index("setting")
    table["times"] = table["variance"] / table["variance"].iloc[0]  # relative to the assigned one, which is first
    return table


def pareto_chart(
    front: Sequence[Forecast],
    *,
    chosen: Forecast | None = None,
    beside: Mapping[str, Forecast] | None = None,
    dark: bool = False,
) -> FigureData:
    """Draw gradient variance over the predicted time of an epoch, for many λ.

    Args:
        front: forecasts of one setting at many λ, see `gnnqlab.tune.probe.Probe.front`.
        chosen: forecast to mark.
        beside: label -> other system, drawn as a single point.
        dark: colours for a dark page.

    Raises:
        ValueError: if the front is empty, or a forecast in it has no λ.
    """
    import pandas as pd

    if not front:
        raise ValueError("a front needs at least one forecast, got none; use probe.front()")
    if any(forecast.lam is None for forecast in front):
        raise ValueError("every forecast of a front must have a λ, got one of a system without bit assignment")
    start, end = front[0], front[-1]
    caption = (
        f"Predicted time and variance over {start.link}: from {1e3 * start.epoch_s:.3g} ms and V = "
        f"{start.total_variance:.3g} at λ = {start.lam:g} to {1e3 * end.epoch_s:.3g} ms and V = "
        f"{end.total_variance:.3g} at λ = {end.lam:g}."
    )
    if chosen is not None:
        caption += f" The star, λ = {chosen.lam:g}: {1e3 * chosen.epoch_s:.3g} ms, V = {chosen.total_variance:.3g}."
    # the front, then single points
    rows = [(f"λ = {forecast.lam:g}", forecast) for forecast in front] + list((beside or {}).items())
    marked_rows = [] if chosen is None else [(f"λ = {chosen.lam:g}", chosen)]
    frame = pd.DataFrame(
        {
            "epoch (ms)": [1e3 * forecast.epoch_s for _, forecast in rows + marked_rows],
            "speed-up": [forecast.speedup for _, forecast in rows + marked_rows],
            "variance": [forecast.total_variance for _, forecast in rows + marked_rows],
            "bits a row": [forecast.mean_bits for _, forecast in rows + marked_rows],
            "kB": [forecast.bytes_sent / 1e3 for _, forecast in rows + marked_rows],
        },
        index=pd.Index([name for name, _ in rows + marked_rows], name="setting"),
    )
    count = len(front)
    line = frame.iloc[:count].assign(
        # only both ends of the front are labelled
        ends=[name if forecast in (start, end) else "" for name, forecast in rows[:count]],
        words=[f"λ {forecast.lam:.2f}, {forecast.mean_bits:.2f} bits per element" for forecast in front],
    )
    figure = lines(
        line,
        x="epoch (ms)",
        y={"variance": f"assigned, λ from {start.lam:g} to {end.lam:g}"},
        size=9,
        text="ends",
        styles=["blue circle-open"],
        details="words",
    )
    # labels point away from the falling line
    figure.data[0].textposition = ["bottom left" if forecast is end else "top right" for forecast in front]
    points = frame.iloc[count:].rename_axis("name").reset_index()
    looks = dict(zip(points["name"], cycle(("grey square", "orange diamond", "green x", "purple cross"))))
    looks |= {name: "vermillion star" for name, _ in marked_rows}
    scatter(
        points,
        x="epoch (ms)",
        y="variance",
        by="name",
        styles=looks,
        size=13,
        figure=figure,
        log="y",
        x_axis="predicted epoch (ms)",
        y_axis="gradient variance V (no unit)",
        title="Variance over predicted time",
        caption=caption,
        dark=dark,
        height=380,
        legend_rows=2,
    )
    return FigureData(figure, frame.iloc[: len(rows)])  # the marked star repeats a point of the front


def assignments_chart(problem: Problem, *, dark: bool = False) -> FigureData:
    """Draw every assignment of a small problem, and those that are optimal for some λ.

    Raises:
        ValueError: if there are more than eight groups.
    """
    import pandas as pd

    groups = problem.group_rows.size
    if groups > 8:
        raise ValueError(f"all assignments can be drawn for at most 8 groups, got {groups}; use pareto_chart")
    rows = []
    # len(widths) ** groups choices of one bit-width per group
    for choice in product(range(len(problem.widths)), repeat=groups):
        index = np.array(choice)
        widths = " ".join(str(problem.widths[place]) for place in choice)
        rows.append((widths, 1e3 * problem.seconds(index), problem.variance(index)))  # seconds -> ms
    frame = pd.DataFrame(rows, columns=["widths", "exchange (ms)", "variance"]).set_index("widths")
    lams = [step / 50 for step in range(51)]  # λ in steps of 0.02
    optimal_lams: dict[str, list[float]] = {}
    for lam, solution in zip(lams, front_over_lam(problem, lams), strict=True):
        # values of λ for which an assignment is optimal
        optimal_lams.setdefault(" ".join(map(str, solution.widths.tolist())), []).append(lam)
    optima = frame.loc[list(optimal_lams)].sort_values("exchange (ms)")
    words = "; ".join(
        f"{widths} for λ from {min(optimal_lams[widths]):.2f} to {max(optimal_lams[widths]):.2f}"
        for widths in optima.index
    )
    max_ms, min_ms = float(frame["exchange (ms)"].max()), float(frame["exchange (ms)"].min())
    room = [min_ms - 0.05 * (max_ms - min_ms), max_ms + 0.2 * (max_ms - min_ms)]  # room on the right for labels
    figure = scatter(
        frame.reset_index(),
        x="exchange (ms)",
        y={"variance": f"all {len(frame)} assignments"},
        size=7,
        styles=["grey circle-open"],
        details="widths",
    )
    lines(
        optima.assign(label=[f" {widths}" for widths in optima.index]),
        x="exchange (ms)",
        text="label",
        size=12,
        y={"variance": ("optimal for some λ", "vermillion star")},
        figure=figure,
        log="y",
        x_axis={"title_text": "exchange (ms)", "range": room},
        y_axis="variance V (no unit)",
        title="All assignments, and those optimal for some λ",
        caption=f"All {len(frame)} assignments of {groups} groups. Bit-widths optimal for some λ: {words}.",
        dark=dark,
        height=380,
    )
    # The line falls, so labels to the upper right do not overlap it.
    figure.data[1].update(textposition="top right", cliponaxis=False)
    optima = optima.assign(**{"from λ": [min(optimal_lams[text]) for text in optima.index]})
    return FigureData(figure, optima)


def solvers_table(problem: Problem, *, highs: bool = True) -> DataFrame:
    """Solve one problem with every available solver; return one line each with ``objective, gap, seconds``.

    Brute force is used for up to eight groups. HiGHS solves the model as written in Eq. 12, if cvxpy is installed.

    Args:
        problem: the assignment problem.
        highs: use HiGHS, which may take long for many groups.
    """
    import pandas as pd

    rows = []
    if problem.group_rows.size <= 8:
        start = time.perf_counter()
        exact_solution = brute_force(problem)
        rows.append(("brute force", exact_solution.objective, exact_solution.gap, time.perf_counter() - start))
    if highs:
        try:
            reference = solve_reference(problem, time_limit_s=60.0)
            # HiGHS may reach its time limit without a solution
            gap = float("nan") if reference.solution is None else reference.solution.gap
            rows.append(("HiGHS", reference.objective, gap, reference.seconds))
        except RuntimeError:  # cvxpy is not installed: the others remain
            pass
    start = time.perf_counter()
    fast_solution = solve(problem)
    rows.append(("fast solver", fast_solution.objective, fast_solution.gap, time.perf_counter() - start))
    return pd.DataFrame(rows, columns=["solver", "objective", "gap", "seconds"]).set_index("solver")
