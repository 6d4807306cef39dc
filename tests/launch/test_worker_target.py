"""The launching process, not the environment, determines the function that the workers call."""

import warnings
from pathlib import Path

import pytest

from gnnqlab.launch.guarded import agent_command
from gnnqlab.launch.worker_target import FIT, argument, load, target_of
from tests.launch.conftest import FAKE, Bench, config


def test_the_function_travels_as_the_last_argument() -> None:
    settings = config(2).to_json()
    assert target_of(agent_command(settings, Path("both"))) == FIT
    assert target_of(agent_command(settings, Path("both"), FAKE)) == FAKE
    assert agent_command(settings, Path("both"), FAKE)[-1] == argument(FAKE)
    assert target_of(["runs/both"]) == FIT
    assert load("math:sqrt")(9) == 3


def test_environment_variable_does_not_change_the_worker_function(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GNNQLAB_FIT", "tests.launch.nowhere:fit")
    assert bench.launch(1).wait().status == "finished"


def test_the_agent_does_not_warn_of_the_fork_that_it_is_there_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the warning of Python 3.12 and later about forks while torchrun's threads run, and no other one."""
    from torch.distributed import run as torchrun

    from gnnqlab.launch import agent

    def forks(arguments: list[str]) -> None:
        warnings.warn(
            "This process (pid=7) is multi-threaded, use of fork() may lead to deadlocks in the child.",
            DeprecationWarning,
            stacklevel=1,
        )
        warnings.warn("another", DeprecationWarning, stacklevel=1)

    monkeypatch.setattr(torchrun, "main", forks)
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert agent.main([]) == 0
    assert [str(each.message) for each in seen] == ["another"]
