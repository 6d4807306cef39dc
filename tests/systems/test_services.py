"""Services for all: their changes to a system, and its unchanged parts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gnnqlab.exchange.schedules.schedule import Overlapped
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.systems import SYSTEMS, make_system
from gnnqlab.systems.parts import PARTS
from gnnqlab.systems.services import services_of, with_every_service
from tests.cases import each


@each("name", sorted(SYSTEMS))
def test_only_schedules_that_wait_and_parameters_change(name: str) -> None:
    system = make_system(name)
    served = with_every_service(system)
    assert served.name == f"{name}+"
    changed = {axis for axis in PARTS if getattr(served, axis) != getattr(system, axis)}
    assert changed <= {"schedule", "codec"}
    if name == "feature-parallel":  # every sum needs the rows of all nodes: nothing to compute meanwhile
        assert "schedule" not in changed
    elif system.schedule.lag or name == "sar" or name.startswith("adaqp"):
        assert "schedule" not in changed or name == "adaqp-q"
    else:
        assert served.schedule == Overlapped()
    assert "float32" not in services_of(served, "bfloat16")["parameters"]


def test_each_direction_of_a_pair_gets_its_own() -> None:
    pair = replace(make_system("fixed-bits", bits=2), codec=(Stochastic(), Stochastic(parameters="bfloat16-after")))
    codec = with_every_service(pair).codec
    assert (codec.forward.parameters, codec.backward.parameters) == ("bfloat16", "bfloat16-after")
    assert with_every_service(make_system("vanilla")).codec == Float32()


def test_a_name_with_a_plus_is_a_name() -> None:
    with pytest.raises(ValueError, match="system must be one of"):
        make_system("vanilla+")
