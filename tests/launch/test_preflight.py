"""Broken inputs and environments: each is refused before a process starts, with status 2, its value and a way out."""

from __future__ import annotations

import re
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import gnnqlab as gq
from gnnqlab.cli import main
from gnnqlab.launch import guarded

QUICK = ["--epochs", "2", "--layers", "2", "--hidden", "8"]
PAIR = {"num_nodes": np.array(3), "edge_src": np.array([0, 1, 2]), "edge_dst": np.array([1, 2, 0])}
ROWS = {"feat": np.eye(3, dtype=np.float32), "label": np.array([0, 1, 0])}
SPLIT = {f"{part}_idx": np.array([node]) for node, part in enumerate(("train", "val", "test"))}


@dataclass(frozen=True)
class Place:
    """Changes of a case before its launch."""

    folder: Path
    patch: pytest.MonkeyPatch

    def file(self, name: str, content: str | bytes) -> str:
        path = self.folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    def arrays(self, **arrays: np.ndarray) -> str:
        np.savez(self.folder / "g.npz", **arrays)
        return str(self.folder / "g.npz")

    def saved(self, name: str, change: Callable[[bytes], bytes | None]) -> str:
        """Save a graph, then replace the content of one of its files; ``None`` removes it."""
        path = gq.load("sbm:60,3,6").save(self.folder / "saved")
        content = change((path / name).read_bytes())
        (path / name).unlink()
        if content is not None:
            (path / name).write_bytes(content)
        return str(path)


@dataclass(frozen=True)
class Case:
    """A launch that is refused."""

    name: str
    value: str
    """Pattern of the rule and value in the error."""
    way_out: str
    """Pattern of the way out."""
    graph: Callable[[Place], str] = lambda place: "sbm:60,3,6"
    change: Callable[[Place], object] = lambda place: None
    options: list[str] = field(default_factory=list)


def of_file(name: str, value: str, way_out: str, graph: Callable[[Place], str]) -> Case:
    return Case(name, value, way_out, graph=graph)


AGAIN = "write it again|save (it|the graph) again"
FILES = [
    of_file("empty npz", r"readable, got \S+g\.npz: EOFError", AGAIN, lambda p: p.file("g.npz", b"")),
    of_file("text as npz", r"g\.npz must be a \.npz of plain arrays", "", lambda p: p.file("g.npz", "hello")),
    of_file("npz cut off", r"g\.npz", "", lambda p: p.file("g.npz", Path(p.arrays(**PAIR)).read_bytes()[:200])),
    of_file("npz without arrays", r"g\.npz .*nothing", "edge_src and edge_dst", lambda p: p.arrays()),
    of_file("npz of other names", r"g\.npz .*foo", "edge_src and edge_dst", lambda p: p.arrays(foo=np.zeros(2))),
    of_file("npz of objects", r"g\.npz", "", lambda p: p.arrays(**PAIR | {"num_nodes": np.array({}, dtype=object)})),
    of_file("edge to no node", "9", "", lambda p: p.arrays(**PAIR | {"edge_dst": np.array([1, 9, 0])}, **ROWS)),
    of_file("negative node", "-1", "", lambda p: p.arrays(**PAIR | {"edge_src": np.array([0, -1, 0])}, **ROWS)),
    of_file("edges of two lengths", "2", "", lambda p: p.arrays(**PAIR | {"edge_dst": np.array([1, 2])}, **ROWS)),
    of_file("NaN in features", "nan|NaN", "", lambda p: p.arrays(**PAIR, **ROWS | {"feat": np.full((3, 2), np.nan)})),
    of_file("too few labels", "2", "", lambda p: p.arrays(**PAIR, **ROWS | {"label": np.array([0, 1])}, **SPLIT)),
    of_file("too few features", "2", "", lambda p: p.arrays(**PAIR, **ROWS | {"feat": np.eye(2)}, **SPLIT)),
    of_file("no features", "no features", "pass features", lambda p: p.arrays(**PAIR, label=ROWS["label"], **SPLIT)),
    of_file(
        "no labels",
        "must have a label, got 1 unlabelled",
        "remove them from the split",
        lambda p: p.arrays(**PAIR, feat=ROWS["feat"], **SPLIT),
    ),
    of_file(
        "empty train split",
        "train_idx must name at least one node, got none",
        "leave it out",
        lambda p: p.arrays(**PAIR, **ROWS, train_idx=np.array([], dtype=np.int64)),
    ),
    of_file("empty csv", r"g\.csv cannot be read", "row|[Cc]olumns", lambda p: p.file("g.csv", "")),
    of_file("csv of bytes", r"g\.csv cannot be read", "", lambda p: p.file("g.csv", bytes(range(256)) * 4)),
    of_file("csv of one column", r"g\.csv .* got a", "columns", lambda p: p.file("g.csv", "a\n1")),
    of_file("csv of words", "got none in row 1", "must hold", lambda p: p.file("g.csv", "src,dst\n0,x\n1,\n")),
    of_file("csv without edges", "at least one edge", "must hold", lambda p: p.file("g.csv", "src,dst\n")),
    of_file(
        "csv of negative nodes",
        "no features|got -1 in row 0",
        "pass|integers",
        lambda p: p.file("g.csv", "src,dst\n0,-1\n"),
    ),
    of_file("broken parquet", r"g\.parquet", "", lambda p: p.file("g.parquet", "PAR1xx")),
    of_file("unknown suffix", r"got the file \S+g\.pdf", "must be one of", lambda p: p.file("g.pdf", "x")),
    of_file("missing file", r"got '\S+none\.npz'", "readable paths", lambda p: str(p.folder / "none.npz")),
    of_file("folder without a graph", "got the folder", "must be one of", lambda p: str(p.folder)),
    of_file("planetoid name", "got 'cora'", "must name a planetoid graph", lambda p: f"{p.folder}:cora"),
    of_file("empty header", r"readable, got \S+saved: JSONDec", AGAIN, lambda p: p.saved("graph.json", lambda b: b"")),
    of_file("header of a list", r"readable, got \S+saved", AGAIN, lambda p: p.saved("graph.json", lambda b: b"[]")),
    of_file("header cut off", r"readable, got \S+saved", AGAIN, lambda p: p.saved("graph.json", lambda b: b[:40])),
    of_file(
        "header of bytes", r"readable, got \S+saved", AGAIN, lambda p: p.saved("graph.json", lambda b: b"\xff\xfe")
    ),
    of_file("header of no format", "version None", AGAIN, lambda p: p.saved("graph.json", lambda b: b"{}")),
    of_file("missing array", "indices.npy is missing", AGAIN, lambda p: p.saved("indices.npy", lambda b: None)),
    of_file("array cut off", r"indices\.npy cannot be read", AGAIN, lambda p: p.saved("indices.npy", lambda b: b[:-8])),
    of_file("empty array", r"readable, got \S+saved: EOF", AGAIN, lambda p: p.saved("features.npy", lambda b: b"")),
    of_file("array without header", r"labels\.npy", AGAIN, lambda p: p.saved("labels.npy", lambda b: b[:50])),
]


