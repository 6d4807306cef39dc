"""Edge lists as tables: the use of their columns, and every malformed table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.graph import Graph, from_tables, load
from tests.cases import each

pd = pytest.importorskip("pandas", reason="pandas is not installed")
EDGES = {"src": [0, 1, 3], "dst": [1, 2, 0]}
NODES = {
    "split": ["train", None, "val", "test"],
    "age": [1.5, 2.0, 3.0, 4.0],
    "label": [0, -1, 2, 1],
    "tall": [True, False, True, False],
}


def expected() -> Graph:
    return Graph.from_edges(
        *EDGES.values(),
        num_nodes=4,
        features=[[1.5, 1], [2, 0], [3, 1], [4, 0]],
        labels=NODES["label"],
        train_idx=[0],
        val_idx=[2],
        test_idx=[3],
    )


def write(table: dict[str, Any], path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    frame = pd.DataFrame(table)
    if path.suffix == ".parquet":
        pytest.importorskip("pyarrow", reason="pyarrow is not installed")
        frame.to_parquet(path)
    else:
        frame.to_csv(path, sep="\t" if path.suffix == ".tsv" else ",", index=False)
    return path


def check_files(folder: Path, suffix: str) -> None:
    edges, nodes = write(EDGES, folder / f"edges{suffix}"), write(NODES, folder / f"nodes{suffix}")
    assert from_tables(edges, nodes).content_hash == expected().content_hash
    assert from_tables(str(edges), pd.DataFrame(NODES)).content_hash == expected().content_hash
    found = load(folder)
    assert (found.name, found.content_hash) == (folder.name, expected().content_hash)
    alone = load(edges)
    assert (alone.name, alone.num_features, alone.num_classes) == ("edges", 0, 0)
    assert alone.content_hash == Graph.from_edges(*EDGES.values(), num_nodes=4).content_hash


@each("suffix", [".csv", ".tsv"])
def test_files(tmp_path: Path, suffix: str) -> None:
    check_files(tmp_path / "people", suffix)


def test_parquet_files(tmp_path: Path) -> None:
    check_files(tmp_path / "people", ".parquet")


def test_parquet_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "edges.parquet").write_bytes(b"")

    def missing(path: Path) -> None:
        raise ImportError("no engine")

    monkeypatch.setattr(pd, "read_parquet", missing)
    with pytest.raises(RuntimeError, match="edges.parquet needs pyarrow, got no engine; pip install pyarrow, or write"):
        load(tmp_path / "edges.parquet")


def test_rows_of_nodes_come_in_any_order_with_an_id() -> None:
    shuffled = pd.DataFrame({"id": range(4), **NODES}).iloc[[2, 0, 3, 1]]
    assert from_tables(pd.DataFrame(EDGES), shuffled).content_hash == expected().content_hash


def test_isolated_nodes_have_a_row_and_no_edge() -> None:
    g = from_tables(pd.DataFrame(EDGES), pd.DataFrame({"id": range(6)}))
    assert g.num_nodes == 6 and g.in_degrees.tolist()[4:] == [1, 1]


def test_an_empty_label_is_none_and_labels_without_a_split_get_one() -> None:
    nodes = pd.DataFrame({"label": [0.0, np.nan, 2.0, 1.0]})
    g = from_tables(pd.DataFrame(EDGES), nodes, seed=1, num_classes=7)
    assert g.labels.tolist() == [0, -1, 2, 1] and g.num_classes == 7
    assert [len(part) for part in (g.train_idx, g.val_idx, g.test_idx)] == [2, 1, 0]


def test_further_columns_of_edges_are_not_dropped_in_silence(tmp_path: Path) -> None:
    path = write({**EDGES, "weight": [1, 2, 1], "lanes": [1, 2, 2]}, tmp_path / "roads.csv")
    with pytest.raises(ValueError, match=r"from_tables \(.*roads.csv\) takes one weight .* values, got lanes; "):
        load(path)
    assert load(path, drop_edge_data=True).content_hash == load(pd_graph()).content_hash
    assert load(write({**EDGES, "weight": [1, 1, 1]}, path)).name == "roads"


def pd_graph() -> Graph:
    return from_tables(pd.DataFrame(EDGES))


@each(
    ("edges", "text"),
    [
        (
            {"a": [0], "b": [1]},
            "the table of edges must have the columns src and dst, got a, b; name them in the first",
        ),
        ({"src": ["ann"], "dst": [1]}, "src of the table of edges must hold integers from 0 .*, got 'ann' in row 0; "),
        ({"src": [0, None], "dst": [1, 0]}, "column src of .* integers from 0 to N - 1, got none in row 1; number the"),
        ({"src": [0, 1], "dst": [1, -1]}, "column dst of .* integers from 0 to N - 1, got -1 in row 1"),
        (
            {"src": [0, 7], "dst": [1, 9]},
            "name every node from 0 to the largest, 9, .* got 4 ids without node 2; number",
        ),
        ({"src": [], "dst": []}, "must hold at least one edge if there is no table of nodes, got none"),
    ],
)
def test_edges_that_are_refused(edges: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_tables(pd.DataFrame(edges))


@each(
    ("changes", "text"),
    [
        (
            {"age": [1, 2, 3, None]},
            "column age of the table of nodes is a feature, which must not be empty, got no value in row 3",
        ),
        ({"age": list("abcd")}, "age of the table of nodes is a feature, which must be a number, got 'a'; number it, "),
        ({"label": ["x", None, "y", "x"]}, "label of the table of nodes is a class, which must be a number, got 'x'"),
        ({"split": ["train", "train", "valid", "test"]}, "must be train, val, test or empty, got 'valid' in row 2"),
        ({"id": [0, 1, 1, 3]}, "column id of the table of nodes must hold each of 0 to 3 once, but id 1 occurs twice"),
        ({"id": [1, 2, 3, 4]}, "must hold each of 0 to 3 once, but id 0 is missing"),
        ({"id": [0, 2, 3, 4]}, "must hold each of 0 to 3 once, but id 1 is missing"),
        ({"id": list("abcd")}, "column id of the table of nodes must hold integers from 0 to N - 1, got 'a' in row 0"),
    ],
)
def test_nodes_that_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_tables(pd.DataFrame(EDGES), pd.DataFrame({**NODES, **changes}))


def test_too_few_nodes() -> None:
    with pytest.raises(ValueError, match="must have a row for every node, got 3 rows and an edge of node 3"):
        from_tables(pd.DataFrame(EDGES), pd.DataFrame({"id": range(3)}))


def test_files_that_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="a table must be one of .csv, .tsv, .parquet, got edges.txt"):
        from_tables("edges.txt")
    with pytest.raises(ValueError, match="table .*none.csv cannot be read: .*No such file"):
        from_tables(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="table .*empty.csv cannot be read: "):
        load(tmp_path / "empty.csv")
    (tmp_path / "bare.csv").write_text("0,1\n1,2\n")
    with pytest.raises(
        ValueError, match="bare.csv must have the columns src and dst, got 0, 1; name them in the first"
    ):
        load(tmp_path / "bare.csv")
    write(EDGES, tmp_path / "edges.csv")
    write(EDGES, tmp_path / "edges.tsv")
    with pytest.raises(ValueError, match="must hold one table named edges, got edges.csv, edges.tsv; move all but one"):
        load(tmp_path)
    with pytest.raises(TypeError, match="edges must be a path or a pandas.DataFrame, got list"):
        from_tables([[0, 1]])


def test_workers_load_a_folder_of_tables_by_its_path(tmp_path: Path) -> None:
    write(EDGES, tmp_path / "edges.csv")
    write(NODES, tmp_path / "nodes.csv")
    assert load(gq.configure(tmp_path).graph).content_hash == expected().content_hash
