"""Training configurations of the papers, by graph."""

from __future__ import annotations

from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.train.config import TrainSettings

__all__ = ["PRESETS", "preset"]

PRESETS: dict[str, tuple[float, int]] = {
    "reddit": (0.5, 500),
    "yelp": (0.1, 1000),
    "ogbn-products": (0.5, 250),
    "amazon-products": (0.5, 1200),
}
"""AdaQP Table 8: graph -> (dropout, epochs); all train 3 layers of 256 with LayerNorm and Adam at 0.01."""


def preset(graph: str, *, model: str = "gcn", seed: int = 0) -> tuple[ModelSettings, TrainSettings]:
    """Return the settings AdaQP trained a graph with (Table 8).

    Raises:
        ValueError: if the table has no row for the graph.

    Example:
        >>> model, train = preset("yelp")
        >>> model.dropout, train.epochs
        (0.1, 1000)
    """
    if graph not in PRESETS:
        raise ValueError(f"AdaQP Table 8 has presets for {sorted(PRESETS)}, got {graph!r}; give the settings yourself")
    dropout, epochs = PRESETS[graph]
    return ModelSettings(name=model, layers=3, hidden=256, dropout=dropout), TrainSettings(
        epochs=epochs, lr=0.01, seed=seed
    )
