"""How far messages are from what could be sent: bits of an element beside the entropy of the codes."""

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
    """Return whether codes of any message were counted."""
    return "entropy" in traffic and bool(traffic["entropy"].notna().any())


def entropy_by_place(traffic: DataFrame) -> DataFrame:
    """Return bits an element of all counted messages by layer and direction: sent as codes and parameters, and entropy.

    Means over elements; those of rows that are no codes are left out. ``parameters`` are the bits of scales and
    zero-points over the elements of their rows.

    Args:
        traffic: ``run.traffic``.

    Example:
        >>> import pandas as pd
        >>> rows = {"layer": 0, "direction": "forward", "bits": [2, 8], "payload_bytes": [40, 80]}
        >>> rows |= {"param_bytes": [8, 8], "entropy": [1.0, 5.0]}
        >>> entropy_by_place(pd.DataFrame(rows)).loc[(0, "forward")].tolist()
        [4.0, 0.53, 2.33]
    """
    counted = traffic[traffic["entropy"].notna()]
    elements = 8 * counted["payload_bytes"] / counted["bits"]
    sums = counted.assign(
        elements=elements,
        codes=8.0 * counted["payload_bytes"],
        parameters=8.0 * counted["param_bytes"],
        entropy=elements * counted["entropy"],
    )
    found = sums.groupby(["layer", "direction"], sort=True)[["elements", "codes", "parameters", "entropy"]].sum()
    per_element = found[["codes", "parameters", "entropy"]].div(found["elements"], axis=0)
    return per_element.sort_index(level=["direction", "layer"], ascending=[False, True]).round(2)


def draw_entropy(run: RunLike, *, label: str = "", dark: bool = False) -> FigureData:
    """Draw bits sent for an element beside the entropy of its codes, by direction and layer.

    Args:
        run: launched with ``entropy_every``.
        label: the run's name in the title, where there are several.
        dark: for a dark page.

    Raises:
        ValueError: if no codes were counted; it names codecs that have none.
    """
    taken = take(run)
    codecs = _codecs(taken.config)
    if not has_entropy(taken.traffic):
        name, said = label or taken.summary["run"], " and ".join(dict.fromkeys(codecs.values()))
        raise ValueError(
            f"a run must have counted codes to be drawn, got {name} with codec {said} and none counted; launch it with "
            "entropy_every=1 and a codec of integer codes"
        )
    table = entropy_by_place(taken.traffic)
    places = [f"{direction}, layer {layer}" for layer, direction in table.index]
    means = (f"{place} {row.codes:.3g} and {row.entropy:.3g}" for place, row in zip(places, table.itertuples()))
    caption = f"Bits of an element's code and their entropy: {'; '.join(means)}."
    lacking = [way for way in codecs if way not in set(table.index.get_level_values("direction"))]
    if lacking:
        caption += " No codes: " + ", ".join(f"{way} (codec {codecs[way]})" for way in lacking) + "."
    shown = table.set_axis(places).rename_axis("messages")
    names = {"codes": "codes sent", "parameters": "parameters sent", "entropy": "entropy of the codes"}
    figure = bars(
        shown,
        y=names,
        styles=["blue", "orange /", "green x"],
        zero="y",
        x_axis="direction and layer of the messages",
        y_axis="bits an element",
        title="Bits sent beside what the codes say" + (f", {label}" if label else ""),
        caption=caption,
        dark=dark,
    )
    for trace, group in zip(figure.data, ("sent", "sent", "entropy")):
        trace.offsetgroup = group
    figure.data[1].base = table["codes"].tolist()
    return FigureData(figure.update_layout(bargap=0.3), shown)


def _codecs(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the name of the codec of each direction."""
    codec = config["system"]["codec"]
    return {way: codec.get(way, codec)["name"] for way in ("forward", "backward")}
