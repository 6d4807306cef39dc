"""Named exact points of a system: one axis is replaced, by direction if each has its own."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

import gnnqlab as gq
from gnnqlab.bits import ExactAt, Fixed
from gnnqlab.message.direction import ByDirection
from gnnqlab.systems import SYSTEMS, System, exact_at, fixed_bits, make_system, vanilla
from gnnqlab.systems.replaced import parts_in
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.configure import configure
from tests.cases import each


@each("name", sorted(SYSTEMS))
def test_one_axis_of_any_system_is_replaced(name):
    system = make_system(name)
    asked = exact_at(system, "forward 0", "backward", since=4)
    differ = [axis for axis in fields(System) if getattr(asked, axis.name) != getattr(system, axis.name)]
    assert {axis.name for axis in differ if axis.compare} == {"name", "bits"}
    assert asked.name == f"{name}, forward 0, backward exact from epoch 4"
    assert System.from_json(json.loads(json.dumps(asked.to_json()))) == asked


def test_each_direction_has_its_own_points():
    pair = replace(fixed_bits(), bits=(Fixed(bits=2), Fixed(bits=4)))
    assert exact_at(pair, "backward 1").bits == ByDirection(
        Fixed(bits=2), ExactAt(inner=Fixed(bits=4), points=("backward 1",))
    )
    both = exact_at(pair, "forward", "backward 1", since=2, name="mine")
    assert both.name == "mine" and both.bits.forward == ExactAt(inner=Fixed(bits=2), points=("forward",), since=2)


def test_a_codec_without_32_bits_is_refused():
    short = replace(vanilla(), codec=gq.codecs.BFloat16(), bits=Fixed(bits=16))
    with pytest.raises(ValueError, match=r"BFloat16 writes \[16\], got \[16, 32\]; choose codec Stochastic\(\)"):
        exact_at(short, "forward")


@each(("points", "text"), [((), "points must name at least one point"), (("backward1",), "got 'backward1'")])
def test_invalid_point_raises_value_error(points, text):
    for system in (fixed_bits(), replace(fixed_bits(), bits=(Fixed(bits=2), Fixed(bits=4)))):
        with pytest.raises(ValueError, match=text):
            exact_at(system, *points)


def test_a_systems_name_is_no_system():
    for named in ("adaqp", Fixed(bits=2)):
        with pytest.raises(TypeError, match="system must be a System, .*, got "):
            exact_at(named, "forward")


def test_exact_at_in_a_command_line_wraps_the_bits_of_the_system():
    parts = parts_in("bits=exact-at:points=backward 1+forward 0:since=30")
    plain = configure("digits", system="fixed-bits", bits=2)
    asked = replace(plain, system=plain.system.replace(**parts))
    assert asked.system.bits == ExactAt(inner=Fixed(bits=2), points=("backward 1", "forward 0"), since=30)
    command = command_of(asked)
    assert command is not None and "--replace 'bits=exact-at:points=backward 1+forward 0:since=30'" in command
    other = replace(plain, system=plain.system.replace())
    object.__setattr__(other.system, "bits", ExactAt(inner=Fixed(bits=4)))
    assert command_of(other) is None, "the words would mean two bits"
