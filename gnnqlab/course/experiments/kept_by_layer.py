"""Tensors saved for backward by each layer, and seconds of recomputing them.

An observer records each saved tensor with the current layer and operation. Tensors that are alive at the end of the
forward pass count as saved; for a recomputed tensor its inputs count.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from gnnqlab.compute.recompute import LEVELS, RecomputeContext
from gnnqlab.course.experiments.kept_bytes import on_each_worker
from gnnqlab.former_names import former_functions
from gnnqlab.nn import LocalGraph, build_model
from gnnqlab.observe import Observer, Observers, OperationEnded, OperationStarted
from gnnqlab.train.config.run_config import TrainSettings
from gnnqlab.train.loop.node_labels import label_objective
from gnnqlab.train.loop.trainer import Trainer
from gnnqlab.train.records.persistent_tensors import persistent_tensors

if TYPE_CHECKING:
    from gnnqlab.compute.products import Compute
    from gnnqlab.graph import Graph
    from gnnqlab.nn import ModelSettings

__all__ = ["KINDS", "saved_bytes_by_layer", "saved_bytes_of_pass", "recompute_seconds"]
__getattr__ = former_functions(
    __name__,
    {
        "kept_by_layer": "saved_bytes_by_layer",
        "kept_of_pass": "saved_bytes_of_pass",
        "remade_seconds": "recompute_seconds",
    },
)

KINDS = ("rows", "sums", "norms", "masks", "attention", "loss", "others")
"""Kinds of saved tensors: inputs of products with weights, for the weights' gradients; aggregations, for the same;
inputs of norms, with mean and deviation; signs of activations without a norm, and outputs of dropout; projected rows,
logits and softmax of attention, with halo rows; the loss; anything else."""

# Operation -> kind of the tensors that it saves.
_KIND_OF = {
    "linear": "rows",
    "affine": "rows",
    "aggregate": "sums",
    "convolve": "sums",
    "attend": "attention",
    "activate": "masks",
    "activate_both": "masks",
    "join": "masks",
    "dropout": "masks",
    "prepare": "masks",
}


def saved_bytes_by_layer(
    graph: Graph, shape: ModelSettings, keep: str = "none", *, workers: int = 1, compute: Compute | None = None
) -> dict[tuple[int, str], int]:
    """Return the bytes that a training pass of Vanilla saves for backward, by layer and kind.

    A layer is a convolution with everything up to the next one; in models without convolutions, an aggregation, with
    everything before the first and after the last. Each storage counts once, for the operation that saved it first.
    Weights, features and the graph do not count: they exist in any case.

    Args:
        graph: the graph to train on.
        shape: settings of the model.
        keep: ``TrainSettings.recompute``.
        workers: threads of this process; with several, the result is that of the worker that saves the most.
        compute: precision of the products; by default float32.

    Returns:
        ``(layer, kind)`` -> bytes (four per element of a float32 row), without entries of zero bytes.

    Raises:
        ValueError: if a setting is invalid.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> graph, shape = sbm(400, 4, 6, features=16), ModelSettings(layers=3, hidden=16)
        >>> found = saved_bytes_by_layer(graph, shape)
        >>> found[0, "sums"] == 400 * 16 * 4, found[0, "norms"] == 400 * (16 + 2) * 4
        (True, True)
    """
    sizes = on_each_worker(saved_bytes_of_pass, graph, shape, keep, workers=workers, compute=compute)
    return max(sizes, key=lambda each: sum(each.values()))  # of the worker with the largest sum


def saved_bytes_of_pass(trainer: Trainer, epoch: int = 0) -> dict[tuple[int, str], int]:
    """Return the same for a trainer's next forward pass; all workers of a graph must call it at the same time."""
    keep = trainer.settings.recompute
    # Persistent tensors are saved by autograd as well, but exist without a pass.
    watch = _SavedTensors(
        [trainer.graph.ids, *(tensor for tensors in persistent_tensors(trainer).values() for tensor in tensors)]
    )
    with ExitStack() as stack:
        remakes: RecomputeContext | None = None
        # Without recomputation autograd saves; with it, the recompute context records the inputs it keeps.
        if keep == "none":
            stack.enter_context(torch.autograd.graph.saved_tensors_hooks(watch.pack, lambda x: x))
        else:
            remakes = stack.enter_context(RecomputeContext(keep, watch.record))
        stack.enter_context(watch.layers(trainer.model))
        graph = trainer.graph.open_pass(epoch, training=True, remakes=remakes, observers=Observers([watch]))
        logits = trainer.model(graph, trainer.graph.features)
        with watch.loss():
            loss = trainer.objective.loss(logits)
    del logits, graph, remakes  # drop references of this function, which would keep tensors alive
    sizes = watch.live_bytes()
    del loss  # its graph holds the saved tensors, so it must live until they are counted
    return sizes


