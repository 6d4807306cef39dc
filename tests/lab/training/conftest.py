"""A run folder to which a test adds epochs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.lab.synthetic_folder import Folder


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Folder]:
    return lambda **settings: Folder(tmp_path, **settings)
