"""Downloads: from a local server, and errors within seconds when there is no network."""

from __future__ import annotations

import hashlib
import http.server
import io
import math
import shutil
import socket
import sys
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from gnnqlab.graph import load
from gnnqlab.graph.sources import fetch, ogb
from tests.cases import each
from tests.graph.sources import files
from tests.slow_down import HANG_S

NEEDS_DOWNLOAD = (
    "cora", "citeseer", "pubmed", "reddit", "yelp", "ogbn-arxiv", "ogbn-products", "papers100M", "amazon-products",
)  # fmt: skip


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Path]]:
    """Return address and folder of a web server on this machine; DGL's own setting names it."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Quiet(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, directory=str(folder), **kwargs)

        def log_message(self, *args: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Quiet) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.01,), daemon=True)  # polls often
        thread.start()
        address = f"http://127.0.0.1:{running.server_port}/"
        monkeypatch.setenv("DGL_REPO", address)
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        monkeypatch.setattr(fetch, "REACH_S", HANG_S)  # the server shares a busy processor
        monkeypatch.setattr(fetch, "STALL_S", HANG_S)
        yield address, folder
        running.shutdown()
        thread.join()


def zipped(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.make_archive(str(target.with_suffix("")), "zip", folder)


@pytest.fixture
def no_dgl(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in [name for name in sys.modules if name == "dgl" or name.startswith("dgl.")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "dgl", None)


@pytest.fixture(params=["with DGL", "without DGL"])
def dgl_or_not(request: pytest.FixtureRequest) -> None:
    if request.param == "with DGL":
        pytest.importorskip("dgl", reason="DGL is not installed")
    else:
        request.getfixturevalue("no_dgl")


@pytest.mark.usefixtures("dgl_or_not")
def test_dgl_archives(server: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = server
    zipped(files.write_reddit(tmp_path / "r"), folder / "dataset" / "reddit.zip")
    zipped(files.write_graphsaint(tmp_path / "y", several=True), folder / "dataset" / "yelp.zip")
    zipped(files.write_planetoid(tmp_path / "c", "cora_v2"), folder / "dataset" / "cora_v2.zip")
    root = tmp_path / "root"
    first = load("reddit", root=root)
    # The same with and without DGL, and as read from the files by hand: nodes have the same numbers.
    assert first.content_hash == load(tmp_path / "r").content_hash
    assert load("yelp", root=root).multi_label
    assert load("cora", root=root).name == "cora"
    shutil.rmtree(folder / "dataset")
    assert load("reddit", root=root).content_hash == first.content_hash  # from the disk
    leftovers = [file.name for file in root.iterdir() if file.name.startswith(".") or file.suffix == ".zip"]
    assert leftovers == []


@pytest.fixture
def arxiv(server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the archive that OGB's server would send."""
    address, folder = server
    files.write_ogb(tmp_path / "z" / "arxiv")
    zipped(tmp_path / "z", folder / "arxiv.zip")
    monkeypatch.setattr(ogb, "_BASE", address)
    return folder / "arxiv.zip"


