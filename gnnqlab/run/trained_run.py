"""Results of a run: the trained model, its predictions and embeddings, and the partition."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Literal, overload

from gnnqlab.run.folder import LIVE
from gnnqlab.run.node_results import NodeResults

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor, nn

    from gnnqlab.graph.graph import Graph
    from gnnqlab.graph.link_split import LinkSplit
    from gnnqlab.partition.parts import Parts
    from gnnqlab.train.checkpoints.model_file import SavedModel

__all__ = ["TrainedRun"]


class TrainedRun(NodeResults, ABC):
    """Results of a run that has finished or was stopped."""

    @property
    @abstractmethod
    def status(self) -> str:
        """Status of the run."""

    def model(self, epoch: Literal["best", "last"] = "best") -> nn.Module:
        """Return the trained model, in evaluation mode, on the CPU.

        Its weights are those of ``model.safetensors`` in the run folder, or of ``last_model.safetensors`` for the last
        epoch if that is another one, with the names of its ``state_dict()``, and readable by any safetensors library.
        A run writes them at its end, and at an orderly stop.

        Args:
            epoch: ``"best"`` for the epoch with the best validation score, whose scores ``summary`` reports, ``"last"``
                for the last one. Without validation nodes both are the last evaluated epoch.

        Returns:
            The module, called as ``model(graph.open_pass(epoch, training=False), graph.features)`` with a
            :class:`gnnqlab.nn.LocalGraph`, as in :meth:`predict`. With ``node_features="learned"`` the second argument
            is ``model.node_embeddings``, with one row per node of the run's graph.

        Raises:
            RuntimeError: if the run has not ended, or has ended without a model.
            ValueError: if a user-defined model is not found here, or has changed, or ``epoch`` has another value.

        A run of version 0.9 has the model of its last epoch only; a warning says so if another epoch was the best one.

        Example:
            >>> import tempfile
            >>> import gnnqlab as gq
            >>> graph = gq.load("sbm:60,3,6")
            >>> run = gq.launch(graph, workers=1, epochs=2, layers=2, hidden=8, out=tempfile.mkdtemp(), wait=True)
            >>> [name for name, _ in run.model().named_parameters()][:2]
            ['convolutions.0.weight', 'convolutions.0.bias']
            >>> run.predict().shape, run.predict().argmax(1).shape, run.embeddings().shape
            (torch.Size([60, 3]), torch.Size([60]), torch.Size([60, 8]))
        """
        return self._build(self._saved(epoch))

    def predict(self, graph: Graph | str | Path | None = None, *, epoch: Literal["best", "last"] = "best") -> Tensor:
        """Return the trained model's logits for all nodes of a graph, in the order of the graph.

        Computed in this process on the whole graph, in float32, without dropout. With float32 products the scores equal
        those that ``summary`` reports; a run with other products was evaluated with those.

        Args:
            graph: by default the run's own, loaded again. Another one (a graph, or its name or path) needs the same
                features; its nodes may be unseen (inductive prediction).
            epoch: of the weights, as for :meth:`model`.

        A run of task ``links`` returns the embeddings that its decoder compares; by default message passing uses the
        graph without held-out edges, and all edges of a graph passed as argument. See :meth:`link_scores`.

        Returns:
            float32 ``(N, C)``: ``.argmax(1)`` is the class, ``.softmax(1)`` the probabilities; for a multi-label graph
            the classes with a positive logit, and ``.sigmoid()``.

        Raises:
            RuntimeError, ValueError: as for :meth:`model`; ValueError if the graph is not found, has changed, or has
                another number of features.

        Example:
            ``(run.predict(graph).argmax(1) == graph.labels)[graph.test_mask].float().mean()``
        """
        return self._outputs(graph, epoch)[0]

    def link_split(self) -> LinkSplit:
        """Return the training, validation and test links of a run of task ``links``.

        They are recomputed from the run's graph, shares and seed; ``.graph`` is the graph of message passing.

        Raises:
            ValueError: if the task of the run is ``nodes``, or its graph is not found or has changed.

        Example:
            ``split = run.link_split(); split.sources[split.kinds == TEST]``, with ``gnnqlab.graph.link_split.TEST``
        """
        from gnnqlab.graph.link_split import split_links

        task = self.config.task
        if task.task != "links":
            raise ValueError(
                f"a link split needs task 'links', got run {self.id} of task {task.task!r}; launch one with "
                "task='links'"
            )
        full_graph = self._loaded(self._saved())
        # A function of graph, shares and seed, so it is the split that the workers used.
        return split_links(full_graph, val=task.val_share, test=task.test_share, seed=self.config.train.seed)

    def link_scores(
        self,
        sources: Tensor,
        targets: Tensor,
        *,
        graph: Graph | str | Path | None = None,
        epoch: Literal["best", "last"] = "best",
    ) -> Tensor:
        """Return the logits of edges between pairs of nodes, from the model and decoder of a run of task ``links``.

        Args:
            sources, targets: the pairs, node ids of the graph, int64 ``(n,)``; scores are symmetric.
            graph, epoch: as for :meth:`predict`.

        Returns:
            float32 ``(n,)``: ``.sigmoid()`` is the probability, for the run's ratio of negatives.

        Raises:
            RuntimeError, ValueError: as for :meth:`predict`; ValueError if the task of the run is ``nodes``.
        """
        import torch

        from gnnqlab.train.inference import logits
        from gnnqlab.train.link_prediction.decoder import decoder_of

        record = self._saved(epoch)
        model = self._build(record)
        decoder = decoder_of(model)
        rows = logits(model, self._graph(graph, record), seed=self.config.train.seed, epoch=record.epoch)  # (N, D)
        with torch.no_grad():
            scores: Tensor = decoder(rows, torch.as_tensor(sources), torch.as_tensor(targets))
        return scores

    @overload
    def embeddings(
        self,
        first: int | Graph | str | Path | None = None,
        /,
        *,
        layer: int | None = None,
        graph: Graph | str | Path | None = None,
        epoch: Literal["best", "last"] = "best",
        frame: Literal[False] = False,
    ) -> Tensor: ...

    @overload
    def embeddings(
        self,
        first: int | Graph | str | Path | None = None,
        /,
        *,
        layer: int | None = None,
        graph: Graph | str | Path | None = None,
        epoch: Literal["best", "last"] = "best",
        frame: Literal[True],
    ) -> pd.DataFrame: ...

    def embeddings(
        self,
        first: int | Graph | str | Path | None = None,
        /,
        *,
        layer: int | None = None,
        graph: Graph | str | Path | None = None,
        epoch: Literal["best", "last"] = "best",
        frame: bool = False,
    ) -> Tensor | pd.DataFrame:
        """Return the input embeddings of a layer of the trained model for all nodes, in the order of the graph.

        A layer is a product of rows with a weight matrix. The input of the last one is the final embedding of a node:
        the hidden embedding of ``gcn``, ``graphsage``, ``gat`` and ``gcnii``, all layers joined for ``jknet``, the rows
        after all hops for ``sgc``; for ``dagnn``, whose last layer is a gate, rows with one column per class (its
        hidden embedding is the input of layer 1).

        Args:
            first: a layer, or a graph, in place of the argument with its name: ``run.embeddings(0)``,
                ``run.embeddings(other_graph, layer=0)``.
            layer: -1 for the last layer (default), 0 for the first, whose input are the features.
            graph, epoch: as for :meth:`predict`.
            frame: True for a table with the ids of the nodes as index.

        Returns:
            float32 ``(N, D)``.

        Raises:
            RuntimeError, ValueError: as for :meth:`predict`; ValueError if there is no such layer.
            TypeError: if a layer or a graph is passed twice.
        """
        from gnnqlab.run.node_tables import embedding_table
        from gnnqlab.train.inference import embeddings

        is_layer = isinstance(first, int)
        if first is not None and (layer if is_layer else graph) is not None:
            name = "layer" if is_layer else "graph"
            raise TypeError(f"{name} must be passed once, got {first!r} and {layer if is_layer else graph!r}")
        if isinstance(first, int):
            layer = first
        elif first is not None:
            graph = first
        layer = -1 if layer is None else layer
        record = self._saved(epoch)
        target, model = self._graph(graph, record), self._build(record)
        rows = embeddings(model, target, layer, seed=self.config.train.seed, epoch=record.epoch)  # (N, D)
        return embedding_table(rows, target) if frame else rows

    def parts(self, period: int = 0) -> Parts:
        """Return the partition that the run was trained on: its graph, owners and shards.

        Args:
            period: of a run with ``partition_every``, the number of the period: epoch ``t`` is in period
                ``t // partition_every``. By default the first one; a run without has no other.

        Raises:
            ValueError: if the run has not been partitioned yet, its graph is not found or has changed, or it has no
                such period.

        Example:
            ``run.parts().draw(pair=(0, 1))``
        """
        from gnnqlab.run.own_parts import parts_of

        return parts_of(self, period)

    def _outputs(self, graph: Graph | str | Path | None, epoch: str) -> tuple[Tensor, Graph, SavedModel]:
        from gnnqlab.train.inference import logits

        record = self._saved(epoch)
        target, model = self._graph(graph, record), self._build(record)
        return logits(model, target, seed=self.config.train.seed, epoch=record.epoch), target, record  # (N, C)

    def _build(self, record: SavedModel) -> nn.Module:
        config = self.config
        # The decoder is part of the weights, so it is built before they are loaded.
        decoder = config.task.decoder if config.task.task == "links" else None
        return record.build(config.model, seed=config.train.seed, decoder=decoder)

    def _saved(self, epoch: str = "best") -> SavedModel:
        from gnnqlab.train.checkpoints.checkpoint import FOLDER
        from gnnqlab.train.checkpoints.model_file import LAST_MODEL, MODEL, read_model

        if epoch not in ("best", "last"):
            raise ValueError(f"the epoch of a model must be 'best' or 'last', got {epoch!r}")
        record = read_model(self.folder, LAST_MODEL) if epoch == "last" else None
        record = record or read_model(self.folder)  # one file if both epochs are the same
        if record is not None:
            if epoch == "best":
                self._warn_of_another_epoch(record.epoch)
            return record
        status = self.status
        if status in LIVE:
            raise RuntimeError(
                f"run {self.id} must have ended to have a model, got status {status}; wait for it or stop it"
            )
        reason = "it ended before the model was written"
        if status == "finished":
            reason = "an earlier version of gnnqlab trained it, or writing the model failed (see run.events)"
        way = "launch it again"
        if any((self.folder / FOLDER).glob("epoch-*.safetensors")):
            way += ", or resume it from its checkpoint with gq.resume(run, epochs=...), which writes the model"
        raise RuntimeError(f"the model of a run needs its file {MODEL}, got {status} run {self.id}: {reason}; {way}")

    def _warn_of_another_epoch(self, epoch: int) -> None:
        """Warn if the stored model is not that of the epoch whose scores the summary has."""
        best_epoch = self.summary.get("best_epoch")
        if best_epoch not in (None, epoch):
            warnings.warn(
                f"the model of run {self.id} is of epoch {epoch}, and its summary has the scores of epoch "
                f"{best_epoch}: version 0.9 of gnnqlab, or a run resumed from its checkpoint, stored no other",
                stacklevel=4,
            )

    def _graph(self, graph: Graph | str | Path | None, record: SavedModel) -> Graph:
        from gnnqlab.graph.graph import Graph
        from gnnqlab.graph.sources import load
        from gnnqlab.train.node_features import with_node_features

        if graph is None:
            target = self._own_graph(record)
        else:
            target = graph if isinstance(graph, Graph) else load(graph)
        if self.config.task.node_features == "learned":
            return self._with_embeddings(target, record)
        target = with_node_features(target, self.config.task.node_features)
        # The number of nodes may differ, since weights do not depend on it; that of features may not.
        if target.features.shape[1] != record.num_features:
            raise ValueError(
                f"a graph must have the {record.num_features} features per node that the model of run {self.id} takes, "
                f"got {target.features.shape[1]} of {target.name}; compute the same features for it"
            )
        return target

    def _with_embeddings(self, graph: Graph, record: SavedModel) -> Graph:
        """Return a graph with the trained embeddings as features; raise if its nodes are not those of the training."""
        from gnnqlab.train.checkpoints.model_file import NODE_EMBEDDINGS

        if graph.num_nodes != record.num_nodes:
            raise ValueError(
                f"node_features 'learned' belong to the {record.num_nodes} nodes that run {self.id} was trained on, "
                f"got {graph.num_nodes} of {graph.name}; train with node_features 'degree' to predict for others"
            )
        return graph._replace(features=record.tensors[NODE_EMBEDDINGS])

    def _own_graph(self, record: SavedModel) -> Graph:
        """Return the graph of the run's message passing."""
        return self.link_split().graph if self.config.task.task == "links" else self._loaded(record)

    def _loaded(self, record: SavedModel) -> Graph:
        """Return the graph that the run was launched with; only its number of nodes is verified."""
        from gnnqlab.graph.sources import load

        source = self.config.graph
        try:
            graph = load(source)
        except (OSError, ValueError) as error:
            raise ValueError(
                f"the graph of run {self.id} must be found to predict on it, got {error}; pass it, for instance "
                "run.predict(graph)"
            ) from error
        if graph.num_nodes != record.num_nodes:
            raise ValueError(
                f"the graph of run {self.id} must have the {record.num_nodes} nodes it was trained on, got "
                f"{graph.num_nodes} in {source}; pass another graph explicitly, for instance run.predict(graph)"
            )
        return graph
