"""Settings for all tests: the choice of tests, the devices, and reproducible property tests."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

# One thread per process: the tests start several workers on few cores, and sums run in a fixed order.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import HealthCheck, settings

from tests.chromium import browser  # noqa: F401  # a fixture of all tests

if TYPE_CHECKING:
    from gnnqlab.train.config.run_config import RunConfig

settings.register_profile(
    "gnnqlab",
    deadline=None,  # a first call may build tables; the suite's own timeout ends a test that hangs
    derandomize=True,  # the same examples on every machine, so that a failed run can be repeated
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("gnnqlab")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--skip-slow", action="store_true", help="leave out the tests marked slow")


def _has_cuda() -> bool:
    import torch

    return torch.cuda.is_available()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--skip-slow"):
        for item in items:
            if item.get_closest_marker("slow"):
                item.add_marker(pytest.mark.skip(reason="slow: left out by --skip-slow"))
    if any(item.get_closest_marker("gpu") for item in items) and not _has_cuda():
        for item in items:
            if item.get_closest_marker("gpu"):
                item.add_marker(pytest.mark.skip(reason="gpu: this machine has no CUDA device"))


@pytest.fixture
def made_by(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], RunConfig]:
    """Return the configuration that a command line makes, without training."""
    from gnnqlab.cli import main
    from gnnqlab.cli.train import Train

    seen: list[RunConfig] = []

    def run(self: Train) -> None:
        seen.append(self.configure(self.system, **self.recipe_settings(self.system)))

    monkeypatch.setattr(Train, "run", run)

    def parse(line: str) -> RunConfig:
        main(shlex.split(line)[1:])
        return seen.pop()

    return parse


@pytest.fixture
def own_models() -> Iterator[None]:
    """Forget the models that a test registers by naming them, which tests over all models would find."""
    from gnnqlab.nn.models import registry

    before = [(known, dict(known)) for known in (registry.MODELS, registry._KINDS)]
    yield
    for known, content in before:
        known.clear()
        known.update(content)


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Return the name of the device under test: one test body covers both."""
    return str(request.param)