class _SavedTensors(Observer):
    """Observer of the tensors that autograd saves during the operations of a pass."""

    def __init__(self, persistent_tensors: Iterable[Tensor]) -> None:
        # strong references, so that their ids stay valid
        self._persistent = [tensor.untyped_storage() for tensor in persistent_tensors]
        self._persistent_ids = {id(storage) for storage in self._persistent}
        # id of a storage -> weak reference, layer, kind
        self._recorded: dict[int, tuple[weakref.ref[Any], int, str]] = {}
        # stack of kinds; id of the aggregated rows' storage; index of the running layer
        self._kinds, self._rows, self._inside = ["others"], 0, -1
        # outputs of aggregations: saved by a later product, they count as "sums"
        self._sums: dict[int, weakref.ref[Any]] = {}
        self._aggregations = 0

    def pack(self, tensor: Tensor) -> Tensor:
        """Record a tensor that autograd saves; used as pack hook of ``saved_tensors_hooks``."""
        self.record(tensor)
        return tensor.detach()  # the tensor itself would form a reference cycle

    def record(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        # An id may be reused by a new storage, so compare the live object behind the weak reference as well.
        earlier_record = self._recorded.get(id(storage))
        if id(storage) in self._persistent_ids or (earlier_record is not None and earlier_record[0]() is storage):
            return
        # without a list of layers, count aggregations
        layer = self._inside if self._inside >= 0 else max(0, self._aggregations - 1)
        sums, kind = self._sums.get(id(storage)), self._kinds[-1]
        if kind == "sums" and id(storage) == self._rows:
            kind = "rows"
        elif sums is not None and sums() is storage:
            kind = "sums"
        self._recorded[id(storage)] = weakref.ref(storage), layer, kind

    def on_operation_started(self, event: OperationStarted) -> None:
        kind = _KIND_OF[event.operation]
        if event.operation in ("activate", "activate_both"):
            kind = "norms" if len(event.inputs) > 1 else "masks"  # with a norm, its parameters are further inputs
        if event.operation == "activate":  # may overwrite its input in place
            self._sums.pop(id(event.inputs[0].untyped_storage()), None)
        self._kinds.append(kind)
        # attention counts as the aggregation of its layer
        self._aggregations = event.layer + (event.operation == "attend")

    def on_operation_ended(self, event: OperationEnded) -> None:
        self._kinds.pop()
        if event.operation == "prepare":  # what an aggregation saves is this output ("rows"), or sums
            self._rows = id(event.output[0].untyped_storage())
            self._aggregations = event.layer + 1
        if event.operation == "aggregate":
            storage = event.output.untyped_storage()
            self._sums[id(storage)] = weakref.ref(storage)

    @contextmanager
    def loss(self) -> Iterator[None]:
        self._kinds.append("loss")
        yield
        self._kinds.pop()

    @contextmanager
    def layers(self, model: nn.Module) -> Iterator[None]:
        """Track the running layer of a model that has a list of layers."""
        hooks = []
        for module in model.modules():
            # hooks enter the layer before its forward pass and leave it after
            for index, layer in enumerate(module if isinstance(module, nn.ModuleList) else ()):
                hooks.append(layer.register_forward_pre_hook(lambda *_, index=index: self._enter(index)))
                hooks.append(layer.register_forward_hook(lambda *_: self._enter(-1)))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()

    def _enter(self, index: int) -> None:
        self._inside = index

    def live_bytes(self) -> dict[tuple[int, str], int]:
        """Return the bytes of recorded storages that are still alive, by layer and kind."""
        sizes: dict[tuple[int, str], int] = {}
        for reference, layer, kind in self._recorded.values():
            storage = reference()  # None if the storage was freed
            if storage is not None and storage.nbytes():
                sizes[layer, kind] = sizes.get((layer, kind), 0) + storage.nbytes()
        return dict(sorted(sizes.items(), key=lambda item: (item[0][0], KINDS.index(item[0][1]))))


def recompute_seconds(graph: Graph, shape: ModelSettings, *, epochs: int = 5) -> dict[str, list[float]]:
    """Return the seconds of each epoch in one process by ``recompute``, in the order of ``LEVELS``.

    The trainings alternate epoch by epoch, so that other load on the machine affects all; the first epoch of each,
    which includes set-up, is excluded. Their weights are bit-identical.

    Args:
        graph: the graph to train on.
        shape: settings of the model.
        epochs: measured epochs of each training, at least 1.

    Raises:
        ValueError: if ``epochs`` is below 1.

    Example:
        >>> from gnnqlab.graph.generate import sbm
        >>> from gnnqlab.nn import ModelSettings
        >>> found = recompute_seconds(sbm(100, 4, 6, features=8), ModelSettings(layers=2, hidden=8), epochs=2)
        >>> {keep: len(seconds) for keep, seconds in found.items()}
        {'none': 2, 'selective': 2, 'full': 2}
    """
    if epochs < 1:
        raise ValueError(f"epochs must be at least 1, got {epochs}")
    trainers = {
        keep: Trainer(
            LocalGraph(graph),
            label_objective(graph),
            build_model(shape, graph.num_features, graph.num_classes, seed=0),
            TrainSettings(recompute=keep),
        )
        for keep in LEVELS
    }
    seconds: dict[str, list[float]] = {keep: [] for keep in LEVELS}
    for epoch in range(epochs + 1):
        for keep, trainer in trainers.items():
            start_s = time.perf_counter()  # seconds; in turn, so that all levels see the same load
            trainer.epoch(epoch)
            if epoch > 0:  # epoch 0 includes set-up
                seconds[keep].append(time.perf_counter() - start_s)
    return seconds
