"""Results of a run by node: predictions, and scores of classes computed from them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gnnqlab.run.folder import read_json
from gnnqlab.run.run_data import RunData

if TYPE_CHECKING:
    import pandas as pd
    from torch import Tensor

    from gnnqlab.graph.graph import Graph
    from gnnqlab.train.checkpoints.model_file import SavedModel

__all__ = ["NodeResults"]

Mask = Literal["train", "val", "test"]


class NodeResults(RunData, ABC):
    """Predictions of a trained model for the nodes of a graph."""

    @abstractmethod
    def _outputs(self, graph: Graph | str | Path | None, epoch: str) -> tuple[Tensor, Graph, SavedModel]:
        """Return the model's output ``(N, C)``, the graph that it belongs to, and the saved model."""

    @property
    def _score(self) -> str:
        """Name of the run's score."""
        from gnnqlab.train.loop.scores import read_score_name

        return read_score_name(read_json(self.folder / "facts.json") or {})

    def predictions(
        self,
        graph: Graph | str | Path | None = None,
        *,
        probabilities: bool = False,
        epoch: Literal["best", "last"] = "best",
    ) -> pd.DataFrame:
        """Return the predicted class of every node as a table with the ids and class names of the graph.

        Args:
            graph, epoch: as for :meth:`predict`. Classes have the names of the graph that the run was trained on.
            probabilities: True for a further column ``probability_NAME`` for each class.

        Returns:
            One row per node, in the order of the graph, with the columns ``id`` (of the node; 0 to N - 1 for a graph
            without ids), ``class``, ``probability`` (of this class), ``label`` (the known class, empty without one) and
            ``split`` (``train``, ``val``, ``test``, or empty; only for the graph of the run). For nodes with several
            labels: ``id``, ``classes`` and ``labels`` (names with "; " between them), ``split``, and
            ``probability_NAME`` for each class. For numbers: ``id``, ``prediction_NAME`` and ``target_NAME`` for each
            number, ``split``.

        Raises:
            RuntimeError, ValueError: as for :meth:`predict`; ValueError for a run of task ``links``, which predicts
                pairs of nodes.

        Example:
            >>> import tempfile
            >>> import gnnqlab as gq
            >>> settings = {"workers": 1, "epochs": 2, "layers": 2, "hidden": 8, "out": tempfile.mkdtemp()}
            >>> run = gq.launch("sbm:60,3,6", **settings, wait=True)
            >>> list(run.predictions()), len(run.predictions())
            (['id', 'class', 'probability', 'label', 'split'], 60)
        """
        from gnnqlab.run.node_tables import prediction_table

        if self.config.task.task == "links":
            raise ValueError(
                f"a table of predictions needs a run that classifies nodes, got run {self.id} of task 'links'; "
                "use run.link_scores(sources, targets) or run.embeddings(frame=True)"
            )
        outputs, target, record = self._outputs(graph, epoch)
        return prediction_table(
            outputs,
            target,
            record.class_names,
            probabilities=probabilities,
            split=graph is None,
            regression=self._score == "r2",
        )

    def confusion(self, mask: Mask = "test", *, epoch: Literal["best", "last"] = "best") -> pd.DataFrame:
        """Return the confusion matrix of the trained model: numbers of nodes by known and predicted class.

        Computed in this process from :meth:`predict` on the run's own graph, so the sum of the diagonal over the sum of
        all is the accuracy that ``summary`` reports.

        Args:
            mask: split whose nodes are counted.
            epoch: of the weights, as for :meth:`predict`.

        Returns:
            int64, one row per known class and one column per predicted class, with the names of the classes.

        Raises:
            RuntimeError, ValueError: as for :meth:`predict`; ValueError for an unknown split, and for a run without one
                class per node: of task ``links``, of numbers to predict, or with several labels per node.

        Example:
            >>> import tempfile
            >>> import gnnqlab as gq
            >>> settings = {"workers": 1, "epochs": 2, "layers": 2, "hidden": 8, "out": tempfile.mkdtemp()}
            >>> run = gq.launch("sbm:60,3,6", **settings, wait=True)
            >>> run.confusion().shape, 0 <= run.roc_auc() <= 1
            ((3, 3), True)
        """
        from gnnqlab.run.class_scores import confusion_table

        return confusion_table(*self._classes("a confusion matrix", mask, epoch, several=False))

    def roc_auc(self, mask: Mask = "test", *, epoch: Literal["best", "last"] = "best") -> float:
        """Return the area under the ROC curve of the trained model: a mean over classes, each against all others.

        A class that no node of the split has, or all have, is left out of the mean. Ranks of nodes are needed, not
        counts, so it is not a score of every epoch: it is computed here, in this process, from :meth:`predict` on the
        run's own graph.

        Args:
            mask: split whose nodes are counted.
            epoch: of the weights, as for :meth:`predict`.

        Returns:
            In [0, 1], 0.5 for predictions by chance; NaN if no class can be counted. It equals scikit-learn's
            ``roc_auc_score(..., average="macro", multi_class="ovr")``.

        Raises:
            RuntimeError, ValueError: as for :meth:`confusion`, but several labels per node are allowed.
        """
        from gnnqlab.run.class_scores import macro_auc

        logits, labels, _ = self._classes("a ROC curve", mask, epoch, several=True)
        return macro_auc(logits, labels)

    def _classes(
        self, what: str, mask: str, epoch: str, *, several: bool
    ) -> tuple[Tensor, Tensor, tuple[str | int | float | bool, ...] | None]:
        """Return output, labels and class names of a split; raise if its nodes have no classes that can be counted."""
        if mask not in ("train", "val", "test"):
            raise ValueError(f"mask must be 'train', 'val' or 'test', got {mask!r}")
        task, score = self.config.task.task, self._score
        kind = "task 'links'" if task == "links" else {"r2": "numbers to predict"}.get(score, "")
        if not several and score == "f1_micro":
            kind = "several labels per node"
        if kind:
            rule = "classes of nodes" if several else "one class per node"
            raise ValueError(f"{what} needs {rule}, got run {self.id} with {kind}; use run.summary")
        logits, graph, record = self._outputs(None, epoch)
        nodes = {"train": graph.train_mask, "val": graph.val_mask, "test": graph.test_mask}[mask]
        return logits[nodes], graph.labels[nodes], record.class_names
