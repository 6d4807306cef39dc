"""Tables of a trained run by node id: predictions and embeddings."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from gnnqlab.atomic import replacing

if TYPE_CHECKING:
    import pandas as pd

    from gnnqlab.graph.graph import Graph

__all__ = ["check_ending", "embedding_table", "prediction_table", "write_table"]

_SEPARATOR = "; "
"""Between the classes of a node with several labels."""


def prediction_table(
    logits: Tensor,
    graph: Graph,
    class_names: Sequence[Any] | None,
    *,
    probabilities: bool,
    split: bool,
    regression: bool = False,
) -> pd.DataFrame:
    """Return the predicted classes of all nodes, with their probabilities and ids.

    Args:
        logits: output of the model, float32 ``(N, C)``.
        graph: with N nodes; its labels are shown next to the predictions.
        class_names: names of the columns of ``logits``; ``None`` for 0 to C - 1.
        probabilities: True for a further column per class; always for a graph with several labels per node.
        split: True for a column with the split of each node.
        regression: True if the model predicts numbers.

    Returns:
        One row per node in the order of the graph; see :meth:`gnnqlab.Run.predictions`.
    """
    import pandas as pd

    names = list(range(logits.shape[1])) if class_names is None else list(class_names)
    columns: dict[str, Any] = {"id": _ids(graph)}
    if regression:
        columns |= {f"prediction_{name}": logits[:, column].numpy() for column, name in enumerate(names)}
        if graph.is_regression:
            columns |= {
                f"target_{name}": graph.labels[:, column].numpy() for column, name in enumerate(_names_of(graph))
            }
        return pd.DataFrame(columns | ({"split": _split(graph)} if split else {}))
    if graph.multi_label:
        shares = logits.sigmoid()  # (N, C)
        columns["classes"] = _joined(logits > 0, names)
        columns["labels"] = _joined(graph.labels > 0, _names_of(graph))
    else:
        shares = logits.softmax(1)  # (N, C)
        largest = shares.max(1)  # values and indices, (N,)
        columns["class"] = _named(largest.indices, names)
        columns["probability"] = largest.values.numpy()
        if graph.num_labelled:
            columns["label"] = _named(graph.labels, _names_of(graph))
    if split:
        columns["split"] = _split(graph)
    if probabilities or graph.multi_label:
        columns |= {f"probability_{name}": shares[:, column].numpy() for column, name in enumerate(names)}
    return pd.DataFrame(columns)


def embedding_table(rows: Tensor, graph: Graph) -> pd.DataFrame:
    """Return embeddings, float32 ``(N, D)``, as a table with columns 0 to D - 1 and the ids as index."""
    import pandas as pd

    return pd.DataFrame(rows.numpy(), index=pd.Index(_ids(graph), name="id"))


def check_ending(path: Path) -> None:
    """Check that a table can be written to a path.

    Raises:
        ValueError: if the path does not end in ``.csv``, ``.csv.gz`` or ``.parquet``.
    """
    if not path.name.endswith((".csv", ".csv.gz", ".parquet")):
        raise ValueError(f"a table is written as .csv, .csv.gz or .parquet, got {path}; choose one of these endings")


def write_table(table: pd.DataFrame, path: Path) -> Path:
    """Write a table as ``.csv``, ``.csv.gz`` or ``.parquet``, complete or not at all; return the path.

    Raises:
        ValueError: if the path has another extension.
        RuntimeError: for ``.parquet`` without pyarrow.
    """
    check_ending(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as partial_path:
        if path.suffix == ".parquet":
            try:
                table.to_parquet(partial_path, index=False)
            except ImportError as error:
                raise RuntimeError(
                    f"writing .parquet needs the package pyarrow, got {error}; pip install pyarrow, or write .csv"
                ) from error
        else:
            # By the name of the final file: the temporary one has another ending.
            compression: Any = "gzip" if path.suffix == ".gz" else None
            table.to_csv(partial_path, index=False, compression=compression)
    return path


def _ids(graph: Graph) -> Any:
    return np.arange(graph.num_nodes) if graph.ids is None else graph.ids


def _names_of(graph: Graph) -> list[Any]:
    return list(range(graph.num_classes)) if graph.class_names is None else list(graph.class_names)


def _named(codes: Tensor, names: Sequence[Any]) -> pd.Categorical:
    """Return classes by name; empty where a node has no label (-1)."""
    import pandas as pd

    # Categories, not objects: a name is stored once, not once per node.
    return pd.Categorical.from_codes(codes.numpy(), categories=names)


def _joined(chosen: Tensor, names: Sequence[Any]) -> list[str]:
    """Return the names of the chosen classes of each node as one text."""
    texts = [str(name) for name in names]
    rows, columns = chosen.nonzero(as_tuple=True)  # sorted by row
    groups = columns.split(torch.bincount(rows, minlength=chosen.shape[0]).tolist())
    return [_SEPARATOR.join(texts[column] for column in group.tolist()) for group in groups]


def _split(graph: Graph) -> pd.Categorical:
    import pandas as pd

    codes = torch.full((graph.num_nodes,), -1)
    for code, mask in enumerate((graph.train_mask, graph.val_mask, graph.test_mask)):
        codes[mask] = code
    return pd.Categorical.from_codes(codes.numpy(), categories=["train", "val", "test"])
