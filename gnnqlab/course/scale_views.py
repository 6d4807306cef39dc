"""What systems move and keep against the number of workers: lines by formula or trial, marks as measured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.byte_axis import log_byte_ticks
from gnnqlab.lab.figures.frames import human_bytes
from gnnqlab.lab.figures.theme import OKABE_ITO, finish
from gnnqlab.lab.training.memory_view import memory_figure

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pandas import DataFrame

    from gnnqlab.launch import Run

__all__ = ["agreement", "draw_held", "draw_scale", "measured_of"]

_LOOKS = tuple(
    zip(
        ("grey", "blue", "vermillion", "green", "purple", "orange", "sky"),
        ("solid", "solid", "dash", "dot", "dashdot", "longdash", "dash"),
        ("circle", "square", "diamond", "triangle-up", "x", "star", "cross"),
        strict=True,
    )
)
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
    from plotly.subplots import make_subplots

    names = list(found["system"].unique())
    if not 1 <= len(names) <= len(_LOOKS):
        raise ValueError(f"between 1 and {len(_LOOKS)} systems can be drawn, got {len(names)}")
    figure = make_subplots(cols=2, horizontal_spacing=0.12)
    counts = sorted(found["workers"].unique().tolist())
    for column, (panel, title) in enumerate(_PANELS, start=1):
        for name, (color, dash, symbol) in zip(names, _LOOKS):
            for frame, open_mark, said in ((found, False, ""), (measured, True, ", measured")):
                if frame is None:
                    continue
                line = frame[(frame["system"] == name) & (frame[panel] > 0)]
                figure.add_scatter(
                    x=line["workers"].tolist(),
                    y=line[panel].tolist(),
                    name=name,
                    legendgroup=name,
                    showlegend=column == 1 and not open_mark,
                    mode="markers" if open_mark else "lines+markers",
                    line={"color": OKABE_ITO[color], "dash": dash, "width": 2},
                    marker={
                        "symbol": f"{symbol}-open" if open_mark else symbol,
                        "size": 15 if open_mark else 7,
                        "color": OKABE_ITO[color],
                        "line": {"width": 2 if open_mark else 0},
                    },
                    text=[human_bytes(value) for value in line[panel]],
                    hovertemplate=f"{name}{said}, %{{x}} workers: %{{text}}<extra></extra>",
                    row=1,
                    col=column,
                )
        figure.update_yaxes(title_text=title, type="log", col=column, **_ticks(found, measured, panel))
    ticks = {"tickvals": counts, "ticktext": [str(count) for count in counts]}
    figure.update_xaxes(title_text="workers", type="log", **ticks)
    most = found[found["workers"] == counts[-1]].sort_values("bytes")
    told = ", ".join(f"{name} {human_bytes(sent)}" for name, sent in zip(most["system"], most["bytes"]))
    caption = f"Sent in an epoch at {counts[-1]} workers: {told}." + (
        "" if measured is None else " Open marks are measured."
    )
    finish(figure, title="Who moves and keeps how much", caption=caption, dark=dark, height=440, legend_rows=2)
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
