"""What layers keep stands beside what less keeping keeps, and its seconds beside those of the same run."""

from __future__ import annotations

from benchmarks.studies.kept_layers import kept_layers
from gnnqlab.graph.generate import sbm
from gnnqlab.nn import ModelSettings


def test_rows_are_matrices_by_layer_and_seconds_beside_all() -> None:
    graph = sbm(200, 4, 6, features=8)
    rows = {
        (row["case"], row["figure"].split(" (")[0]): row
        for row in kept_layers(graph, [ModelSettings(name="gcn", layers=2, hidden=8)], epochs=2)
    }
    sums, norms = rows["gcn, layer 0", "kept: sums"], rows["gcn, layer 0", "kept: norms"]
    assert (sums["value"], sums["rival_value"], sums["unit"]) == (1.0, 1.0, "nodes x hidden")
    assert (norms["value"], norms["rival_value"]) == (1.25, 0.25)
    whole = rows["gcn, nothing", "kept by all layers"]
    assert whole["rival_value"] == sum(row["value"] for (_, figure), row in rows.items() if figure.startswith("kept: "))
    assert whole["ratio"] == whole["rival_value"] / whole["value"] > 1
    for keep in ("sums", "nothing"):
        epoch = rows[f"gcn, {keep}", "epoch"]
        assert epoch["value"] > 0 and epoch["ratio"] == epoch["rival_value"] / epoch["value"]