def below_a_file(place: Place, *variables: str) -> None:
    """Point environment variables at a folder that cannot be created, also by root."""
    for variable in variables:
        place.patch.setenv(variable, place.file("file", "") + "/folder")


FOLDERS = [
    Case("cache below a file", r"the cache \(GNNQLAB_CACHE\) must be writable, got \S+file/folder: Not a directory",
         "set GNNQLAB_CACHE", change=lambda p: below_a_file(p, "GNNQLAB_CACHE")),
    Case("cache in /proc", r"the cache .* got /proc/none", "set GNNQLAB_CACHE",
         change=lambda p: p.patch.setenv("GNNQLAB_CACHE", "/proc/none")),
    Case("cache of a long name", r"the cache .* got /x{300}: File name too long", "set GNNQLAB_CACHE",
         change=lambda p: p.patch.setenv("GNNQLAB_CACHE", "/" + "x" * 300)),
    Case("home below a file", r"the cache \(below HOME\) must be writable, got \S+file/folder/.cache/gnnqlab",
         "set GNNQLAB_CACHE", change=lambda p: (p.patch.delenv("GNNQLAB_CACHE"), below_a_file(p, "HOME"))),
    Case("runs below a file", r"folder of a run must be writable, got \S+file/folder: Not a directory",
         "pass out=.* GNNQLAB_RUNS", change=lambda p: below_a_file(p, "GNNQLAB_RUNS")),
    Case("runs in /proc", "got /proc/none", "set GNNQLAB_RUNS", options=["--out", "/proc/none"]),
]  # fmt: skip


def of_open_files(limit: int, workers: int, least: int) -> Case:
    return Case(
        f"{limit} open files",
        f"open files must be at least {least} for {workers} workers, got {limit}",
        "raise it .*ulimit -n",
        change=lambda place: place.patch.setattr(resource, "getrlimit", lambda kind: (limit, limit)),
        options=["--workers", str(workers)],
    )


