"""Two kinds of bytes: messages about nodes, and gradients of weights (SYLVIE Table II)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from gnnqlab.lab.figures.bundle import Bundle
from gnnqlab.lab.figures.byte_axis import byte_ticks
from gnnqlab.lab.figures.charts import bars
from gnnqlab.lab.figures.frames import human_bytes, settled

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["draw_kinds", "kinds_of_bytes"]


def kinds_of_bytes(records: Mapping[str, DataFrame], traffic: Mapping[str, DataFrame]) -> DataFrame:
    """Return the bytes of an epoch by what they are for, a line a run; the columns of SYLVIE's Table II.

    Args:
        records: ``run.records`` by label.
        traffic: ``run.traffic`` by label.

    Returns:
        ``embeddings`` and ``embedding gradients``: what all workers send each other about nodes, parameters included;
        ``messages``, their sum; ``weight gradients``: what one worker gives to the sum; ``times``: messages by weight
        gradients.
    """
    import pandas as pd

    lines = {}
    for label in records:
        frame = settled(traffic[label])
        sent = (frame["payload_bytes"] + frame["param_bytes"]).groupby(frame["direction"]).sum()
        epochs = max(frame["epoch"].nunique(), 1)
        forward, backward = (float(sent.get(way, 0)) / epochs for way in ("forward", "backward"))
        weights = float(records[label]["bytes_gradients"].max())
        lines[label] = (forward, backward, forward + backward, weights, (forward + backward) / weights)
    columns = ["embeddings", "embedding gradients", "messages", "weight gradients", "times"]
    return pd.DataFrame.from_dict(lines, orient="index", columns=columns).rename_axis("model")


def draw_kinds(table: DataFrame, *, dark: bool = False) -> Bundle:
    """Draw `kinds_of_bytes` as bars.

    Raises:
        ValueError: if there is no run.
    """
    if table.empty:
        raise ValueError("bytes of at least one run are needed, got none; see kinds_of_bytes")
    kinds = ["embeddings", "embedding gradients", "weight gradients"]
    most = float(table[kinds].max().max())
    words = "; ".join(
        f"{label}: {human_bytes(line['messages'])} of messages, {human_bytes(line['weight gradients'])} of weight "
        f"gradients, {line['times']:.3g} times as much"
        for label, line in table.iterrows()
    )
    said = table.assign(**{f"{kind}, said": table[kind].map(human_bytes) for kind in kinds})
    figure = bars(
        said,
        y=kinds,
        styles=["blue", "sky /", "orange x"],
        text={kind: f"{kind}, said" for kind in kinds},
        hover="%{text} an epoch",
        x_axis="model: layers, kind, width",
        y_axis={"title_text": "sent an epoch", "range": [0, 1.12 * most], **byte_ticks(most)},
        title="Messages and weight gradients",
        caption=f"Bytes of an epoch: {words}.",
        dark=dark,
        height=380,
    )
    return Bundle(figure, table)