def test_ogb_archive(arxiv: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    assert load("ogbn-arxiv", root=root).content_hash == load(tmp_path / "z" / "arxiv").content_hash
    digest = hashlib.sha256(arxiv.read_bytes()).hexdigest()
    assert (root / fetch.SUMS).read_text() == f"{digest}  arxiv.zip\n"
    assert sorted(file.name for file in root.iterdir()) == [fetch.SUMS, "ogbn_arxiv"]


def test_an_archive_with_another_checksum_is_not_unpacked(arxiv: Path, tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / fetch.SUMS).write_text(f"{'0' * 64} *arxiv.zip\n")
    with pytest.raises(RuntimeError, match=f"must have the SHA-256 {'0' * 64} that .*{fetch.SUMS} names, got "):
        load("ogbn-arxiv", root=root)
    assert [file.name for file in root.iterdir()] == [fetch.SUMS]


def test_load_in_two_threads_downloads_an_archive_once(
    arxiv: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    transfer, locked, both = fetch._transfer, fetch.locked, threading.Barrier(2)
    asked: list[Path] = []
    came: list[str] = []
    hashes: list[str] = []

    def at_once(path: Path) -> AbstractContextManager[bool]:
        asked.append(path)
        both.wait(HANG_S)  # neither has the archive when both wait for the lock
        return locked(path)

    def counted(*arguments: Any) -> str:
        came.append(arguments[0])
        return transfer(*arguments)

    def want() -> None:
        hashes.append(load("ogbn-arxiv", root=tmp_path / "root").content_hash)

    monkeypatch.setattr(fetch, "locked", at_once)
    monkeypatch.setattr(fetch, "_transfer", counted)
    several = [threading.Thread(target=want) for _ in range(2)]
    for thread in several:
        thread.start()
    for thread in several:
        thread.join()
    assert hashes == [load(tmp_path / "z" / "arxiv").content_hash] * 2
    assert len(asked) == 2 and len(came) == 1


def test_ogb_comes_over_https_and_stays_there() -> None:
    assert ogb._BASE.startswith("https://")
    asked = urllib.request.Request(ogb._BASE + "arxiv.zip")
    down, across = (f"{scheme}://elsewhere.invalid/arxiv.zip" for scheme in ("http", "https"))
    follow = fetch._NoWayDown().redirect_request
    with pytest.raises(urllib.error.URLError, match=f"redirects to {down}, which is not encrypted"):
        follow(asked, io.BytesIO(), 302, "Found", Message(), down)
    onward = follow(asked, io.BytesIO(), 302, "Found", Message(), across)
    assert onward is not None and onward.full_url == across


@each("name", NEEDS_DOWNLOAD)
def test_without_network_one_line(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Nothing listens on a port that was just closed; names that do not exist are tested below.
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        dead = f"http://127.0.0.1:{taken.getsockname()[1]}/"
    monkeypatch.setenv("DGL_REPO", dead)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(ogb, "_BASE", dead)
    with pytest.raises(RuntimeError) as caught:
        load(name, root=tmp_path)
    text = str(caught.value)
    assert "\n" not in text
    assert "is not on this machine and cannot be downloaded: " in text
    assert f"into {tmp_path}" in text and "; put " in text and "GNNQLAB_DATA" in text
    expected = {"reddit": "reddit_graph.npz", "yelp": "class_map.json", "amazon-products": "adj_full.npz"}
    assert expected.get(name, "raw/" if "ogbn" in name or "papers" in name else f"ind.{name}.allx") in text


def test_unknown_host() -> None:
    with pytest.raises(ConnectionError, match=r"nowhere.invalid does not answer \(.+\)"):
        fetch.check_reachable("http://nowhere.invalid/file.zip")


def test_check_reachable_waits_as_long_as_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "REACH_S", math.inf)  # too long for any clock of Python
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(ConnectionError, match=r"1:\d+ does not answer \((nothing within 0.3 s|timed out)\)"):
            fetch.check_reachable(f"http://127.0.0.1:{silent.getsockname()[1]}/file.zip", seconds=0.3)


def test_refused_and_broken_archives(server: tuple[str, Path], tmp_path: Path) -> None:
    address, folder = server
    with pytest.raises(ConnectionError, match="does not answer \\(HTTP 404"):
        fetch.fetch_archive(address + "none.zip", tmp_path / "g")
    (folder / "bad.zip").write_bytes(b"no zip at all")
    with pytest.raises(ConnectionError, match=r"bad.zip: File is not a zip file"):
        fetch.fetch_archive(address + "bad.zip", tmp_path / "g")
    assert not (tmp_path / "g").exists() and not [f for f in tmp_path.iterdir() if f.name.startswith(".g")]


def test_a_full_disk_is_noticed_before_the_transfer(
    server: tuple[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    address, folder = server
    (folder / "big.zip").write_bytes(bytes(1000))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: types.SimpleNamespace(free=2000))
    with pytest.raises(OSError, match=r"big.zip has 1 kB and needs about 3 kB to unpack, .* has 2 kB left"):
        fetch.fetch_archive(address + "big.zip", tmp_path / "g")


def test_archive_without_the_files(server: tuple[str, Path], tmp_path: Path) -> None:
    _, folder = server
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "readme").write_text("nothing")
    zipped(tmp_path / "empty", folder / "dataset" / "reddit.zip")
    with pytest.raises(
        RuntimeError, match=r"was downloaded to .*, but lacks reddit_graph.npz, reddit_data.npz; put them"
    ):
        load("reddit", root=tmp_path / "root")
