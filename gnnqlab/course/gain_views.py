"""One model trained as it is and inside a block that changes its products: loss and accuracy over seconds.

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
    """Train two copies of a model from the same weights, one of them inside a block, an epoch of each in turn.

    Epochs take turns, and who begins does too, so that what else the machine does meets both.

    Args:
        make: a new model, called as ``model(graph, x)``.
        block_of: what its forward pass runs inside, given the model.
        graph: what the model takes for a graph.
        x: features, float32 ``(N, D)``.
        labels: classes ``(N,)``, one a node.
        train, test: bool ``(N,)``.
        epochs, lr, seed: of both trainings (Adam).

    Returns:
        A row an epoch and way: ``way, epoch, seconds`` (since the first epoch of that way began, evaluation left out),
        ``loss`` (before the step). The last row of each way has ``score``, in [0, 1], by the weights in float32.

    Raises:
        ValueError: if there is no epoch.
    """
    import pandas as pd

    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    with torch.random.fork_rng():
        models, steps = {}, {}
        for way in _LOOKS:
            torch.manual_seed(seed)
            models[way] = make()
            steps[way] = torch.optim.Adam(models[way].parameters(), lr=lr)
        blocks: dict[str, AbstractContextManager[object]] = {
            AS_IT_IS: contextlib.nullcontext(),
            INSIDE: block_of(models[INSIDE]),
        }
        spent, rows = dict.fromkeys(_LOOKS, 0.0), []
        for epoch in range(epochs):
            for way in list(_LOOKS) if epoch % 2 == 0 else list(_LOOKS)[::-1]:
                torch.manual_seed(seed + epoch)  # dropout of both alike
                begun = time.perf_counter()
                with blocks[way]:
                    logits = models[way](graph, x)
                loss = functional.cross_entropy(logits[train], labels[train])
                steps[way].zero_grad()
                loss.backward()
                steps[way].step()
                spent[way] += time.perf_counter() - begun
                rows.append({"way": way, "epoch": epoch, "seconds": spent[way], "loss": float(loss.detach())})
        found = pd.DataFrame(rows).sort_values(["way", "epoch"], ignore_index=True)
        found["score"] = float("nan")
        for way, model in models.items():
            model.eval()
            with torch.no_grad():
                right = model(graph, x).argmax(1) == labels
            found.loc[(found["way"] == way) & (found["epoch"] == epochs - 1), "score"] = float(
                right[test].float().mean()
            )
    return found


def gain_table(found: Mapping[str, DataFrame]) -> DataFrame:
    """Return seconds of all epochs, how many times faster the block is, and scores, a row a model.

    Example:
        >>> import pandas as pd
        >>> ways = {"way": ["as it is", "in tango()"], "epoch": 0, "loss": 1.0, "score": [0.9, 0.8]}
        >>> gain_table({"GCN": pd.DataFrame({**ways, "seconds": [3.0, 2.0]})}).loc["GCN", "times as fast"].item()
        1.5
    """
    import pandas as pd

    rows = {}
    for name, frame in found.items():
        last = frame[frame["epoch"] == frame["epoch"].max()].set_index("way")
        rows[name] = {
            **{f"{way} (s)": last.loc[way, "seconds"] for way in _LOOKS},
            "times as fast": last.loc[AS_IT_IS, "seconds"] / last.loc[INSIDE, "seconds"],
            **{f"{way}, score (%)": 100 * last.loc[way, "score"] for way in _LOOKS},
        }
    return pd.DataFrame.from_dict(rows, orient="index").round(2)


def draw_gain(found: Mapping[str, DataFrame], *, dark: bool = False) -> FigureData:
    """Draw the loss of each model over the seconds that it took, as it is and inside the block.

    Raises:
        ValueError: if there is no model.
    """
    if not found:
        raise ValueError("trainings of at least one model are needed, got none; see train_both")
    charts = [
        lines(
            frame, x="seconds", y="loss", by="way", styles=_LOOKS, log="y", zero="x",
            x_axis=f"{name}: training time (s)", y_axis="training loss (nats)",
        )
        for name, frame in found.items()
    ]  # fmt: skip
    table = gain_table(found)
    told = "; ".join(f"{name} {row['times as fast']:.2f} times as fast" for name, row in table.iterrows())
    caption = f"All epochs, {INSIDE} beside the model as it is: {told}. Indicative, measured in this notebook."
    title = "The same model, the same lines of DGL"
    return FigureData(
        panels(charts, share_y=True, gap=0.06, title=title, caption=caption, dark=dark, height=390), table
    )
