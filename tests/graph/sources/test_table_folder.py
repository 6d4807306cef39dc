"""Folders with a table of edges and further files of nodes: each is read, refused by name, or named in the notes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gnnqlab.graph import load
from tests.cases import each

FEATURES = np.arange(8, dtype=np.float32).reshape(4, 2)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Folder with the edges of a path of nodes 0, 1 and 3; node 2 has none."""
    (tmp_path / "edges.csv").write_text("src,dst\n0,1\n1,3\n")
    return tmp_path


@each(
    "labels",
    [
        ("labels.csv", "label\n2\n0\n1\n0\n"),
        ("labels.csv", "2\n0\n1\n0\n"),
        ("labels.csv", "node,group\n3,0\n1,0\n2,1\n0,2\n"),
        ("labels.tsv", "3\t0\n1\t0\n2\t1\n0\t2\n"),
        ("nodes.csv", "id,label\n0,2\n1,0\n2,1\n3,0\n"),
    ],
)
def test_features_and_labels_beside_edges_are_read(folder: Path, labels: tuple[str, str]) -> None:
    np.save(folder / "features.npy", FEATURES)
    (folder / labels[0]).write_text(labels[1])
    graph = load(folder)
    assert graph.num_nodes == 4 and graph.features.tolist() == FEATURES.tolist() and graph.ids is None
    assert graph.labels.tolist() == [2, 0, 1, 0]
    assert "features.npy: row i is node i" in graph.notes
    (folder / labels[0]).unlink()  # the cases share the folder


def test_arrays_beside_edges_are_read_without_a_table_of_nodes(folder: Path) -> None:
    np.save(folder / "x.npy", FEATURES)
    np.save(folder / "y.npy", np.array([1, 0, 1, 0]))
    np.save(folder / "train_mask.npy", np.array([True, False, True, False]))
    graph = load(folder)
    assert graph.num_nodes == 4 and graph.labels.tolist() == [1, 0, 1, 0] and graph.train_idx.tolist() == [0, 2]
    assert graph.num_edges == 8, "two edges, both ways, and self loops of four nodes"
    assert not any(note.startswith("ids") for note in graph.notes)


@each("name", ["features.npz", "labels.parquet", "features.csv.gz", "y.txt"])
def test_unread_files_of_nodes_are_refused_by_name(folder: Path, name: str) -> None:
    (folder / "nodes.csv").write_text("id,label\n0,1\n1,0\n3,1\n")
    (folder / name).touch()
    with pytest.raises(ValueError, match=f"must be read, got {name} and edges.csv, nodes.csv; join them"):
        load(folder)
    (folder / name).unlink()


def test_tables_beside_a_folder_of_arrays_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "edge_index.npy", np.array([[0, 1], [1, 2]]))
    (tmp_path / "labels.csv").write_text("label\n0\n1\n0\n")
    with pytest.raises(ValueError, match="got labels.csv and edge_index.npy"):
        load(tmp_path)


def test_other_data_files_are_notes(folder: Path) -> None:
    (folder / "predictions.csv").write_text("node,class\n0,1\n")
    (folder / "README.txt").write_text("about")
    (folder / "figure.png").touch()
    assert "not read: predictions.csv" in load(folder).notes


def test_rows_of_arrays_need_numbered_nodes(folder: Path) -> None:
    np.save(folder / "features.npy", FEATURES)
    (folder / "edges.csv").write_text("src,dst\nann,bob\n")
    with pytest.raises(ValueError, match="row i of features.npy in .* ids must be integers from 0 to 3, got ann"):
        load(folder)
    (folder / "edges.csv").write_text("src,dst\n0,9\n")
    with pytest.raises(ValueError, match="ids must be integers from 0 to 3"):
        load(folder)


def test_values_given_twice_are_refused(folder: Path) -> None:
    np.save(folder / "labels.npy", np.array([0, 1, 0, 1]))
    (folder / "nodes.csv").write_text("id,label\n0,2\n1,0\n2,1\n3,0\n")
    with pytest.raises(ValueError, match="must hold labels once, got them in the table of nodes and in one of labels"):
        load(folder)


def test_errors_of_paths_name_a_way_of_the_command_line(folder: Path) -> None:
    (folder / "nodes.csv").write_text("id,label,city\n0,1,a\n1,0,b\n3,1,c\n")
    with pytest.raises(ValueError, match=r"drop=\['city'\].*read_edges\('.*edges.csv', '.*nodes.csv', ...\)") as caught:
        load(folder)
    assert "on the command line --graph FOLDER reads what graph.save(FOLDER) has written" in str(caught.value)
