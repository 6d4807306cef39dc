"""Workers with different software raise the same error, with the versions and their machines."""

from __future__ import annotations

import importlib.metadata
import platform
import socket
from unittest import mock

from gnnqlab.launch.same_versions import check_same_versions
from tests.ranks import run_ranks


def _error(rank: int, workers: int, versions: dict[int, str], package: str) -> str:
    plain = importlib.metadata.version
    wrong = versions.get(rank)

    def version(name: str) -> str:
        return wrong if wrong is not None and name == package else plain(name)

    python = ("0", "1", "9") if wrong is not None and package == "Python" else ("3", "11", str(rank))
    with (
        mock.patch.object(socket, "gethostname", lambda: f"node{rank // 2}"),
        mock.patch.object(importlib.metadata, "version", version),
        mock.patch.object(platform, "python_version_tuple", lambda: python),
    ):
        try:
            check_same_versions()
        except RuntimeError as error:
            return str(error)
    return ""


def test_equal_versions_pass_whatever_the_last_number_of_python_is() -> None:
    assert run_ranks(_error, 2, {}, "torch") == ["", ""]


def test_another_version_on_one_machine_is_named_on_every_worker() -> None:
    for package in ("gnnqlab", "torch", "Python"):
        texts = run_ranks(_error, 4, {2: "0.1", 3: "0.1"}, package)
        assert len(set(texts)) == 1
        assert f"the same version of {package}, got 0.1 on node1 and " in texts[0] and " on node0; install" in texts[0]
