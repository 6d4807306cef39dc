"""What systems move and keep against the number of workers: lines by formula or trial, marks as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.byte_axis import log_byte_ticks
from gnnqlab.lab.figures.charts import lines, panels, scatter
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.figures.log_ticks import value_ticks
from gnnqlab.lab.training.memory_view import memory_figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from gnnqlab.launch import Run

__all__ = ["agreement", "draw_held", "draw_scale", "measured_of"]

_STYLES = (
    "grey solid circle", "blue solid square", "vermillion dash diamond", "green dot triangle-up", "purple dashdot x",
    "orange longdash star", "sky dash cross",
)  # fmt: skip
_PANELS = (("bytes", "sent in an epoch, all workers (bytes)"), ("memory_bytes", "memory of a worker (bytes)"))


def measured_of(runs: Mapping[str, Run]) -> DataFrame:
    """Return what runs sent in an epoch and held, in the columns of :func:`gnnqlab.tune.by_workers.by_workers`.

    Args:
        runs: by the system's name as it is shown; several of one name, of different numbers of workers, are told apart
            by what follows a ``|``. Launch them with ``memory_every=1``.

    Returns:
        ``bytes`` is that of the last epoch, payload and parameters.
    """
    import pandas as pd

    rows = []
    for label, run in runs.items():
        last = run.records[run.records["epoch"] == run.records["epoch"].max()]
        held = run.memory[run.memory["epoch"] == run.memory["epoch"].max()]
        rows.append(
            {
                "system": label.split("|")[0].strip(),
                "workers": run.config.workers,
                "bytes": float((last["bytes_payload"] + last["bytes_params"]).sum()),
                "memory_bytes": float(held.groupby("rank")["bytes"].sum().max()),
            }
        )
    return pd.DataFrame(rows)


def agreement(found: DataFrame, measured: DataFrame) -> DataFrame:
    """Return what was measured over what was said, by system and number of workers; 1 is exact.

    Example:
        >>> import pandas as pd
        >>> said = pd.DataFrame({"system": ["SAR"], "workers": 2, "bytes": 10.0, "memory_bytes": 100.0})
        >>> agreement(said, said.assign(memory_bytes=110.0)).loc[("SAR", 2)].to_dict()
        {'bytes': 1.0, 'memory': 1.1}
    """
    keys = ["system", "workers"]
    ratio = measured.set_index(keys) / found.set_index(keys).loc[list(measured.set_index(keys).index)]
    return ratio.rename(columns={"memory_bytes": "memory"}).round(3)


def draw_scale(found: DataFrame, measured: DataFrame | None = None, *, dark: bool = False) -> Bundle:
    """Draw bytes and memory against the number of workers, a line a system, both axes logarithmic.

    Args:
        found: of :func:`gnnqlab.tune.by_workers.by_workers`.
        measured: of :func:`measured_of`, drawn as open marks of the same shape.

    Raises:
        ValueError: if there is no system, or more than lines that can be told apart.
    """
    names = list(found["system"].unique())
    if not 1 <= len(names) <= len(_STYLES):
        raise ValueError(f"between 1 and {len(_STYLES)} systems can be drawn, got {len(names)}")
    styles = dict(zip(names, _STYLES))
    counts = sorted(found["workers"].unique().tolist())
    workers = {"title_text": "workers", **value_ticks(counts)}
    charts = []
    for panel, title in _PANELS:
        said = found[found[panel] > 0].assign(amount=found[panel].map(human_bytes))
        chart = lines(
            said,
            x="workers",
            y=panel,
            by="system",
            styles=styles,
            size=7,
            details="amount",
            log="y",
            x_axis=workers,
            y_axis={"title_text": title, **_ticks(found, measured, panel)},
            hover="%{x} workers: %{customdata}",
        )
        if measured is not None:
            marks = {name: f"{style}-open" for name, style in styles.items()}
            seen = measured[measured[panel] > 0].assign(amount=measured[panel].map(human_bytes))
            scatter(
                seen[seen["system"].isin(names)],
                x="workers",
                y=panel,
                by="system",
                styles=marks,
                size=15,
                details="amount",
                hover="measured, %{x} workers: %{customdata}",
                figure=chart,
            )
        charts.append(chart)
    most = found[found["workers"] == counts[-1]].sort_values("bytes")
    told = ", ".join(f"{name} {human_bytes(sent)}" for name, sent in zip(most["system"], most["bytes"]))
    caption = f"Sent in an epoch at {counts[-1]} workers: {told}." + (
        "" if measured is None else " Open marks are measured."
    )
    figure = panels(
        charts, gap=0.12, title="Who moves and keeps how much", caption=caption, dark=dark, height=440, legend_rows=2
    )
    return Bundle(figure, found)


def draw_held(runs: Mapping[str, Run]) -> Bundle:
    """Draw what runs held at their peak, by purpose, as stacked bars; the frame has the most of each purpose.

    Args:
        runs: by the name that they are shown by, launched with ``memory_every=1``.

    Raises:
        ValueError: if a run counted no epoch.
    """
    import pandas as pd

    memories = {name: run.memory for name, run in runs.items()}
    figure = memory_figure(memories)
    most = {name: memory.groupby("purpose", sort=False)["peak_bytes"].max() for name, memory in memories.items()}
    return Bundle(figure, pd.DataFrame(most).T.rename_axis("system"))


def _ticks(found: DataFrame, measured: DataFrame | None, panel: str) -> dict[str, Any]:
    drawn = [value for frame in (found, measured) if frame is not None for value in frame[panel] if value > 0]
    return log_byte_ticks(min(drawn), max(drawn)) if drawn else {}
