"""Tensors saved for backward by each layer, and seconds of computing them again.

An observer records each tensor that is saved, with the layer and the step at which the pass over the graph is. Tensors
that are still alive at the end of the forward pass count as saved; of a recomputed tensor its inputs count.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor, nn

from gnnqlab.compute.remade import KEEPS, Remakes
from gnnqlab.nn.message_passing import GraphPass
from gnnqlab.train.records.standing import standing

if TYPE_CHECKING:
    from gnnqlab.compute.products import Compute
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings
    from gnnqlab.train.loop.trainer import Trainer

__all__ = ["KINDS", "kept_by_layer", "kept_of_pass", "remade_seconds"]

KINDS = ("rows", "sums", "norms", "masks", "attention", "loss", "others")
"""What a tensor is kept for: rows that weights were multiplied with, for the weights' gradients; sums over neighbours,
for the same; rows in front of a norm, with their mean and deviation; signs of activations without a norm, and what
dropout leaves; projected rows, logits and softmax of attention, with other workers' rows; the loss; anything else."""

T = TypeVar("T")


def kept_by_layer(
    graph: Graph, shape: ModelSettings, keep: str = "all", *, workers: int = 1, compute: Compute | None = None
) -> dict[tuple[int, str], int]:
    """Return the bytes that a training pass of Vanilla keeps for its backward pass, by layer and kind.

    A layer is a convolution and what follows it up to the next one; without convolutions a look at neighbours is, with
    what is in front of the first one and behind the last one. Each memory counts once, for whoever kept it first.
    Weights, features and the graph are left out: they are there anyway.

    Args:
        graph: whose nodes are trained on.
        shape: a model's settings.
        keep: ``TrainSettings.keep_for_backward``.
        workers: threads of this process; of several the one that keeps the most is told of.
        compute: precision of the products; by default float32.

    Returns:
        ``(layer, kind)`` -> bytes, float32 rows being four bytes an element; nothing where nothing is kept.

    Raises:
        ValueError: if a setting is wrong.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> graph, shape = sbm(400, 4, 6, features=16), ModelSettings(layers=3, hidden=16)
        >>> found = kept_by_layer(graph, shape)
        >>> found[0, "sums"] == 400 * 16 * 4, found[0, "norms"] == 400 * (16 + 2) * 4
        (True, True)
    """
    from gnnqlab.compute import Float32Products
    from gnnqlab.nn import LocalGraph, build_model
    from gnnqlab.partition.parts import cut_graph
    from gnnqlab.simulation.threaded_workers import ThreadedWorkers
    from gnnqlab.systems import vanilla
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.train.loop.node_labels import label_objective
    from gnnqlab.train.loop.trainer import Trainer

    compute = compute or Float32Products()
    settings = TrainSettings(keep_for_backward=keep)
    if workers == 1:
        network = build_model(shape, graph.num_features, graph.num_classes, seed=0)
        local = LocalGraph(graph, products=compute.build())
        return kept_of_pass(Trainer(local, label_objective(graph), network, settings))
    system = replace(vanilla(), compute=compute)
    cut = cut_graph(graph, system.partition, workers)
    threads = ThreadedWorkers(graph, cut, system, shape, settings, as_launched=True)
    return max(threads.run(kept_of_pass), key=lambda found: sum(found.values()))


def kept_of_pass(trainer: Trainer, epoch: int = 0) -> dict[tuple[int, str], int]:
    """Return the same of one trainer's next forward pass; all workers of a graph call it at once."""
    keep = trainer.settings.keep_for_backward
    watch = _Watch([trainer.graph.ids, *(tensor for tensors in standing(trainer).values() for tensor in tensors)])
    with ExitStack() as stack:
        remakes: Remakes | None = None
        if keep == "all":
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(watch.saved, lambda kept: kept))
        else:
            remakes = stack.enter_context(Remakes(keep, watch.note))
        stack.enter_context(watch.layers(trainer.model))
        graph = _Watched(trainer.graph, epoch, remakes, watch)
        logits = trainer.model(graph, trainer.graph.features)
        with watch.doing("loss"):
            loss = trainer.objective.loss(logits)
    del logits, graph, remakes
    found = watch.there()
    del loss  # held it all until now
    return found


