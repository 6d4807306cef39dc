"""Trainings in several precisions beside float32: scores, paired by seed, and losses (TANGO section 3.2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.charts import lines

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["compare_precisions", "draw_losses"]

_STYLES = (
    "grey solid circle", "blue solid square", "vermillion dash diamond", "green dot triangle-up", "purple dashdot x",
    "orange dash star",
)  # fmt: skip


def compare_precisions(found: DataFrame, *, beside: str = "float32") -> DataFrame:
    """Return each precision's last test score, and the difference to one of them by seed with a 95 % interval.

    Args:
        found: of :func:`gnnqlab.course.experiments.rounded_training.train_rounded`.
        beside: the precision that the others are compared with.

    Raises:
        ValueError: if that one was not trained.

    Example:
        >>> import pandas as pd
        >>> facts = {"compute": ["float32", "int8"] * 2, "seed": [0, 0, 1, 1], "epoch": 9, "loss": 1.0}
        >>> table = compare_precisions(pd.DataFrame({**facts, "score": [0.9, 0.8, 0.9, 0.8]}))
        >>> table.loc["int8"].to_dict()
        {'score (%)': 80.0, 'beside float32 (points)': -10.0, '±': 0.0}
    """
    import pandas as pd

    from gnnqlab.theory.intervals import interval

    last = found[found["epoch"] == found["epoch"].max()]
    scores = 100 * last.pivot(index="seed", columns="compute", values="score")
    if beside not in scores:
        raise ValueError(f"{beside!r} must be among the trainings to be compared with, got {sorted(scores)}")
    apart = scores.sub(scores[beside], axis=0)
    table = pd.DataFrame({"score (%)": scores.mean(), f"beside {beside} (points)": apart.mean()})
    table["±"] = [interval(apart[name].tolist())[1] for name in table.index]
    return table.loc[found["compute"].unique()].round(2)


def draw_losses(found: DataFrame, *, title: str = "The loss in several precisions", dark: bool = False) -> Bundle:
    """Draw the mean loss over epochs, a line for each precision.

    Args:
        found: one row an epoch and seed, with ``compute, epoch, loss``.
        title: of the figure.

    Raises:
        ValueError: if there is no row, or more precisions than lines that can be told apart.
    """
    names = list(found["compute"].unique())
    if not 1 <= len(names) <= len(_STYLES):
        raise ValueError(f"between 1 and {len(_STYLES)} precisions can be drawn, got {len(names)}")
    means = found.pivot_table(index="epoch", columns="compute", values="loss")[names]
    ends = "; ".join(f"{name} {means[name].iloc[-1]:.3g}" for name in names)
    figure = lines(
        means,
        y=names,
        styles=_STYLES,
        x_axis="epoch",
        y_axis="training loss (nats)",
        log="y",
        title=title,
        caption=f"Loss at epoch {means.index[-1]}: {ends}.",
        dark=dark,
        height=380,
        legend_rows=1 if len(names) < 4 else 2,
    )
    return Bundle(figure, means)
