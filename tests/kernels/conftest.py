"""Each backend in turn, for tests of kernels."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kernels.backends import EVERY, use


@pytest.fixture(params=EVERY)
def backend(request: pytest.FixtureRequest) -> Iterator[str]:
    with use(request.param):
        yield request.param