class _Watch:
    """What is kept while a pass says what it does."""

    def __init__(self, standing: Iterable[Tensor]) -> None:
        self._standing = [tensor.untyped_storage() for tensor in standing]
        self._known = {id(storage) for storage in self._standing}
        self._noted: dict[int, tuple[weakref.ref[Any], int, str]] = {}
        self._kind, self._rows, self._inside = "others", 0, -1
        self._sums: dict[int, weakref.ref[Any]] = {}
        self.looks = 0
        """Looks at neighbours so far."""

    def saved(self, tensor: Tensor) -> Tensor:
        """Note what autograd keeps, as a hook that packs saved tensors."""
        self.note(tensor)
        return tensor.detach()

    def note(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        earlier = self._noted.get(id(storage))
        if id(storage) in self._known or (earlier is not None and earlier[0]() is storage):
            return
        layer = self._inside if self._inside >= 0 else max(0, self.looks - 1)
        sums, kind = self._sums.get(id(storage)), self._kind
        if kind == "sums" and id(storage) == self._rows:
            kind = "rows"
        elif sums is not None and sums() is storage:
            kind = "sums"
        self._noted[id(storage)] = weakref.ref(storage), layer, kind

    def looked(self, x: Tensor) -> None:
        """Learn which rows a look sums; what it keeps of them are the rows themselves, all else are sums."""
        self._rows = id(x.untyped_storage())

    def summed(self, sums: Tensor) -> Tensor:
        """Learn which rows are sums over neighbours, whatever keeps them."""
        self._sums[id(sums.untyped_storage())] = weakref.ref(sums.untyped_storage())
        return sums

    def written_over(self, x: Tensor) -> None:
        self._sums.pop(id(x.untyped_storage()), None)

    @contextmanager
    def doing(self, kind: str) -> Iterator[None]:
        before, self._kind = self._kind, kind
        try:
            yield
        finally:
            self._kind = before

    @contextmanager
    def layers(self, model: nn.Module) -> Iterator[None]:
        """Learn which of a model's layers is running, where it has a list of them."""
        hooks = []
        for several in model.modules():
            for index, layer in enumerate(several if isinstance(several, nn.ModuleList) else ()):
                hooks.append(layer.register_forward_pre_hook(lambda *_, index=index: self._enter(index)))
                hooks.append(layer.register_forward_hook(lambda *_: self._enter(-1)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, index: int) -> None:
        self._inside = index

    def there(self) -> dict[tuple[int, str], int]:
        """Return the bytes by layer and kind of what was noted and is still there."""
        found: dict[tuple[int, str], int] = {}
        for noted, layer, kind in self._noted.values():
            storage = noted()
            if storage is not None and storage.nbytes():
                found[layer, kind] = found.get((layer, kind), 0) + storage.nbytes()
        return dict(sorted(found.items(), key=lambda item: (item[0][0], KINDS.index(item[0][1]))))


class _Watched(GraphPass):
    """A training pass that says what it does."""

    def __init__(self, graph: Any, epoch: int, remakes: Remakes | None, watch: _Watch) -> None:
        super().__init__(graph, epoch, training=True, remakes=remakes)
        self._watch = watch

    def linear(self, *arguments: Any, **settings: Any) -> Tensor:
        return self._doing("rows", super().linear, *arguments, **settings)

    def affine(self, *arguments: Any, **settings: Any) -> Tensor:
        return self._doing("rows", super().affine, *arguments, **settings)

    def activate(self, y: Tensor, norm: nn.LayerNorm | None = None, **settings: Any) -> Tensor:
        self._watch.written_over(y)
        return self._doing("masks" if norm is None else "norms", super().activate, y, norm, **settings)

    def activate_both(self, y: Tensor, norm: nn.LayerNorm | None = None, **settings: Any) -> tuple[Tensor, Tensor]:
        return self._doing("masks" if norm is None else "norms", super().activate_both, y, norm, **settings)

    def join(self, layers: Sequence[Tensor], how: str, *, dropout: float = 0.0) -> Tensor:
        return self._doing("masks", super().join, layers, how, dropout=dropout)

    def dropout(self, x: Any, p: float) -> Any:
        return self._doing("masks", super().dropout, x, p)

    def aggregate(self, *arguments: Any, **settings: Any) -> Tensor:
        return self._watch.summed(self._doing("sums", super().aggregate, *arguments, **settings))

    def convolve(self, *arguments: Any, **settings: Any) -> Tensor:
        return self._doing("sums", super().convolve, *arguments, **settings)

    def attend(self, *arguments: Any, **settings: Any) -> Tensor:
        return self._doing("attention", super().attend, *arguments, **settings)

    def _look(self, x: Tensor, p: float, exact: bool) -> Any:
        with self._watch.doing("masks"):
            x, hop = super()._look(x, p, exact)
        self._watch.looked(x)
        return x, hop

    def _next_hop(self, x: Tensor, exact: bool = False) -> Any:
        self._watch.looks += 1
        return super()._next_hop(x, exact)

    def _doing(self, kind: str, run: Callable[..., T], *arguments: Any, **settings: Any) -> T:
        doing: AbstractContextManager[None] = self._watch.doing(kind)
        with doing:
            return run(*arguments, **settings)


def remade_seconds(graph: Graph, shape: ModelSettings, *, epochs: int = 5) -> dict[str, list[float]]:
    """Return the seconds of each epoch of one process by ``keep_for_backward``, in the order of ``KEEPS``.

    Trainings take turns, an epoch each, so that what else the machine does is seen by all; a first epoch, which also
    sets things up, is left out. They learn the same to the bit.

    Args:
        graph: whose nodes are trained on.
        shape: a model's settings.
        epochs: of each, at least 1.

    Raises:
        ValueError: if there are no epochs.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> found = remade_seconds(sbm(100, 4, 6, features=8), ModelSettings(layers=2, hidden=8), epochs=2)
        >>> {keep: len(seconds) for keep, seconds in found.items()}
        {'all': 2, 'sums': 2, 'nothing': 2}
    """
    from gnnqlab.nn import LocalGraph, build_model
    from gnnqlab.train.config.run_config import TrainSettings
    from gnnqlab.train.loop.node_labels import label_objective
    from gnnqlab.train.loop.trainer import Trainer

    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    trainers = {
        keep: Trainer(
            LocalGraph(graph),
            label_objective(graph),
            build_model(shape, graph.num_features, graph.num_classes, seed=0),
            TrainSettings(keep_for_backward=keep),
        )
        for keep in KEEPS
    }
    seconds: dict[str, list[float]] = {keep: [] for keep in KEEPS}
    for epoch in range(epochs + 1):
        for keep, trainer in trainers.items():
            begun = time.perf_counter()
            trainer.epoch(epoch)
            if epoch > 0:
                seconds[keep].append(time.perf_counter() - begun)
    return seconds
