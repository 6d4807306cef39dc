"""Edge lists as tables: the use of their columns, and every malformed table."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.graph import Graph, from_tables, load
from tests.cases import each

pd = pytest.importorskip("pandas", reason="pandas is not installed")
PARTS = ("train", "val", "test")
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
    with pytest.raises(ValueError, match=r"read_edges \(.*roads.csv\) takes one weight .* values, got lanes; "):
        load(path)
    assert load(path, drop_edge_data=True).content_hash == load(pd_graph()).content_hash
    assert load(write({**EDGES, "weight": [1, 1, 1]}, path)).name == "roads"


def pd_graph() -> Graph:
    return from_tables(pd.DataFrame(EDGES))


@each(
    ("edges", "text"),
    [
        (
            {"a": [0], "b": [1], "c": [2]},
            r"the table of edges must have the columns src and dst, or others .*, got a, b, c; write gnnqlab",
        ),
        ({"src": [0, None], "dst": [1, 0]}, "column src of .* must hold an id in every row, got none in row 1; leave"),
        (
            {"src": [0.5], "dst": [1]},
            "column src of the table of edges must hold integers or text as ids, got 0.5 in row",
        ),
        ({"src": [], "dst": []}, "must hold at least one edge if there is no table of nodes, got none"),
        ({"src": [0], "dst": [1], "weight": ["heavy"]}, "column weight of .* is a weight, .* a number, got 'heavy'; "),
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
        (
            {"age": list("abcd")},
            r"age of the table of nodes is a feature, which must be a number, got 'a'; .*drop=\['age'",
        ),
        ({"age": [1, 2, 1e300, 3]}, "column age .* must be finite in float32, at most 3.4e38, got 1e.300 in row 2"),
        (
            {"label": [0.5, 1, 2, 0]},
            "label of the table of nodes is a class, .* whole number or a word, got 0.5; fractions",
        ),
        ({"label": [0, -2, 2, 0]}, "must be at least 0, or -1 or empty for none, got -2"),
        ({"split": ["train", "train", "other", "test"]}, "must be train, val, test or empty, got 'other' in row 2"),
        ({"id": [0, 1, 1, 3]}, "column id of the table of nodes must hold each id once, got 1 in the rows 1 and 2; "),
        ({"id": [1, 2, 3, 4]}, "must have a row for every node, got an edge of node 0, which its column id does not"),
        ({"id": list("abcd")}, "must have a row for every node, got an edge of node 0, which its column id does not"),
        ({"class": [0, 1, 0, 1]}, "has the column label, and column class that could be classes as well; name one"),
        (
            {"Set": ["train", "val", "val", "test"]},
            r"must have one split, got columns split, Set; name one with split=",
        ),
        (
            {"txId": [9, 8, 7, 6]},
            r"column txId .* looks like ids of nodes, .* as 9, and row i would be node i without them; .*drop=\['",
        ),
    ],
)
def test_nodes_that_are_refused(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        from_tables(pd.DataFrame(EDGES), pd.DataFrame({**NODES, **changes}))


def test_too_few_nodes() -> None:
    with pytest.raises(
        ValueError, match="must have a row for every node, got 3 rows and an edge of node 3; .* with id="
    ):
        from_tables(pd.DataFrame(EDGES), pd.DataFrame({"age": range(3)}))
    with pytest.raises(ValueError, match="must have a row for every node, got 3 rows and an edge of node -1"):
        from_tables(pd.DataFrame({"src": [0], "dst": [-1]}), pd.DataFrame({"age": range(3)}))


def ends(graph: Graph) -> set[tuple[Any, Any]]:
    """Return the edges between different nodes by their ids, each once."""
    pairs = zip(*(each.tolist() for each in graph.edge_list()), strict=True)
    return {tuple(sorted((graph.id_of(u), graph.id_of(v)))) for u, v in pairs if u != v}  # type: ignore[misc]


@each(
    ("ids", "nodes"),
    [
        (["x", "y", "z"], None),
        ([10, 7, 10**12], None),
        ([10, -7, 3], None),
        ([2**63 + 5, 1, 2], None),
        (["8278237827123456789012", "15830", "2"], None),
        (["x", "y", "z"], ["z", "x", "y", "w"]),
        ([10, 7, 5], [5, 10, 7, 9]),
        ([10, 7, 5], ["5", "10", "7", "9"]),
        (["007", "7", "0"], ["0", "007", "7"]),
    ],
)
def test_edges_and_rows_of_nodes_go_by_any_ids(ids: list[Any], nodes: list[Any] | None) -> None:
    edges = pd.DataFrame({"source": [ids[0], ids[1]], "target": [ids[1], ids[2]]})
    table = None if nodes is None else pd.DataFrame({"node_id": nodes, "size": range(len(nodes))})
    graph = gq.read_edges(edges, table)
    kind = str if nodes and isinstance(nodes[0], str) else type(ids[0])
    assert ends(graph) == {tuple(sorted((kind(u), kind(v)))) for u, v in itertools.pairwise(ids)}
    assert any("ids: " in note for note in graph.notes)
    if nodes is not None:
        found = {graph.id_of(node): int(graph.features[node, 0]) for node in range(graph.num_nodes)}
        assert found == {name: row for row, name in enumerate(nodes)}


@each("dtype", ["object", "category"])
def test_integers_of_any_column_type_are_integers(dtype: str) -> None:
    edges = pd.DataFrame({"src": [30, 10], "dst": [10, 20]}).astype(dtype)
    ids = gq.read_edges(edges).ids
    assert ids is not None and ids.tolist() == [10, 20, 30]


@each(
    ("values", "names", "labels"),
    [
        (["red", None, "blue", "red"], ("blue", "red"), [1, -1, 0, 1]),
        (["1", "unknown", "2", "1"], ("1", "2"), [0, -1, 1, 0]),
        ([True, False, True, True], (False, True), [1, 0, 1, 1]),
        ([10, 30, 20, 10], (10, 20, 30), [0, 2, 1, 0]),
        ([1, 2, 3, 1], (1, 2, 3), [0, 1, 2, 0]),
        ([0, 1, 3, 1], None, [0, 1, 3, 1]),
        ([5.0, None, 7.0, 5.0], (5, 7), [0, -1, 1, 0]),
        ([0, -1, 1, 0], None, [0, -1, 1, 0]),
    ],
)
def test_labels_of_any_type_are_numbered_and_keep_their_names(
    values: list[Any], names: tuple[Any, ...] | None, labels: list[int]
) -> None:
    graph = gq.read_edges(pd.DataFrame(EDGES), pd.DataFrame({"age": range(4), "class": values}))
    assert (graph.class_names, graph.labels.tolist()) == (names, labels)
    assert graph.num_classes == (len(names) if names else max(labels) + 1)
    assert any("from column class" in note for note in graph.notes)


@each("values", [[f"paper {i}" for i in range(11)], [f"{i}.50 EUR" for i in range(11)]])
def test_words_that_differ_for_each_node_are_no_classes(values: list[str]) -> None:
    text = "must be classes that nodes share, got 11 different words such as .* for 11 nodes; .*num_classes=11"
    edges = pd.DataFrame({"src": range(10), "dst": range(1, 11)})
    with pytest.raises(ValueError, match=text):
        gq.read_edges(edges, pd.DataFrame({"label": values}))
    with pytest.raises(ValueError, match=text):
        Graph.from_edges(edges.src, edges.dst, num_nodes=11, labels=values)
    assert gq.read_edges(edges, pd.DataFrame({"label": values}), num_classes=11).num_classes == 11
    assert Graph.from_edges(edges.src, edges.dst, num_nodes=11, labels=values, num_classes=11).num_classes == 11


def test_number_of_classes_says_that_numbers_are_classes() -> None:
    edges = pd.DataFrame({"src": range(199), "dst": range(1, 200)})
    nodes = pd.DataFrame({"label": range(0, 800, 4)})
    with pytest.raises(ValueError, match="would be 797 classes for 200 nodes; .*num_classes=797"):
        gq.read_edges(edges, nodes)
    graph = gq.read_edges(edges, nodes, num_classes=797)
    assert (graph.num_classes, graph.class_names, int(graph.labels.max())) == (797, None, 796)


def test_several_label_columns_are_several_classes() -> None:
    nodes = pd.DataFrame({"age": range(4), "spam": [0, 1, 1, 0], "bot": [True, False, True, False]})
    graph = gq.read_edges(pd.DataFrame(EDGES), nodes, label=["spam", "bot"])
    assert graph.class_names == ("spam", "bot")
    assert graph.labels.tolist() == [[0, 1], [1, 0], [1, 1], [0, 0]]
    with pytest.raises(ValueError, match="column age .* one of several classes, which must be 0 or 1, got 2 in row 2"):
        gq.read_edges(pd.DataFrame(EDGES), nodes, label=["age", "bot"])


def test_masks_and_words_make_the_same_split() -> None:
    words = ["train", "val", "test", "train"]
    split = pd.DataFrame({"label": [0, 1, 0, 1], "Split": ["Training", "valid", "TEST", "train"]})
    masks = pd.DataFrame({"label": [0, 1, 0, 1], **{f"{part}_mask": [w == part for w in words] for part in PARTS}})
    tables = (split, masks, masks.astype(int), masks.astype(float))
    graphs = [gq.read_edges(pd.DataFrame(EDGES), table) for table in tables]
    assert len({graph.content_hash for graph in graphs}) == 1
    assert [graphs[0].train_idx.tolist(), graphs[0].val_idx.tolist(), graphs[0].num_features] == [[0, 3], [1], 0]


def test_named_columns_and_columns_left_out() -> None:
    edges = pd.DataFrame({"when": [1, 2], "a": [0, 1], "b": [1, 2], "far": [0.5, 2.0]})
    nodes = pd.DataFrame({"key": [2, 1, 0], "note": list("xyz"), "kind": ["p", "q", "p"], "size": [1, 2, 3]})
    graph = gq.read_edges(
        edges[["a", "b", "far"]], nodes, source="b", target="a", weight="far", id="key", label="kind", drop=["note"],
        symmetrize=False,
    )  # fmt: skip
    assert graph.features.flatten().tolist() == [3, 2, 1]
    assert graph.class_names == ("p", "q")
    assert graph.indices[graph.indptr[0] : graph.indptr[1]].tolist() == [0, 1]  # the edge 1 -> 0 and the self loop
    assert 0.5 in graph.edge_weights.tolist()
    assert "left out, as drop= says: note" in graph.notes
    with pytest.raises(ValueError, match="takes one weight per edge .*, got when; "):
        gq.read_edges(edges, nodes, source="b", target="a", weight="far", id="key", drop=["note"])
    with pytest.raises(ValueError, match="source and target must be named together, got source='b' and target=None"):
        gq.read_edges(edges, source="b")
    with pytest.raises(ValueError, match="the table of edges must have the column 'c', got when, a, b, far"):
        gq.read_edges(edges, source="b", target="c")
    with pytest.raises(TypeError, match=r"drop must be a list of columns, got 'note'; write drop=\['note'\]"):
        gq.read_edges(edges, nodes, drop="note")


@each(
    "index",
    [pd.Index(["z", "x", "y"]), pd.Index(["z", "x", "y"], name="node"), pd.Index(["z", "x", "y"], name="user")],
)
def test_index_of_nodes_holds_their_ids(index: Any) -> None:
    edges = pd.DataFrame({"src": ["x", "y"], "dst": ["y", "z"]})
    graph = gq.read_edges(edges, pd.DataFrame({"size": [3, 1, 2]}, index=index))
    assert dict(zip(graph.ids.tolist(), graph.features.flatten().tolist(), strict=True)) == {"x": 1, "y": 2, "z": 3}


def test_index_of_integers_follows_a_column_of_ids() -> None:
    edges, sizes = pd.DataFrame({"src": [0, 1], "dst": [1, 2]}), {"size": [3, 1, 2]}
    assert gq.read_edges(edges, pd.DataFrame(sizes, index=[2, 0, 1])).features.flatten().tolist() == [1, 2, 3]
    named = pd.DataFrame({"id": [1, 2, 0], **sizes}, index=[2, 0, 1])
    assert gq.read_edges(edges, named).features.flatten().tolist() == [2, 3, 1]
    with pytest.raises(ValueError, match=r"column index .* looks like ids of nodes, .* such as 7, .*drop=\['index'\]"):
        gq.read_edges(edges, pd.DataFrame(sizes, index=[7, 8, 9]))
    levels = pd.MultiIndex.from_tuples([(0, 1), (0, 2), (1, 0)], names=["a", "b"])
    with pytest.raises(ValueError, match=r"one id per row, got an index of 2 levels \(a, b\); call reset_index"):
        gq.read_edges(edges, pd.DataFrame(sizes, index=levels))


def test_index_of_edges_holds_their_ends() -> None:
    edges = pd.DataFrame({"src": [0, 1], "dst": [1, 2], "weight": [2, 3]})
    expected_hash = gq.read_edges(edges).content_hash
    assert gq.read_edges(edges.set_index(["src", "dst"])).content_hash == expected_hash
    assert gq.read_edges(edges.set_index("src")).content_hash == expected_hash


def test_column_of_the_same_numbers_in_another_order_is_refused() -> None:
    nodes = pd.DataFrame({"user": [3, 2, 1, 0], "size": range(4)})
    with pytest.raises(ValueError, match=r"column user .* looks like ids .* row i would be node i .*id='user'"):
        gq.read_edges(pd.DataFrame(EDGES), nodes)
    assert gq.read_edges(pd.DataFrame(EDGES), nodes, id="user").features.flatten().tolist() == [3, 2, 1, 0]


def test_mask_that_is_none_is_refused() -> None:
    nodes = pd.DataFrame({"label": [0, 1, 0, 1], "train_mask": [0, 1, 2, 0]})
    with pytest.raises(ValueError, match="column train_mask .* True or False, or 1 or 0, got 2 in row 2; convert it"):
        gq.read_edges(pd.DataFrame(EDGES), nodes)


def test_index_that_pandas_wrote_is_left_out_and_said() -> None:
    nodes = pd.DataFrame({"Unnamed: 0": range(3), "id": ["x", "y", "z"], "size": [1, 2, 3]})
    graph = gq.read_edges(pd.DataFrame({"src": ["x", "y"], "dst": ["y", "z"]}), nodes)
    assert graph.num_features == 1
    assert "left out: column Unnamed: 0, which numbers the rows" in graph.notes
    edges = gq.read_edges(pd.DataFrame({"Unnamed: 0": [0, 1], "src": [5, 7], "dst": [7, 9]}))
    assert edges.ids.tolist() == [5, 7, 9]
    assert "left out of edges: column Unnamed: 0, which numbers the rows" in edges.notes


def test_files_that_are_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(ValueError, match="notes.txt must have two columns, the ends of edges, got column 1; is it"):
        load(tmp_path / "notes.txt")
    (tmp_path / "edges.xls").write_text("0")
    with pytest.raises(ValueError, match="a table must be one of .csv, .tsv, .txt, .* also with .gz, got .*edges.xls"):
        from_tables(tmp_path / "edges.xls")
    with pytest.raises(ValueError, match="table .*none.csv cannot be read: .*No such file"):
        from_tables(tmp_path / "none.csv")
    (tmp_path / "empty.csv").write_text("")
    with pytest.raises(ValueError, match="table .*empty.csv cannot be read: "):
        load(tmp_path / "empty.csv")
    (tmp_path / "ragged.csv").write_text("src,dst\n0,1\n1,2,3\n")
    with pytest.raises(ValueError, match="the same number of columns, got 2 and in line 3 3"):
        load(tmp_path / "ragged.csv")
    (tmp_path / "short.csv").write_text("src,dst\n0,1,5\n1,2,7\n")
    with pytest.raises(ValueError, match="heading must name every column, got fewer names than the rows"):
        load(tmp_path / "short.csv")
    (tmp_path / "excel.csv").write_text("src,dst\n0,1\n", encoding="utf-16")
    with pytest.raises(ValueError, match="excel.csv cannot be read: it must be text in UTF-8, got UTF-16; save it"):
        load(tmp_path / "excel.csv")
    (tmp_path / "latin.csv").write_text("src,dst\nJosé,Ana\n", encoding="latin-1")
    with pytest.raises(ValueError, match="latin.csv must be text in UTF-8, got the byte 0xe9 at position 11; save it"):
        load(tmp_path / "latin.csv")
    (tmp_path / "binary.csv").write_bytes(b"\0\1")
    with pytest.raises(ValueError, match="binary.csv cannot be read: it must be text, got binary data"):
        load(tmp_path / "binary.csv")
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


def test_columns_of_equal_names_are_refused() -> None:
    with pytest.raises(ValueError, match="edges must have different names, got 'dst' twice"):
        gq.read_edges(pd.DataFrame([[0, 1, 2]], columns=["src", "dst", "dst"]))
