"""Layout of delimited text files: comments, separator, heading, numbers."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.graph.sources.delimited import detect_layout, read_delimited
from tests.cases import each


@each(
    ("name", "text", "rows", "sentence"),
    [
        ("a.csv", "src,dst\n0,1\n", [[0, 1]], "separated by commas, a heading: src, dst"),
        ("a.csv", "0,1\n1,2\n", [[0, 1], [1, 2]], "separated by commas, no heading: column 1, column 2"),
        ("a.csv", "src;dst;weight\n0;1;0,5\n", [[0, 1, 0.5]], "separated by semicolons, a heading: src, dst, weight"),
        ("a.csv", "src\tdst\n0\t1\n", [[0, 1]], "separated by tabs, a heading"),
        ("a.csv", "src ,dst\n0 ,1\n", [[0, 1]], "separated by commas, a heading: src, dst"),
        ("a.txt", "# one\n% two\n\n3 7\n7  12\n", [[3, 7], [7, 12]], "spaces, no heading, 3 lines of comments skipped"),
        ("a.edges", "0|1\n1|2\n", [[0, 1], [1, 2]], "separated by bars, no heading"),
        ("a.csv", '"x, y",b\n"p, q",c\n', [["p, q", "c"]], "separated by commas, a heading: x, y, b"),
        ("a.txt", "u v\nv w\n", [["u", "v"], ["v", "w"]], "spaces, no heading"),
        ("a.csv", "ann,bob\nbob,cem\n", [["ann", "bob"], ["bob", "cem"]], "no heading: column 1, column 2"),
        ("a.edgelist", "ann bob\ncem dan\n", [["ann", "bob"], ["cem", "dan"]], "spaces, no heading"),
        ("a.csv", "id,tags\n1,a;b\n2,c;d\n", [[1, "a;b"], [2, "c;d"]], "separated by commas, a heading: id, tags"),
        ("a.csv", "\ufeffsrc,dst\r\n0,1\r\n", [[0, 1]], "separated by commas, a heading: src, dst"),
        ("a.txt", "0 1\n# in between\n1 2\n", [[0, 1], [1, 2]], "spaces, no heading"),
        ("a.csv", "src,dst\n007,8\n9,010\n", [["007", "8"], ["9", "010"]], "commas, a heading"),
        ("a.csv", "src,dst\n0,1,\n1,2,\n", [[0, 1], [1, 2]], "separated by commas, a heading: src, dst"),
        ("a.tsv", "0\t1\t\n1\t2\t\n", [[0, 1], [1, 2]], "separated by tabs, no heading"),
    ],
)
def test_layout_is_detected_and_said(
    tmp_path: Path, name: str, text: str, rows: list[list[object]], sentence: str
) -> None:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    for each_path in (path, packed):
        table, found = read_delimited(each_path, names={"src", "dst", "id"})
        values = [[value for value in row if value == value] for row in table.to_numpy(dtype=object).tolist()]
        assert values == rows
        assert sentence in found


def test_heading_can_be_decided_by_the_caller(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("1,2\n0,1\n")
    assert list(read_delimited(path, heading=True)[0]) == ["1", "2"]
    assert gq.read_edges(path, heading=True).num_nodes == 2
    assert gq.read_edges(path).ids is None and gq.read_edges(path).num_nodes == 3


@each(("lines", "text"), [([], "an empty file"), (["# only"], "comments only")])
def test_files_without_rows_are_refused(lines: list[str], text: str) -> None:
    with pytest.raises(ValueError, match=f"at least one row, got {text}"):
        detect_layout(lines, Path("a.csv"))


def test_three_columns_without_a_heading_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 1 1082040961\n1 2 1082155839\n")
    with pytest.raises(ValueError, match="source='column 1', target='column 2'"):
        gq.load(path)
    graph = gq.read_edges(path, source="column 1", target="column 2", drop_edge_data=True)
    assert graph.num_nodes == 3
    assert "left out of edges: column 3" in graph.notes
    weighted = gq.read_edges(path, source="column 1", target="column 2", weight="column 3")
    assert weighted.edge_weights is not None


def test_large_file_moves_a_bar_on_a_screen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gnnqlab.graph.sources import delimited

    path = tmp_path / "a.txt"
    path.write_text("0 1\n1 2\n" * 500)
    counts: list[int] = []

    class Bar:
        def __init__(self, **options: object) -> None:
            counts.append(0)

        def update(self, count: int) -> None:
            counts[-1] += count

        def close(self) -> None:
            pass

    monkeypatch.setattr(delimited, "_LONG_BYTES", 100)
    monkeypatch.setattr("tqdm.tqdm", Bar)
    assert len(read_delimited(path)[0]) == 1000
    assert counts == [path.stat().st_size]
