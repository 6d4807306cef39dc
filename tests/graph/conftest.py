"""Where the real graphs lie, if they do: beside the repository, in shared/data."""

from __future__ import annotations

from pathlib import Path

import pytest

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"


@pytest.fixture
def shared() -> Path:
    """The folder with the real graphs; the test is skipped where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("real graphs are not beside this repository (../shared/data)")
    return SHARED


@pytest.fixture(autouse=True)
def no_downloads_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees this machine's downloads."""
    monkeypatch.setenv("GNNQLAB_DATA", str(tmp_path / "downloads"))
    monkeypatch.setenv("DGL_DOWNLOAD_DIR", str(tmp_path / "dgl"))