def of_variable(name: str, text: str, value: str, way_out: str = "unset it") -> Case:
    change = lambda place: place.patch.setenv(name, text)  # noqa: E731
    return Case(f"{name}={text}", value, way_out, change=change)


LIMITS = [
    *(of_open_files(*numbers) for numbers in ((16, 1, 25), (40, 6, 50), (256, 60, 320))),
    *(of_variable("OMP_NUM_THREADS", n, f"whole number of at least 1, got '{n}'") for n in ("0", "-2", "many", "1.5")),
]


def of_machines(name: str, value: str, way_out: str, *options: str) -> Case:
    return Case(name, value, way_out, options=["--print-command", "--nnodes", "2", *options])


HERE = ["--address", "127.0.0.1"]
MACHINES = [
    of_machines("missing interface", "one of this machine, .*lo.*, got 'no9'", "choose", *HERE, "--interface", "no9"),
    of_machines("taken port", "got TAKEN of 127.0.0.1, which", "another port", *HERE, "--interface=lo", "--port=TAKEN"),
    of_machines("port 0", "port must lie in .*, got 0", "choose a free port", "--port", "0"),
    of_machines("port 70000", "port must lie in .*, got 70000", "choose a free port", "--port", "70000"),
    of_machines("uneven machines", "got 3 workers on 2 machines", "multiple", "--workers", "3"),
    of_machines("link of machines", "emulated hosts .* got hosts 2", "leave out", "--hosts", "2", "--link", "1gbit"),
]


def of_settings(name: str, value: str, way_out: str, *options: str) -> Case:
    return Case(name, value, way_out, options=list(options))


def little_memory(place: Place) -> None:
    place.patch.setattr("gnnqlab.train.preflight.free_bytes", lambda device, workers: 1000)


LARGE = ["--layers", "3", "--hidden", "4096", "--checkpoint-every", "1"]


def full_disk(place: Place, free: int = 12345) -> None:
    place.patch.setattr("shutil.disk_usage", lambda path: SimpleNamespace(free=free))


SETTINGS = [
    of_settings("more workers than nodes", "got 61 workers for 60 nodes", "choose fewer workers", "--workers", "61"),
    of_settings("no workers", "workers must .* got 0", "at least 1", "--workers", "0"),
    of_settings("no epochs", "epochs must .*got 0", "at least 1", "--epochs", "0"),
    of_settings("unknown system", "got 'vanila'", "did you mean vanilla", "--system", "vanila"),
    of_settings("unknown model", "got 'gcm'", "did you mean", "--model", "gcm"),
    of_settings("unknown option", "--hiden", "see gnnqlab train --help", "--hiden", "3"),
    of_settings("bits of no width", r"bits must .*got \[3\]", "other bits", "--system", "fixed-bits", "--bits", "3"),
    of_settings("dropout of 2", "dropout must .*got 2", "1", "--dropout", "2"),
    of_settings("word as a number", "got 'many'", "", "--epochs", "many"),
    of_settings("resume with settings", "got .*--graph", "leave them out", "--resume", "none"),
    Case(
        "little memory",
        "fit into memory, got at least .* where 1 kB are free",
        "fewer layers",
        change=little_memory,
    ),
    Case(
        "full disk",
        r"fit on its disk, got at least 67\.\d MB \(checkpoints .* where 12\.3 kB are free",
        "free some space",
        change=full_disk,
    ),
    Case(
        "large checkpoints",
        r"got at least 1\.\d+ GB \(checkpoints 8\d\d MB, .* where 200 MB are free",
        "free some",
        change=lambda place: full_disk(place, 200_000_000),
        options=LARGE,
    ),
    of_variable("GNNQLAB_KERNELS", "foo", "must be one of .*, got 'foo'", "native"),
]
CASES = [*FILES, *FOLDERS, *LIMITS, *MACHINES, *SETTINGS]


def test_the_list_has_at_least_60_cases() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_launch_that_cannot_train_is_refused_before_a_process_starts(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def start(*arguments: object, **options: object) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(guarded, "start_guard", start)
    monkeypatch.setenv("GNNQLAB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("GNNQLAB_RUNS", str(tmp_path / "runs"))
    place = Place(tmp_path, monkeypatch)
    case.change(place)
    with socket.socket() as taken, pytest.raises(SystemExit) as end:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = [option.replace("TAKEN", port) for option in case.options]
        main(["train", "--graph", case.graph(place), *QUICK, *options])
    said = " ".join(capsys.readouterr().err.split()).replace(f"got {port}", "got TAKEN")
    assert end.value.code == 2, said
    assert re.search(case.value, said) and re.search(case.way_out, said), said
    assert not list(tmp_path.glob("runs/*"))
