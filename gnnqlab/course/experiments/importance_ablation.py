"""Does importance help at equal bytes? The gradient's variance with SYLVIE's widths, and with the same widths moved.

Every message keeps the widths that it has, so every message keeps its bytes; only which of its rows gets which width
changes. SYLVIE never ablates this. Notebook 26 has the figures of three graphs: importance by in-degree (section IV-A)
helps on two of them and not on ``cora``; Σα² at the receiver is better on all three.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from gnnqlab.bits.assigner.groups import use_of_halo
from gnnqlab.bits.orchestrator import HALVES, Orchestrated, by_importance
from gnnqlab.bits.policy import BitPolicy, Rows
from gnnqlab.graph.graph import Graph
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.parts import cut_graph
from gnnqlab.partition.shard import Shard
from gnnqlab.simulation.gradient_noise import gradient_noise, trained_weights
from gnnqlab.systems.system import System, make_system
from gnnqlab.theory.intervals import interval

if TYPE_CHECKING:
    from pandas import DataFrame

__all__ = ["MASKS", "MovedWidths", "importance_ablation"]

MASKS = ("importance", "shuffled", "reversed", "Σα²")
"""Which rows of a message get its wide widths: those of high in-degree, as SYLVIE has it; any; those of low in-degree;
those that their receiver multiplies by most."""
_ALPHA = {"gcn": "symmetric", "graphsage": "mean"}
"""Model -> its α."""


@dataclass(frozen=True, eq=False)
class MovedWidths(BitPolicy):
    """The widths of importance, given to other rows of the same message.

    Args:
        shards: of all workers.
        alpha: kind of α, for Σα².
        mask: one of :data:`MASKS`.
        base: smallest width.
        thresholds: of importance.
        seed: of what is shuffled, and of the order of rows that the mask finds equal.
    """

    shards: Sequence[Shard]
    alpha: str
    mask: str = "importance"
    base: int = 1
    thresholds: tuple[float, ...] = HALVES
    seed: int = 0
    _known: dict[tuple[str, int, int], Tensor] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if self.mask not in MASKS:
            raise ValueError(f"mask must be one of {MASKS}, got {self.mask!r}")

    @property
    def choices(self) -> tuple[int, ...]:
        return Orchestrated().among

    def round(self, epoch: int) -> int:
        return 0

    def widths(self, rows: Rows, epoch: int) -> Tensor:
        """Return the width of every row of a message; the same in all layers."""
        key = rows.direction, rows.sender, rows.receiver
        if key not in self._known:
            self._known[key] = self._moved(rows)
        return self._known[key]

    def _moved(self, rows: Rows) -> Tensor:
        holder, owner = (rows.receiver, rows.sender) if rows.direction == "forward" else (rows.sender, rows.receiver)
        shard = self.shards[holder]
        place = shard.plan("forward").from_peer(owner).rows
        p = shard.importance[shard.num_owned + place]
        assert torch.equal(shard.halo[place], rows.ids.cpu())
        widths = by_importance(p, self.base, self.choices, self.thresholds)
        if self.mask == "importance":
            return widths
        generator = torch.Generator().manual_seed(
            self.seed * 1_000_003 + 2 * (rows.sender * len(self.shards) + rows.receiver) + (rows.direction == "forward")
        )
        anyhow = torch.randperm(widths.numel(), generator=generator)
        if self.mask == "shuffled":
            return widths[anyhow]
        rank = -p if self.mask == "reversed" else use_of_halo(shard, shard.alpha(self.alpha))[place]
        moved = torch.empty_like(widths)
        moved[anyhow[rank[anyhow].argsort(stable=True)]] = widths.sort().values
        return moved


def importance_ablation(
    graph: Graph,
    model: ModelSettings,
    *,
    workers: int = 8,
    base: int = 1,
    thresholds: tuple[float, ...] = HALVES,
    epochs: int = 20,
    repeats: int = 12,
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    system: System | None = None,
    hosts: int = 1,
) -> DataFrame:
    """Measure the gradient's variance at trained weights for each mask; every mask sends the same bytes.

    Args:
        graph: the whole graph.
        model: ``gcn`` or ``graphsage``; its dropout is switched off.
        workers: number of partitions, threads of this process, at least 2.
        base: smallest width; at the largest all rows have it, and nothing can be moved.
        thresholds: of importance.
        epochs: of exact training before.
        repeats: passes with independent noise, for each seed and each mask.
        seeds: of weights, noise and shuffling.
        system: its partitioner is used; METIS by default.
        hosts: that share the workers evenly; the partitioner and the exchange are told.

    Returns:
        By ``mask``: ``variance``, the mean over seeds of the variance over the squared gradient; ``ratio``, the mean of
        its ratio to that of importance at the same seed, above 1 where importance is better, and ``±``, half its 95 %
        interval; ``bits``, the mean width of a row, the same in all lines.

    Raises:
        ValueError: if the model is another, edges or blocks are cut, or nothing can be moved.

    Example:
        >>> from gnnqlab.graph import load
        >>> from gnnqlab.partition import Random
        >>> recipe, shape = replace(make_system("vanilla"), partition=Random()), ModelSettings(layers=2, hidden=8)
        >>> settings = {"workers": 2, "epochs": 1, "repeats": 3, "seeds": (0, 1), "system": recipe}
        >>> found = importance_ablation(load("sbm:60,3,6"), shape, **settings)
        >>> found.index.tolist(), float(found.loc["importance", "ratio"])
        (['importance', 'shuffled', 'reversed', 'Σα²'], 1.0)
    """
    import pandas as pd

    if model.name not in _ALPHA:
        raise ValueError(f"model must be one of {tuple(_ALPHA)}, whose α are known, got {model.name!r}")
    if base >= Orchestrated().among[-1]:
        raise ValueError(f"base must be below {Orchestrated().among[-1]} for rows to differ in width, got {base}")
    shape = replace(model, dropout=0.0, input_dropout=0.0)
    recipe = (system or make_system("vanilla")).on_hosts(hosts)
    if (cuts := recipe.partition.cuts) != "nodes":
        raise ValueError(f"importance is that of halo rows, got a cut of {cuts}; choose METIS() or Random()")
    cut = cut_graph(graph, recipe.partition, workers)
    shards = [cut.shard(graph, rank) for rank in range(workers)]
    found: dict[str, list[float]] = {mask: [] for mask in MASKS}
    for seed in seeds:
        weights = trained_weights(graph, shape, epochs, seed=seed)
        for mask in MASKS:
            policy = MovedWidths(shards, _ALPHA[model.name], mask, base, thresholds, seed)
            noise = gradient_noise(
                graph, policy, shape, workers=workers, repeats=repeats, weights=weights, system=recipe, seed=seed
            )
            found[mask].append(noise.relative)
    lines = {}
    for mask, variances in found.items():
        ratio, half = interval([other / own for other, own in zip(variances, found["importance"])])
        lines[mask] = {"variance": sum(variances) / len(variances), "ratio": ratio, "±": half}
    table = pd.DataFrame(lines).T.rename_axis("mask")
    return table.assign(bits=_mean_bits(shards, base, thresholds))


def _mean_bits(shards: Sequence[Shard], base: int, thresholds: tuple[float, ...]) -> float:
    p = torch.cat([shard.importance[shard.num_owned :] for shard in shards])
    return float(by_importance(p, base, Orchestrated().among, thresholds).double().mean())
