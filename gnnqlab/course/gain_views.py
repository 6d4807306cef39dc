"""Training of one model with and without a context manager that changes its products: loss over seconds, accuracy.

Letters: N nodes, D features.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional

from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.charts import lines, panels

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pandas import DataFrame
    from torch import Tensor, nn

__all__ = ["AS_IT_IS", "INSIDE", "draw_gain", "gain_table", "train_both"]

AS_IT_IS, INSIDE = "as it is", "in tango()"
_LOOKS = {AS_IT_IS: "grey solid circle", INSIDE: "blue dash square"}


def train_both(
    make: Callable[[], nn.Module],
    block_of: Callable[[nn.Module], AbstractContextManager[object]],
    graph: Any,
    x: Tensor,
    labels: Tensor,
    train: Tensor,
    test: Tensor,
    *,
    epochs: int = 10,
    lr: float = 0.01,
    seed: int = 0,
) -> DataFrame:
    """Train two copies of a model from the same weights, one inside a context manager, in alternating epochs.

    The order of the two also alternates, so that other load on the machine affects both equally.

    Args:
        make: returns a new model, called as ``model(graph, x)``.
        block_of: returns the context manager for the forward pass of a model.
        graph: first argument of the model.
        x: features, float32 ``(N, D)``.
        labels: classes ``(N,)``, one per node.
        train, test: masks, bool ``(N,)``.
        epochs, lr, seed: settings of both trainings (Adam).

    Returns:
        One row per epoch and way: ``way, epoch, seconds`` (sum over the epochs of that way, without evaluation),
        ``loss`` (before the step). The last row of each way has ``score``, in [0, 1], evaluated in float32.

    Raises:
        ValueError: if there is no epoch.
    """
    import pandas as pd

    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    with torch.random.fork_rng():  # keeps the caller's random state
        models, steps = {}, {}
        for way in _LOOKS:
            torch.manual_seed(seed)  # the same initial weights for both
            models[way] = make()
            steps[way] = torch.optim.Adam(models[way].parameters(), lr=lr)
        blocks: dict[str, AbstractContextManager[object]] = {
            AS_IT_IS: contextlib.nullcontext(),  # the unchanged model
            INSIDE: block_of(models[INSIDE]),
        }
        seconds, rows = dict.fromkeys(_LOOKS, 0.0), []
        for epoch in range(epochs):
            # Alternate the order, so that other load on the machine affects both equally.
            for way in list(_LOOKS) if epoch % 2 == 0 else list(_LOOKS)[::-1]:
                torch.manual_seed(seed + epoch)  # the same dropout masks in both
                start = time.perf_counter()
                with blocks[way]:
                    logits = models[way](graph, x)  # (N, D) -> (N, classes)
                loss = functional.cross_entropy(logits[train], labels[train])
                steps[way].zero_grad()
                loss.backward()
                steps[way].step()
                seconds[way] += time.perf_counter() - start
                # seconds so far
                rows.append({"way": way, "epoch": epoch, "seconds": seconds[way], "loss": float(loss.detach())})
        frame = pd.DataFrame(rows).sort_values(["way", "epoch"], ignore_index=True)
        frame["score"] = float("nan")
        for way, model in models.items():
            model.eval()  # evaluation without dropout
            with torch.no_grad():
                hits = model(graph, x).argmax(1) == labels  # outside the context manager: float32
            frame.loc[(frame["way"] == way) & (frame["epoch"] == epochs - 1), "score"] = float(
                hits[test].float().mean()
            )
    return frame


def gain_table(found: Mapping[str, DataFrame]) -> DataFrame:
    """Return seconds of all epochs, the speed-up inside the context manager, and scores, one row per model.

    Example:
        >>> import pandas as pd
        >>> ways = {"way": ["as it is", "in tango()"], "epoch": 0, "loss": 1.0, "score": [0.9, 0.8]}
        >>> gain_table({"GCN": pd.DataFrame({**ways, "seconds": [3.0, 2.0]})}).loc["GCN", "times as fast"].item()
        1.5
    """
    import pandas as pd

    rows = {}
    for name, frame in found.items():
        totals = frame[frame["epoch"] == frame["epoch"].max()].set_index("way")
        rows[name] = {
            **{f"{way} (s)": totals.loc[way, "seconds"] for way in _LOOKS},
            "times as fast": totals.loc[AS_IT_IS, "seconds"] / totals.loc[INSIDE, "seconds"],  # above 1: faster inside
            **{f"{way}, score (%)": 100 * totals.loc[way, "score"] for way in _LOOKS},
        }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def draw_gain(found: Mapping[str, DataFrame], *, dark: bool = False) -> FigureData:
    """Draw the loss of each model over its training time, with and without the context manager.

    Raises:
        ValueError: if there is no model.
    """
    if not found:
        raise ValueError("trainings of at least one model are needed, got none; see train_both")
    charts = [
        lines(  # the horizontal axis is time, so a faster training ends further left
            frame, x="seconds", y="loss", by="way", styles=_LOOKS, log="y", zero="x",
            x_axis=f"{name}: training time (s)", y_axis="training loss (nats)",
        )
        for name, frame in found.items()
    ]  # fmt: skip
    table = gain_table(found)
    words = "; ".join(f"{name} {row['times as fast']:.2f} ×" for name, row in table.iterrows())
    caption = f"Speed-up over all epochs, {INSIDE}: {words}. Indicative, measured in this notebook."
    title = "The same DGL model with and without codes"
    return FigureData(
        panels(charts, share_y=True, gap=0.06, title=title, caption=caption, dark=dark, height=390), table
    )
