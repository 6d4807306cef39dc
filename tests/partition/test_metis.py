"""METIS by either library: the same input, good cuts, and a record of the library that made the cut."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import subprocess
import sys
import threading

import numpy as np
import pytest
import torch

import gnnqlab as gq
from gnnqlab.graph.generate import rmat
from gnnqlab.partition import METIS, Random
from gnnqlab.partition.metis import MetisEdges, metis_library
from gnnqlab.partition.parts import cut_graph, kept_library, shard_path, store_shards
from gnnqlab.partition.shard import Shard
from gnnqlab.tune.cut_counts import CutCounts
from tests.graphs import random_graph
from tests.slow_down import HANG_S


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))


def block(monkeypatch, *libraries):
    for library in libraries:
        for module in [name for name in sys.modules if name == library or name.startswith(f"{library}.")]:
            monkeypatch.delitem(sys.modules, module)
        monkeypatch.setitem(sys.modules, library, None)


@pytest.fixture(params=["pymetis", "dgl"])
def library(request, monkeypatch):
    if request.param == "dgl":
        block(monkeypatch, "pymetis")
    pytest.importorskip(request.param, reason=f"{request.param} is not installed")
    return request.param


def parts_of(graph, partitioner, workers):
    return gq.partition(graph, partitioner, workers=workers)


def test_metis_leaves_no_part_empty_with_few_nodes_per_part(library):
    graph = random_graph(nodes=297, edges=1200, seed=0)
    for workers in (200, 297):
        assert parts_of(graph, METIS(), workers).cut.owner.bincount(minlength=workers).min() > 0


def test_metis_cuts_fewer_edges_than_random_and_prints_no_output(library, capfd):
    graph = gq.load("sbm:600,4,12")
    metis, chance = parts_of(graph, METIS(), 4), parts_of(graph, Random(), 4)
    assert metis.cut.library == library and chance.cut.library is None
    assert metis.quality.edge_cut < 0.7 * chance.quality.edge_cut
    assert metis.quality.node_imbalance < 1.1
    assert "".join(capfd.readouterr()) == ""


_ASKED = {"pymetis": "part_graph", "dgl": "metis_partition_assignment"}


def test_output_printed_during_a_cut_in_another_thread_is_not_lost(library, monkeypatch, capsys):
    module = importlib.import_module(library)
    cuts, cutting, printed = getattr(module, _ASKED[library]), threading.Event(), threading.Event()

    def slow(*args, **kwargs):
        cutting.set()
        assert printed.wait(HANG_S)
        return cuts(*args, **kwargs)

    monkeypatch.setattr(module, _ASKED[library], slow)
    thread = threading.Thread(target=METIS().cut, args=(gq.load("sbm:200,4,12"), 2))
    thread.start()
    assert cutting.wait(HANG_S)
    print("from a cell")
    print("and a warning", file=sys.stderr)
    while_cutting = sys.stdout.encoding, sys.stdout.isatty()
    printed.set()
    thread.join()
    assert capsys.readouterr() == ("from a cell\n", "and a warning\n")
    assert while_cutting == (sys.stdout.encoding, sys.stdout.isatty()), "the stream has the same attributes"


def test_two_threads_that_cut_at_once_leave_the_streams_as_they_were(library, capsys):
    before = [os.fstat(descriptor)[:3] for descriptor in (1, 2)], sys.stdout, sys.stderr
    graphs = [gq.load(f"sbm:{nodes},4,12") for nodes in (200, 300, 400)]
    threads = [threading.Thread(target=METIS().cut, args=(graph, 3)) for graph in graphs for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert before == ([os.fstat(descriptor)[:3] for descriptor in (1, 2)], sys.stdout, sys.stderr)
    assert capsys.readouterr() == ("", "")


def test_the_objective_and_the_weights_reach_metis(library):
    sbm, power_law = gq.load("sbm:2000,8,20"), rmat(11, 8, features=4)
    cut, vol = (parts_of(sbm, METIS(objective=objective), 4).quality for objective in ("cut", "vol"))
    assert vol.halo_rows.sum() < cut.halo_rows.sum() and vol.edge_cut > cut.edge_cut
    even = {balance: parts_of(power_law, METIS(balance_edges=balance), 4).quality for balance in (False, True)}
    assert even[True].edge_imbalance < even[False].edge_imbalance
    assert even[True].node_imbalance > even[False].node_imbalance


def test_self_loops_are_not_shown(library):
    graph = random_graph()  # with self loops, METIS reads outside its input, and its cuts vary
    METIS().cut(graph, 3)
    METIS().cut(graph, 3)
    assert len({tuple(METIS().cut(graph, 3).owner.tolist()) for _ in range(8)}) == 1


def test_a_partition_is_made_once(library):
    graph = gq.load("digits")  # without a seed DGL's METIS cuts it in another way at each of the first calls
    first = parts_of(graph, METIS(), 2)
    assert all(torch.equal(parts_of(graph, METIS(), 2).owner, first.owner) for _ in range(3))
    folder = store_shards(graph, METIS(), 2)
    assert torch.equal(Shard.load(shard_path(folder, 1)).owned, first.shards[1].owned)


def test_pymetis_comes_first_and_is_passed_over_where_a_graph_is_too_large_for_it():
    assert metis_library()[0] == metis_library(2**31 - 1)[0] == "pymetis"
    pytest.importorskip("dgl", reason="DGL is not installed")
    assert metis_library(2**31)[0] == "dgl"


def test_error_for_too_large_graph_names_the_alternatives(monkeypatch):
    block(monkeypatch, "dgl")
    rule = r"pymetis: supports fewer than 2,147,483,648 edges.*got 3,000,000,000.*install DGL, or .*Random"
    with pytest.raises(RuntimeError, match=rule):
        metis_library(3_000_000_000)


def test_pymetis_cuts_alike_in_every_process_and_leaves_no_worker_empty():
    graph, small = gq.load("digits"), gq.load("sbm:10,2,3")
    here = METIS().cut(graph, 5).owner
    code = (
        "import gnnqlab as gq, hashlib; owner = gq.partitioners.METIS().cut(gq.load('digits'), 5).owner; "
        "print(hashlib.sha256(owner.numpy().tobytes()).hexdigest())"
    )
    there = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()
    assert there == hashlib.sha256(here.numpy().tobytes()).hexdigest()
    for workers in range(2, 11):
        for objective in ("cut", "vol"):
            counts = METIS(objective=objective).cut(small, workers).owner.bincount(minlength=workers)
            assert counts.min() >= 1 and counts.sum() == 10


@pytest.mark.parametrize("times", [1, 3, 128, 256])
def test_both_ways_has_each_neighbour_once(times):
    # 0 -> 1 and back, 1 -> 2, 3 alone; an edge that is given several times is still one.
    source, destination = (torch.tensor(ends, dtype=torch.int32).repeat(times) for ends in ([0, 1, 1], [1, 0, 2]))
    indptr, indices = MetisEdges(source, destination, 4).both_ways()
    assert indptr.tolist() == [0, 1, 3, 4, 4] and indices.tolist() == [1, 0, 2, 1]
    assert indptr.dtype == indices.dtype == np.int32


def test_without_either_the_way_out_is_one_that_works(monkeypatch):
    block(monkeypatch, "dgl", "pymetis")
    rule = r"METIS needs pymetis or DGL.*pymetis: .*dgl: .*pip install pymetis, or .*Random"
    with pytest.raises(RuntimeError, match=rule) as said:
        METIS().cut(gq.load("sbm:40,2,4"), 2)
    assert "dgl==" not in str(said.value), "DGL has no wheels for later Pythons"
    assert METIS().cut(gq.load("sbm:40,2,4"), 1).owner.unique().tolist() == [0], "one worker needs no library"


def test_a_library_that_is_there_but_broken_is_passed_over(monkeypatch, tmp_path):
    pytest.importorskip("dgl", reason="DGL is not installed")
    for module in [name for name in sys.modules if name == "pymetis" or name.startswith("pymetis.")]:
        monkeypatch.delitem(sys.modules, module)
    (tmp_path / "pymetis.py").write_text("raise FileNotFoundError('Cannot find a compiled library')")
    monkeypatch.syspath_prepend(tmp_path)
    assert metis_library()[0] == "dgl"


def test_stored_cut_records_the_library_that_made_it(monkeypatch):
    pytest.importorskip("dgl", reason="DGL is not installed")
    graph = gq.load("sbm:200,4,8")
    with monkeypatch.context() as inner:
        block(inner, "pymetis")
        folder = store_shards(graph, METIS(), 2)
    assert kept_library(folder) == "dgl"
    assert parts_of(graph, METIS(), 2).cut.library == "dgl", "the stored cut is used, though pymetis is available again"
    assert kept_library(store_shards(graph, Random(), 2)) is None


def test_run_facts_name_the_partitioner_library_also_for_a_stored_cut(monkeypatch, tmp_path):
    pytest.importorskip("dgl", reason="DGL is not installed")
    with monkeypatch.context() as inner:
        block(inner, "pymetis")
        store_shards(gq.load("sbm:60,3,6"), METIS(), 2)
    for partition, library in ((METIS(), "dgl"), (Random(), None)):
        system = dataclasses.replace(gq.systems.vanilla(), partition=partition)
        run = gq.launch("sbm:60,3,6", system=system, workers=2, epochs=1, out=tmp_path, wait=True)
        assert json.loads((run.folder / "facts.json").read_text())["partitioner_library"] == library


def test_a_quick_cut_reads_eight_edges_of_a_node_and_sends_about_as_many_rows(monkeypatch):
    graph, passed = gq.load("rmat:12,50"), []

    def recorded(num_edges):
        name, run = metis_library(num_edges)

        def run_recorded(edges, *settings):
            passed.append(edges)
            return run(edges, *settings)

        return name, run_recorded

    monkeypatch.setattr("gnnqlab.partition.edge_cut.metis_library", recorded)
    cuts = [METIS().cut(graph, 4), METIS().quick_cut(graph, 4)]
    most = [edges.in_degrees().max() for edges in passed]
    assert most[0] > 100 and most[1] <= 8
    low = graph.in_degrees <= 8
    assert torch.equal(passed[0].in_degrees()[low], passed[1].in_degrees()[low]), "short rows are whole"
    full, quick = (CutCounts.from_cut(graph, cut).halo_rows for cut in cuts)
    assert quick == pytest.approx(full, rel=0.05)
    assert METIS().quick_cut(graph, 1).owner.unique().tolist() == [0]


def test_a_quick_cut_is_not_stored_and_gives_way_to_a_stored_one(monkeypatch):
    graph, made = gq.load("sbm:300,3,8"), []
    monkeypatch.setattr("gnnqlab.partition.parts.QUICK_CUT_EDGES", 100)
    monkeypatch.setattr(METIS, "quick_cut", lambda self, *args: made.append(args) or Random().cut(*args))
    cut_graph(graph, METIS(), 3, quick=True)
    stored = cut_graph(graph, METIS(), 3)
    assert stored.library in ("pymetis", "dgl")
    assert torch.equal(cut_graph(graph, METIS(), 3, quick=True).owner, stored.owner) and len(made) == 1
    monkeypatch.setattr("gnnqlab.partition.parts.QUICK_CUT_EDGES", 10**9)
    assert cut_graph(graph, METIS(), 2, quick=True).library in ("pymetis", "dgl") and len(made) == 1
