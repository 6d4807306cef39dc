"""Trained model of a run on disk: its parameters by name, readable by this and other libraries.

``model.safetensors`` holds the weights of the epoch with the best validation score, whose scores the summary of the run
reports; ``last_model.safetensors`` holds those of the last epoch, and is absent if both are the same epoch. Without an
evaluation on validation nodes only the last epoch counts.

A file holds the tensors of ``state_dict()``, each under its name and with its own dtype. Its metadata describe the
model: ``model`` (its settings as JSON), ``model_home`` (module of a user's model), ``epoch`` (after which the weights
were taken, as in ``run.records``), ``num_features``, ``num_classes``, ``num_nodes`` of the graph, ``num_edge_features``
if edges have features, ``class_names`` (JSON) if classes have names, and ``format`` (``pt``, the name of PyTorch
tensors in other readers).

Parameters are identical on all workers. Buffers of modules (running means) are those of rank 0.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from gnnqlab.nn.models.registry import ModelSettings, build_model, model_home
from gnnqlab.train.checkpoints.tensor_file import is_storable, read_tensors, write_tensors
from gnnqlab.train.link_prediction.decoder import attach_decoder
from gnnqlab.train.writable import write_failure

__all__ = ["LAST_MODEL", "MODEL", "NODE_EMBEDDINGS", "ModelFile", "SavedModel", "read_model"]

MODEL = "model.safetensors"
LAST_MODEL = "last_model.safetensors"
NODE_EMBEDDINGS = "node_embeddings"
"""Name of trained embeddings in the ``state_dict``, float32 ``(num_nodes, num_features)``."""
_PREFIX = "best_model/"
"""Prefix of the best weights among the tensors of a checkpoint."""


@dataclass(frozen=True, eq=False, kw_only=True)
class SavedModel:
    """Contents of ``model.safetensors`` or ``last_model.safetensors``."""

    tensors: dict[str, Tensor]
    """The ``state_dict``."""
    epoch: int
    """Epoch after which the weights were taken."""
    num_features: int
    num_classes: int
    num_nodes: int
    """Number of nodes of the training graph."""
    num_edge_features: int = 0
    class_names: tuple[str | int | float | bool, ...] | None = None
    """Names of the classes in the order of the model's outputs; ``None`` if they are 0 to C - 1."""

    def build(self, settings: ModelSettings, *, seed: int, decoder: str | None = None) -> nn.Module:
        """Return the model with these weights, in evaluation mode, with its ``decoder`` if it predicts links.

        Raises:
            ValueError: if the weights do not match the model built from these settings.
        """
        sizes = self.num_features, self.num_classes
        model = build_model(settings, *sizes, seed=seed, edge_features=self.num_edge_features)
        # Before the weights are loaded: the file holds those of the decoder as well.
        if decoder is not None:
            attach_decoder(model, decoder, self.num_classes, seed=seed)
        if NODE_EMBEDDINGS in self.tensors:  # an input of the model, stored with it
            model.register_parameter(NODE_EMBEDDINGS, nn.Parameter(self.tensors[NODE_EMBEDDINGS]))
        for name, parameter in model.named_parameters():
            if name in self.tensors:  # load_state_dict would convert the file's dtype to that of the new model
                parameter.data = parameter.data.to(self.tensors[name].dtype)
        try:
            model.load_state_dict(self.tensors)
        except RuntimeError as error:
            reason = " ".join(str(error).split()).rstrip(".")
            raise ValueError(
                f"weights must fit the model they are loaded into, got {reason}; restore the code that "
                f"{settings.name} was trained with, or train again"
            ) from error
        return model.eval()


