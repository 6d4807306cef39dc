"""Table and figure of a worked model's trainings at several bit-widths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.course.halo_models.model_training import TrainedHere
from gnnqlab.lab.figures.bundle import FigureData, show
from gnnqlab.lab.figures.charts import lines

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_losses", "training_table"]


def case_name(case: int | str) -> str:
    """Return the name of a case.

    Example:
        >>> case_name(8), case_name(32), case_name("all-gather")
        ('8 bits', 'float32', 'all-gather, float32')
    """
    if isinstance(case, str):
        return f"{case}, float32"
    return "float32" if case == 32 else f"{case} bit" + "s" * (case > 1)


def training_table(trained: Mapping[int | str, TrainedHere]) -> DataFrame:
    """Return error and kilobytes of a step of each case, and both relative to the first case.

    Args:
        trained: result of ``train_on_ranks``.
    """
    import pandas as pd

    first = next(iter(trained.values()))
    rows = {
        case_name(case): {
            "error": each.error,
            "error / first": each.error / first.error,
            "kB per step": each.step_bytes / 1e3,
            "bytes / first": each.step_bytes / first.step_bytes if first.step_bytes else 1.0,
        }
        for case, each in trained.items()
    }
    return pd.DataFrame(rows).T.rename_axis("exchange")


def draw_losses(
    trained: Mapping[int | str, TrainedHere], *, title: str = "Loss of one model on several ranks"
) -> FigureData:
    """Draw the losses of each case, as means over five steps.

    Args:
        trained: result of ``train_on_ranks``.
        title: title of the figure.
    """
    import pandas as pd

    points = [
        {"step": step + 2, "loss": sum(each.losses[step : step + 5]) / 5, "exchange": case_name(case)}
        for case, each in trained.items()
        for step in range(0, len(each.losses) - 4, 5)
    ]
    frame = pd.DataFrame(points)
    figure = lines(
        frame, x="step", y="loss", by="exchange", title=title, log="y",
        x_axis="training step", y_axis="relative squared error",
    )  # fmt: skip
    return show(figure, frame)
