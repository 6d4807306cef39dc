"""Folder of the real graphs, if there is one: shared/data next to the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def shared() -> Path:
    """Return the folder of the real graphs; skip the test if it is absent."""
    if not SHARED.is_dir():
        pytest.skip("real graphs are not beside this repository (../shared/data)")
    return SHARED


@pytest.fixture(autouse=True)
def no_downloads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide this machine's downloads from all tests."""
    monkeypatch.setenv("GNNQLAB_DATA", str(tmp_path / "downloads"))
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "dgl"))
