"""Bits per element of messages compared with the entropy of their codes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import bars
from gnnqlab.lab.training.snapshot import RunLike, take

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_entropy", "entropy_by_place", "has_entropy"]


def has_entropy(traffic: DataFrame) -> bool:
    """Return True if the codes of any message were counted."""
    return "entropy" in traffic and bool(traffic["entropy"].notna().any())


def entropy_by_place(traffic: DataFrame) -> DataFrame:
    """Return bits per element by layer and direction: sent as codes and as parameters, and the entropy of the codes.

    Means over the elements of all counted messages; rows that are not integer codes are left out. ``parameters`` are
    the bits of scales and zero-points divided by the elements of their rows.

    Args:
        traffic: ``run.traffic``.

    Example:
        >>> import pandas as pd
        >>> rows = {"layer": 0, "direction": "forward", "bits": [2, 8], "payload_bytes": [40, 80]}
        >>> rows |= {"param_bytes": [8, 8], "entropy": [1.0, 5.0]}
        >>> entropy_by_place(pd.DataFrame(rows)).loc[(0, "forward")].tolist()
        [4.0, 0.53, 2.33]
    """
    messages = traffic[traffic["entropy"].notna()]
    elements = 8 * messages["payload_bytes"] / messages["bits"]  # payload bits / bits per element
    # Weighted by elements, because messages have different sizes.
    sums = messages.assign(
        elements=elements,
        codes=8.0 * messages["payload_bytes"],
        parameters=8.0 * messages["param_bytes"],
        entropy=elements * messages["entropy"],
    )
    totals = sums.groupby(["layer", "direction"], sort=True)[["elements", "codes", "parameters", "entropy"]].sum()
    per_element = totals[["codes", "parameters", "entropy"]].div(totals["elements"], axis=0)
    return per_element.sort_index(level=["direction", "layer"], ascending=[False, True]).round(2)


def draw_entropy(run: RunLike, *, label: str = "", dark: bool = False) -> FigureData:
    """Draw the bits sent per element next to the entropy of its codes, by direction and layer.

    Args:
        run: a run that was launched with ``entropy_every``.
        label: name of the run in the title, if there are several.
        dark: colours for a dark page.

    Raises:
        ValueError: if no codes were counted; the message names the run's codecs.
    """
    snapshot = take(run)
    codecs = _codecs(snapshot.config)
    if not has_entropy(snapshot.traffic):
        name, codec = label or snapshot.summary["run"], " and ".join(dict.fromkeys(codecs.values()))
        raise ValueError(
            f"a run must have counted codes to be drawn, got {name} with codec {codec} and none counted; launch it "
            "with entropy_every=1 and a codec of integer codes"
        )
    table = entropy_by_place(snapshot.traffic)
    places = [f"{direction}, layer {layer}" for layer, direction in table.index]
    means = (f"{place} {row.codes:.3g} and {row.entropy:.3g}" for place, row in zip(places, table.itertuples()))
    caption = f"Bits per element and entropy of its code: {'; '.join(means)}."
    # Directions without counted codes.
    empty_directions = [way for way in codecs if way not in set(table.index.get_level_values("direction"))]
    if empty_directions:
        caption += " No codes: " + ", ".join(f"{way} (codec {codecs[way]})" for way in empty_directions) + "."
    frame = table.set_axis(places).rename_axis("messages")
    names = {"codes": "codes sent", "parameters": "parameters sent", "entropy": "entropy of the codes"}
    figure = bars(
        frame,
        y=names,
        styles=["blue", "orange /", "green x"],
        zero="y",
        x_axis="direction and layer of the messages",
        y_axis="bits per element",
        title="Bits sent and entropy of the codes" + (f", {label}" if label else ""),
        caption=caption,
        dark=dark,
    )
    # Parameters are stacked on codes, with the entropy as a bar of its own next to them.
    for trace, group in zip(figure.data, ("sent", "sent", "entropy")):
        trace.offsetgroup = group
    figure.data[1].base = table["codes"].tolist()
    return FigureData(figure.update_layout(bargap=0.3), frame)


def _codecs(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the codec of each direction."""
    codec = config["system"]["codec"]
    return {way: codec.get(way, codec)["name"] for way in ("forward", "backward")}
