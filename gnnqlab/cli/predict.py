"""``gnnqlab predict``: write the predictions of a trained run by node id."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from gnnqlab.settings import OneOf

__all__ = ["Predict"]

_SHOWN = 5


@dataclass(kw_only=True)
class Predict:
    """Write the predicted class of every node, with its id, as a table."""

    run_id: str
    """Name of the run, or its folder; `gnnqlab runs` lists the names."""
    graph: str | None = None
    """Graph to predict on, a name or path; default: the graph of the run."""
    out: Path | None = None
    """Output file, .csv, .csv.gz or .parquet; default: predictions.csv in the run's folder."""
    runs: Path | None = None
    """Folder of runs; default: $GNNQLAB_RUNS, else runs."""
    epoch: Annotated[str, OneOf(("best", "last"))] = "best"
    """Weights of the epoch with the best validation score, or of the last one."""
    probabilities: bool = False
    """Add a column for each class with its probability."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.cli.options import add_working_folder
        from gnnqlab.run.find import find_run
        from gnnqlab.run.node_tables import check_ending, write_table

        run = find_run(self.run_id, self.runs)
        path = run.folder / "predictions.csv" if self.out is None else self.out
        check_ending(path)  # before the model is computed
        add_working_folder()  # for a user-defined model
        epoch = cast(Literal["best", "last"], self.epoch)
        table = run.predictions(self.graph, probabilities=self.probabilities, epoch=epoch)
        write_table(table, path)
        if not self.json:
            print(f"{table.head(_SHOWN).to_string(index=False)}\n{len(table):,} nodes: {path}")
        return {"path": str(path), "nodes": len(table), "columns": [str(name) for name in table]}
