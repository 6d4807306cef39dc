"""Tables of a study: means over seeds with intervals, as data frames, readable tables and LaTeX."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["best_cells", "convergence", "format_value", "latex", "summarize", "wide_table"]

GROUP = ["graph", "model", "system", "services", "workers", "link"]
SCORE = "score"
"""Metric name that stands for the test score, whose name depends on the graph."""


def summarize(frame: pd.DataFrame, metrics: Sequence[str], baseline: Mapping[str, str]) -> pd.DataFrame:
    """Compute means over seeds, and differences from the baseline over common seeds.

    Args:
        frame: tidy table, as returned by :meth:`gnnqlab.study.Study.frame`.
        metrics: names of metrics; all by default.
        baseline: ``system`` and ``services`` of the baseline.

    Raises:
        ValueError: if a metric is unknown.

    Example:
        >>> import pandas as pd
        >>> rows = [("vanilla", 0, 1.0), ("vanilla", 1, 3.0), ("x", 0, 2.0), ("x", 1, 4.0)]
        >>> frame = pd.DataFrame(rows, columns=["system", "seed", "value"]).assign(
        ...     graph="g", model="gcn", services="published", workers=2, link="", metric="train_s", unit="s")
        >>> found = summarize(frame, ["train_s"], {"system": "vanilla", "services": "published"})
        >>> found[["system", "mean", "difference", "difference_half_interval"]].values.tolist()
        [['vanilla', 2.0, 0.0, 0.0], ['x', 3.0, 1.0, 0.0]]
    """
    import pandas as pd

    names = [name for metric in metrics for name in (_scores(frame) if metric == SCORE else [metric])]
    known_metrics = list(dict.fromkeys(name for name in frame["metric"] if name))
    if unknown_metrics := sorted(set(names) - set(known_metrics)):
        raise ValueError(f"metrics must be among {sorted({*known_metrics, SCORE})}, got {unknown_metrics}")
    frame = frame[frame["metric"].isin(names or known_metrics)]
    is_baseline = (frame["system"] == baseline["system"]) & (frame["services"] == baseline["services"])
    key_columns = ["graph", "model", "workers", "link", "seed", "metric"]
    # Differences are paired by seed: the variation between seeds that both systems share cancels.
    baselines = frame[is_baseline].rename(columns={"value": "baseline"})[[*key_columns, "baseline"]]
    pairs = frame.merge(baselines, on=key_columns, how="left")  # a seed without baseline has NaN
    rows = []
    for place, group in pairs.groupby([*GROUP, "metric", "unit"], sort=False):  # in the order of the grid
        value = group.dropna(subset=["value"])  # NaN: for instance a target that was not reached
        seed_pairs = value.dropna(subset=["baseline"])  # seeds that the baseline has too
        mean, half = _interval(value["value"])
        difference, difference_half = _interval(seed_pairs["value"] - seed_pairs["baseline"])
        rows.append((*place, len(value), mean, half, difference, difference_half))
    columns = [*GROUP, "metric", "unit", "seeds", "mean", "half_interval", "difference", "difference_half_interval"]
    return pd.DataFrame(rows, columns=columns)


def wide_table(summary: pd.DataFrame, baseline: str) -> pd.DataFrame:
    """Build a table with one row per system, and per metric a column for its value and one for its difference.

    Grid columns that are constant are omitted, except ``system``. Metrics that are ratios to the baseline have no
    difference.
    """
    import pandas as pd

    varied_columns = [name for name in GROUP if name == "system" or summary[name].nunique() > 1]
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for record in summary.to_dict("records"):
        row = rows.setdefault(tuple(record[name] for name in GROUP), {name: record[name] for name in varied_columns})
        unit = record["unit"]
        row[record["metric"]] = format_value(record["mean"], record["half_interval"], unit)
        if unit != "×":  # a ratio is relative to the baseline already
            unit = "points" if unit == "%" else unit  # a difference of percentages is in points
            text = format_value(record["difference"], record["difference_half_interval"], unit, sign="+")
            row[f"{record['metric']} − {baseline}"] = text
    return pd.DataFrame(list(rows.values())).fillna("")  # a cell without this metric


def best_cells(
    summary: pd.DataFrame, misses: Collection[tuple[object, ...]] = frozenset()
) -> frozenset[tuple[int, str]]:
    """Return row and column of the best values of each graph, model, number of workers and link in ``wide_table``.

    Scores and ratios are best if large, seconds and bytes if small; other metrics have no best value.

    Args:
        summary: means over seeds, as returned by :func:`summarize`.
        misses: values of ``GROUP`` of systems that miss the baseline's score; none of their cells is best.
    """
    rows = {place: number for number, place in enumerate(dict.fromkeys(map(tuple, summary[GROUP].values.tolist())))}
    values: dict[tuple[object, ...], dict[int, float]] = {}
    for record in summary.to_dict("records"):
        place = tuple(record[name] for name in GROUP)
        sign = _direction(record["metric"], record["unit"])
        if sign and not math.isnan(record["mean"]) and place not in misses:
            rivals = (*(record[name] for name in GROUP if name not in ("system", "services")), record["metric"])
            values.setdefault(rivals, {})[rows[place]] = sign * record["mean"]
    return frozenset(
        (row, str(rivals[-1]))
        for rivals, by_row in values.items()
        for row, value in by_row.items()
        if len(by_row) > 1 and value == max(by_row.values())
    )


def _direction(metric: str, unit: str) -> int:
    """Return 1 if larger values of a metric are better, -1 if smaller ones are, 0 for neither."""
    if unit == "×" or metric.startswith("test_") or metric == "best_validation":
        return 1
    return -1 if unit in ("s", "B") else 0


def convergence(
    curves: Iterable[tuple[Mapping[str, object], Iterable[tuple[int, float, float]]]], *, factor: float = 100.0
) -> pd.DataFrame:
    """Compute the mean score of each evaluation over seeds, with its 95 % interval; see ``Study.convergence``.

    Args:
        curves: columns of each cell, and (epochs, seconds, score in [0, 1]) of its evaluations.
        factor: factor of the scores: 100 for per cent, 1 for values with another unit.

    Example:
        >>> cells = [({**dict.fromkeys(GROUP, ""), "system": "x"}, [(5, 2.0, 0.7)]),
        ...          ({**dict.fromkeys(GROUP, ""), "system": "x"}, [(5, 4.0, 0.9)])]
        >>> convergence(cells)[["system", "epochs", "seconds", "score", "seeds"]].values.tolist()
        [['x', 5, 3.0, 80.0, 2]]
    """
    import pandas as pd

    columns = [*GROUP, "epochs", "seconds", "score"]
    points = [(*(each[name] for name in GROUP), *point) for each, curve in curves for point in curve]
    rows = []
    for place, group in pd.DataFrame(points, columns=columns).groupby([*GROUP, "epochs"], sort=False):
        mean, half = (factor * value for value in _interval(group["score"]))
        rows.append((*place, group["seconds"].mean(), mean, mean - half, mean + half, len(group)))
    frame = pd.DataFrame(rows, columns=[*columns, "low", "high", "seeds"])
    frame.attrs["units"] = {"seconds": "s", **(dict.fromkeys(("score", "low", "high"), "%") if factor == 100 else {})}
    return frame


def latex(
    table: pd.DataFrame, columns: Sequence[str] | None = None, best: Collection[tuple[int, str]] = frozenset()
) -> str:
    r"""Format a table as a LaTeX ``tabular`` with the rules of booktabs.

    Args:
        table: readable cells; characters with a meaning in LaTeX are escaped, and headings have spaces for underscores.
        columns: columns in their order; all by default.
        best: row and column of cells in bold.

    Raises:
        ValueError: if a column is unknown.

    Example:
        >>> import pandas as pd
        >>> print(latex(pd.DataFrame({"system": ["a_b"], "score": ["90.00 ± 0.10 %"]})))
        \begin{tabular}{ll}
        \toprule
        system & score \\
        \midrule
        a\_b & 90.00 $\pm$ 0.10 \% \\
        \bottomrule
        \end{tabular}
    """
    names = list(table.columns) if columns is None else list(columns)
    if unknown := [name for name in names if name not in table]:
        raise ValueError(f"columns must be among {list(table.columns)}, got {unknown}")
    cells = [[_escape_latex(name.replace("_", " ")) for name in names]]
    for number, row in enumerate(table[names].values.tolist()):
        texts = zip(names, map(_escape_latex, row), strict=True)
        cells.append([rf"\textbf{{{text}}}" if (number, name) in best else text for name, text in texts])
    lines = [" & ".join(row) + r" \\" for row in cells]
    header = rf"\begin{{tabular}}{{{'l' * len(names)}}}"
    return "\n".join([header, r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule", r"\end{tabular}"])


def _scores(frame: pd.DataFrame) -> list[str]:
    return [name for name in dict.fromkeys(frame["metric"]) if name.startswith("test_")] or [SCORE]


def _interval(values: pd.Series) -> tuple[float, float]:
    """Return mean and half interval; the interval is NaN for one value, both are NaN for none."""
    mean, half = interval(values.tolist()) if len(values) else (math.nan, math.nan)
    return mean, half if len(values) > 1 else math.nan  # one seed gives no interval, rather than one of 0


def format_value(mean: float, half: float, unit: str, *, sign: str = "") -> str:
    """Format a mean and the half-width of its interval with the unit; bytes as MB.

    Args:
        mean, half: NaN for a mean that is not known, and for one without an interval.
        unit: as in :mod:`gnnqlab.study.metrics`; ``%``, ``points`` and ``×`` have two decimals, others three digits.
        sign: ``"+"`` to write the sign of a positive mean.

    Example:
        >>> format_value(80.5, 1.25, "%"), format_value(12.34, 0.56, "s"), format_value(2.5e6, math.nan, "B")
        ('80.50 ± 1.25 %', '12.3 ± 0.6 s', '2.5 MB')
    """
    if math.isnan(mean):
        return "–"
    scale, unit = (1e-6, "MB") if unit == "B" else (1.0, unit)
    if unit in ("%", "points", "×"):
        digits = f"{sign}.2f"
    elif math.isnan(half) or not mean:
        digits = f"{sign}.3g"
    else:  # three digits of the mean, and as many decimals of the interval
        digits = f"{sign}.{max(0, 2 - math.floor(math.log10(abs(scale * mean))))}f"
    error = "" if math.isnan(half) else f" ± {scale * half:{digits.lstrip('+')}}"  # a half-width has no sign
    return f"{scale * mean:{digits}}{error} {unit}"


_LATEX = {
    **{character: f"\\{character}" for character in "&%_#${}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "\u00a0": "~",
    "±": r"$\pm$",
    "×": r"$\times$",
    "−": "$-$",
    "–": "--",
    "²": "$^2$",
    "<": "$<$",
    ">": "$>$",
    "λ": r"$\lambda$",
    "ε": r"$\varepsilon$",
    "δ": r"$\delta$",
}


def _escape_latex(value: object) -> str:
    return "".join(_LATEX.get(character, character) for character in str(value))
