"""Members of parts that parts of other axes use: typed members of a base class for each axis, never ``getattr``."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from dataclasses import dataclass, fields, make_dataclass, replace
from pathlib import Path
from typing import Any

import pytest

import gnnqlab as gq
from gnnqlab.axis_part import complete, missing
from gnnqlab.bits.policy import BitPolicy
from gnnqlab.compute import Products
from gnnqlab.exchange.schedules.schedule import Runner
from gnnqlab.message.caches.cache import Chooser, RunningCache
from gnnqlab.message.codecs.base import Codec
from gnnqlab.partition.cut import Cut
from gnnqlab.systems.parts import BASES, PARTS
from tests.cases import each

ROOT = Path(gq.__file__).parent
AXES = ("partition", "bits", "message", "exchange", "compute", "systems")
RUNNING = (BitPolicy, Chooser, Cut, Products, Runner, RunningCache)
# Used on objects that are no part of an axis: a solver's result, a shard's own clock, a transport.
OTHERS = {
    ("bits/assigner/full_duplex.py", "mip_dual_bound"),
    ("bits/assigner/descent.py", "extract_s"),
    ("bits/assigner/reference.py", "mip_dual_bound"),
    ("message/channels/channel.py", "prepost"),
    ("message/transport/paced.py", "prepost"),
}


def members(base: type) -> set[str]:
    """Return the public members of a base class, those without a value included."""
    annotated = {name for kind in base.__mro__ for name in inspect.get_annotations(kind)}
    return {name for name in {*dir(base), *annotated} if not name.startswith("_")}


def asked() -> Iterator[tuple[str, int, str]]:
    """Yield file, line and name of every ``getattr`` and ``hasattr`` in the package with a literal name."""
    for path in sorted(ROOT.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name) or len(node.args) < 2:
                continue
            name = node.args[1]
            if node.func.id in ("getattr", "hasattr") and isinstance(name, ast.Constant):
                yield str(path.relative_to(ROOT)), node.lineno, name.value


def test_no_member_of_a_part_is_read_by_getattr_or_hasattr() -> None:
    known = {name for base in (*BASES.values(), *RUNNING) for name in members(base)}
    known |= {field.name for kinds in PARTS.values() for kind in kinds.values() for field in fields(kind)}
    assert {"takes_cuts_of", "weighs_rows", "send_view", "dropped_by", "of_blocks", "remade", "cuts", "p"} <= known
    assert [each for each in asked() if each[2] in known] == []


def test_axis_packages_use_getattr_and_hasattr_only_for_known_exceptions() -> None:
    assert {(file, name) for file, _, name in asked() if file.split("/")[0] in AXES} == OTHERS


def test_every_part_derives_from_the_base_class_of_its_axis() -> None:
    assert set(BASES) == set(PARTS)
    for axis, kinds in PARTS.items():
        for name, kind in kinds.items():
            assert issubclass(kind, BASES[axis]) and not missing(kind(), BASES[axis]), (axis, name)


def test_every_member_of_a_base_class_has_a_docstring() -> None:
    for base in BASES.values():
        for name in members(base):
            member = inspect.getattr_static(base, name, None)
            if callable(member) or isinstance(member, property | classmethod):
                assert inspect.getdoc(getattr(base, name)), (base.__name__, name)


@each("axis", sorted(PARTS))
def test_a_part_without_methods_is_refused_when_the_system_is_made(axis: str) -> None:
    empty = make_dataclass("Empty", [], frozen=True)()
    with pytest.raises(ValueError, match=rf"{axis} must be a part of that axis.*got Empty\(\) without .*; choose"):
        replace(gq.systems.vanilla(), **{axis: empty})


@dataclass(frozen=True)
class EightBits:
    """Bits without the base class."""

    choices = (8,)

    def version(self, epoch):
        return 0

    def widths(self, rows, epoch):
        return 8


@dataclass(frozen=True)
class EveryOther:
    """Sampler without the base class."""

    p = 0.5
    rescale = 2.0
    attention = "weights"

    def sampled_positions(self, ids, *, holder, seed, epoch):
        return (ids % 2 == 0).nonzero().flatten()


@dataclass(frozen=True)
class Nothing:
    """Cache without the base class."""

    def build(self):
        return None


@dataclass(frozen=True)
class Evenly:
    """Partitioner without the base class."""

    def cut(self, graph, workers):
        return gq.partitioners.Random(seed=2).cut(graph, workers)


@dataclass(frozen=True)
class InStep:
    """Schedule without the base class; the object that it builds has none either."""

    def build(self):
        return _Steps()


class _Steps:
    def run(self, step, place):
        gq.schedules.Synchronous().run(step, place)

    def release(self):
        """Do nothing: no message is deferred."""

    def drain(self):
        """Do nothing: no message is under way."""


@dataclass(frozen=True)
class Plain:
    """Compute without the base class."""

    def build(self, device="cpu"):
        return gq.systems.vanilla().compute.build(device)


OWN: dict[str, Any] = {
    "partition": Evenly(), "sampler": EveryOther(), "cache": Nothing(), "bits": EightBits(), "schedule": InStep(),
    "compute": Plain(),
}  # fmt: skip


@each("axis", sorted(OWN))
def test_a_part_without_the_base_class_trains(axis: str) -> None:
    parts = {axis: OWN[axis], **({"codec": gq.codecs.Stochastic()} if axis == "bits" else {})}
    system = replace(gq.systems.vanilla(), **parts)
    own = getattr(system, axis)
    assert own.steerable == () and own.refuses(system) == "" and own.on_hosts(2) is own
    losses = gq.simulate("sbm:60,3,6", system=system, workers=2, layers=2, hidden=8, epochs=2).losses
    usual = gq.simulate("sbm:60,3,6", system="vanilla", workers=2, layers=2, hidden=8, epochs=2).losses
    assert losses == pytest.approx(usual, rel=0.3)
    assert (losses == usual) == (axis in ("cache", "schedule", "compute"))


def test_complete_does_not_replace_existing_attributes() -> None:
    class Mine:
        steerable = ("share",)

        def __init__(self) -> None:
            self.wraps = "mine"

    mine = Mine()
    complete(mine, BASES["cache"])
    assert (mine.steerable, mine.wraps, mine.of_blocks) == (("share",), "mine", False)  # type: ignore[attr-defined]


@pytest.mark.parametrize("derived", [True, False])
def test_a_former_name_of_a_member_is_read_with_a_warning(derived: bool) -> None:
    members = {"encode_rows": None, "decode_rows": None, "fades_from": 3}
    with pytest.warns(DeprecationWarning, match="Mine.fades_from is called min_contractive_bits now"):
        kind = type("Mine", (Codec,) if derived else (), members)
        complete(kind(), Codec)
    assert kind.min_contractive_bits == 3
