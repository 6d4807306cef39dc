"""Citation graphs from raw files: the real ones, the gap of citeseer, and malicious pickles."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from gnnqlab.graph import load
from gnnqlab.graph.sources.planetoid import read_planetoid
from tests.cases import each
from tests.graph.sources.files import write_planetoid


@each("name", ["cora", "citeseer"])
def test_raw_files_and_npz_agree_edge_by_edge(shared: Path, name: str) -> None:
    raw = load(f"{shared / 'raw' / 'planetoid'}:{name}")
    npz = load(shared / f"{name}.npz")
    assert torch.equal(raw.indptr, npz.indptr)
    assert torch.equal(raw.indices, npz.indices)
    assert torch.equal(raw.labels, npz.labels)
    assert raw.content_hash == npz.content_hash  # features and split as well


def test_official_split_of_cora(shared: Path) -> None:
    g = load(shared / "raw" / "planetoid" / "ind.cora.graph")
    assert torch.bincount(g.labels[g.train_mask]).tolist() == [20] * 7
    assert torch.equal(g.val_idx, torch.arange(140, 640))
    assert torch.equal(g.test_idx, torch.arange(1708, 2708))


def test_skipped_test_ids_of_citeseer(shared: Path) -> None:
    g = load(f"{shared / 'raw' / 'planetoid'}:citeseer")
    skipped = (g.labels < 0).nonzero().flatten()
    assert len(skipped) == 15
    assert int(g.features.index_rows(skipped).num_values) == 0
    assert not bool((g.train_mask | g.val_mask | g.test_mask)[skipped].any())


@each("gap", [False, True])
def test_test_rows_go_to_their_ids(tmp_path: Path, gap: bool) -> None:
    g = load(write_planetoid(tmp_path / "raw", "tiny", gap=gap))
    dense = g.features.to_dense()
    test = [9, 6, 7] if gap else [9, 6, 8, 7]
    assert g.num_nodes == 10 and g.name == "tiny"
    assert dense[:5].tolist() == np.eye(5).tolist()
    for row, node in enumerate(test):
        assert dense[node].tolist() == list(range(5 * row + 1, 5 * row + 6))
        assert int(g.labels[node]) == node % 2
    assert (int(g.labels[8]), float(dense[8].sum())) == ((-1, 0.0) if gap else (0, float(sum(range(11, 16)))))
    assert (g.train_idx.tolist(), g.val_idx.tolist(), g.test_idx.tolist()) == ([0, 1], [2, 3, 4, 5], sorted(test))


def test_edges_as_stored(tmp_path: Path) -> None:
    edges = read_planetoid(write_planetoid(tmp_path, "tiny"), "tiny")
    stored = list(zip(np.asarray(edges.src).tolist(), np.asarray(edges.dst).tolist()))
    assert stored == [(0, 1), (0, 1), (0, 6), (1, 0), (1, 0), (6, 0), (9, 7), (7, 9)]


class Harm:
    """A pickle that runs a command when it is loaded."""

    def __init__(self, command: str) -> None:
        self.command = command

    def __reduce__(self) -> tuple:
        return os.system, (self.command,)


@each("part", ["x", "y", "tx", "ty", "allx", "ally", "graph"])
def test_harmful_pickle_is_refused_and_not_run(tmp_path: Path, part: str) -> None:
    folder = write_planetoid(tmp_path / "raw", "tiny")
    with (folder / f"ind.tiny.{part}").open("wb") as file:
        pickle.dump(Harm(f"touch {tmp_path / 'ran'}"), file, protocol=2)
    if part == "x":
        load(folder)  # it repeats rows of allx and is not opened
    else:
        with pytest.raises(ValueError, match=r"was refused: it contains \w+.system; do not use a file from a source"):
            load(folder)
    assert not (tmp_path / "ran").exists()


@each("value", [eval, np.array([object()]), np.array(["text"], dtype=object), pickle.loads, type, b"x".join])
def test_pickle_with_anything_but_numbers_raises_value_error(tmp_path: Path, value: object) -> None:
    folder = write_planetoid(tmp_path / "raw", "tiny")
    with (folder / "ind.tiny.ally").open("wb") as file:
        pickle.dump(value, file, protocol=2)
    with pytest.raises(ValueError, match="was refused: (it contains|arrays must be numbers)"):
        load(folder)


def test_damaged_files(tmp_path: Path) -> None:
    folder = write_planetoid(tmp_path / "raw", "tiny")
    (folder / "ind.tiny.graph").write_bytes(b"\x80\x02}")
    with pytest.raises(ValueError, match=r"ind.tiny.graph was refused: "):
        load(folder)
    write_planetoid(folder, "tiny")
    (folder / "ind.tiny.test.index").write_text("9\n6\n")
    with pytest.raises(ValueError, match=r"planetoid files must agree: .* got 6, 6, 4, 4, 2 in"):
        load(folder)
    (folder / "ind.tiny.test.index").unlink()
    (folder / "ind.tiny.ty").unlink()
    with pytest.raises(ValueError, match=r"must have all of ind.tiny.\*, .* lacks ind.tiny.ty, ind.tiny.test.index"):
        load(folder)
    write_planetoid(folder, "tiny")
    with (folder / "ind.tiny.tx").open("wb") as file:
        pickle.dump(np.eye(4), file, protocol=2)
    with pytest.raises(ValueError, match=r"ind.tiny.tx must hold a sparse matrix in CSR"):
        load(folder)


def test_naming_one_of_several(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_planetoid(tmp_path / "raw", name)
    assert load(f"{tmp_path / 'raw'}:two").name == "two"
    with pytest.raises(ValueError, match=r"holds several planetoid graphs; name one: .*:one or .*:two"):
        load(tmp_path / "raw")
    with pytest.raises(ValueError, match="FOLDER:NAME must name a planetoid graph, .* has one, two, got 'three'"):
        load(f"{tmp_path / 'raw'}:three")