class ModelFile:
    """Writer of the model of a training: of its best epoch so far, and of its last one.

    Args:
        run: the run folder.
        settings: of the model.
        model: the module.
        num_nodes, num_features, num_classes, num_edge_features, class_names: of the whole graph.
    """

    def __init__(
        self,
        run: Path,
        settings: ModelSettings,
        model: nn.Module,
        *,
        num_nodes: int,
        num_features: int,
        num_classes: int,
        num_edge_features: int = 0,
        class_names: tuple[str | int | float | bool, ...] | None = None,
    ) -> None:
        self._run, self._settings, self._model = run, settings, model
        self._sizes = {"num_nodes": num_nodes, "num_features": num_features, "num_classes": num_classes}
        self._sizes |= {"num_edge_features": num_edge_features} if num_edge_features else {}
        self._class_names = class_names
        self._best_state: dict[str, Any] = {}  # the ``state_dict`` after the best epoch, on the CPU
        self._best_epoch: int | None = None

    def select(self, epoch: int) -> None:
        """Copy the present weights as those of the best epoch."""
        self._best_epoch = epoch
        self._best_state = {
            # Other values are refused when the file is written.
            name: value.detach().to("cpu", copy=True) if torch.is_tensor(value) else value
            for name, value in self._model.state_dict().items()
        }

    def checkpoint(self) -> dict[str, Tensor]:
        """Return the best weights as tensors of a checkpoint; empty before the first evaluation."""
        if not all(map(is_storable, self._best_state.values())):
            return {}
        return {f"{_PREFIX}{name}": tensor for name, tensor in self._best_state.items()}

    def restore(self, tensors: Mapping[str, Tensor], epoch: int | None) -> None:
        """Restore the best weights of a checkpoint, of this epoch; earlier versions stored none."""
        state = {name.removeprefix(_PREFIX): value for name, value in tensors.items() if name.startswith(_PREFIX)}
        if state:
            self._best_state, self._best_epoch = state, epoch

    def write(self, epoch: int, embeddings: Mapping[str, Tensor] | None = None) -> str | None:
        """Write the best weights, and the present ones if they are others; a crash leaves each file old or new.

        Args:
            epoch: the last epoch trained.
            embeddings: trained embeddings of all nodes, ``rows`` and ``best``; by default none.

        Returns:
            The reason if a file could not be written; training continues without it.
        """
        state, best_state = self._model.state_dict(), self._best_state
        if embeddings:
            state[NODE_EMBEDDINGS] = embeddings["rows"]
            best_state = {**best_state, NODE_EMBEDDINGS: embeddings.get("best", embeddings["rows"])}
        try:
            if self._best_epoch in (None, epoch):
                self._write(MODEL, state, epoch)
                (self._run / LAST_MODEL).unlink(missing_ok=True)  # of an earlier stop
            else:
                self._write(LAST_MODEL, state, epoch)
                self._write(MODEL, best_state, self._best_epoch)
        except OSError as error:
            return f"writing the model failed: {write_failure(error, self._run)}"
        except ValueError as error:
            return f"writing the model failed: {error}"
        return None

    def _write(self, name: str, state: Mapping[str, Any], epoch: int | None) -> None:
        # A module can add values of any type by get_extra_state().
        entries = [entry for entry, value in state.items() if not torch.is_tensor(value)]
        if entries:
            raise ValueError(f"the state_dict of a model must hold tensors only, got other values under {entries}")
        # Metadata of safetensors are strings only.
        metadata = {"format": "pt", "epoch": str(epoch), "model": json.dumps(dataclasses.asdict(self._settings))}
        home = model_home(self._settings.name)
        metadata |= {"model_home": json.dumps(home)} if home else {}
        metadata |= {"class_names": json.dumps(self._class_names)} if self._class_names is not None else {}
        metadata |= {size_name: str(size) for size_name, size in self._sizes.items()}
        write_tensors(self._run / name, state, metadata)


def read_model(run: Path, name: str = MODEL) -> SavedModel | None:
    """Return a model in a run folder; ``None`` if there is no file of that name.

    Raises:
        ValueError: if the file is incomplete, modified, or not in the format of gnnqlab.
    """
    path = run / name
    if not path.is_file():
        return None
    contents = read_tensors(path, what="model file")
    sizes = ("epoch", "num_nodes", "num_features", "num_classes")
    if not contents.intact or not all(contents.metadata.get(size, "").isdecimal() for size in sizes):
        raise ValueError(f"a model file must be as gnnqlab wrote it, got a changed one {path}")
    # The entry is absent for graphs without edge features.
    edge_features = contents.metadata.get("num_edge_features", "0")
    if not edge_features.isdecimal():
        raise ValueError(f"a model file must be as gnnqlab wrote it, got a changed one {path}")
    size_values = {size: int(contents.metadata[size]) for size in sizes}
    class_names = contents.metadata.get("class_names")  # absent for classes without names
    return SavedModel(
        tensors=contents.tensors,
        num_edge_features=int(edge_features),
        class_names=None if class_names is None else tuple(json.loads(class_names)),
        **size_values,
    )
