"""Which function the workers call is said by whoever launches, not by the environment."""

from pathlib import Path

import pytest

from gnnqlab.launch.entry import FIT, argument, load, named
from gnnqlab.launch.guarded import agent_command
from tests.launch.conftest import FAKE, Bench, config


def test_the_function_travels_as_the_last_argument() -> None:
    settings = config(2).to_json()
    assert named(agent_command(settings, Path("both"))) == FIT
    assert named(agent_command(settings, Path("both"), FAKE)) == FAKE
    assert agent_command(settings, Path("both"), FAKE)[-1] == argument(FAKE)
    assert named(["runs/both"]) == FIT
    assert load("math:sqrt")(9) == 3


def test_the_environment_of_whoever_launches_does_not_choose_it(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GNNQLAB_FIT", "tests.launch.nowhere:fit")
    assert bench.launch(1).wait().status == "finished"
