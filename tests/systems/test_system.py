"""Systems: completion, refusals, replacement, and equality after a conversion to JSON and back."""

from __future__ import annotations

import inspect
import json
from dataclasses import FrozenInstanceError, dataclass, is_dataclass, replace

import pytest

import gnnqlab as gq
from gnnqlab.exchange import Synchronous
from gnnqlab.systems import System, make_system, register_system
from gnnqlab.systems.parts import PARTS, part_from_json, part_to_json


def test_a_variant_is_one_replaced_axis():
    system = replace(gq.systems.vanilla(), partition=gq.partitioners.Random(seed=3))
    assert system.codec == gq.codecs.Float32() and system.partition == gq.partitioners.Random(seed=3)


def test_the_stochastic_codec_writes_every_width():
    assert replace(gq.systems.vanilla(), codec=gq.codecs.Stochastic()).bits == gq.bits.Fixed(bits=32)
    assert replace(gq.systems.vanilla(), codec=gq.codecs.Stochastic(), bits=gq.bits.Fixed(bits=16)).bits.choices == (
        16,
    )


def test_unknown_names_list_the_known_ones():
    with pytest.raises(ValueError, match=r"system must be one of \[.*'vanilla'.*\], got 'vanila'"):
        make_system("vanila")
    with pytest.raises(ValueError, match=r"system 'fixed-bits' takes \['bits', 'parameters'\], got \['lam'\]"):
        make_system("fixed-bits", lam=0.5)
    with pytest.raises(ValueError, match="system 'vanilla' takes no settings"):
        make_system("vanilla", bits=2)
    with pytest.raises(
        ValueError, match=r"codec must be one of \['bfloat16', 'float32', .*'stochastic'\] or module:Class, got 'zip'"
    ):
        part_from_json("codec", {"name": "zip"})
    with pytest.raises(ValueError, match=r"bits 'fixed' has the settings \['bits'\], got \['width'\]"):
        part_from_json("bits", {"name": "fixed", "width": 2})
    with pytest.raises(ValueError, match="a system has the axes"):
        System.from_json({"name": "x", "colour": {"name": "red"}})


@dataclass(frozen=True)
class OwnSchedule:
    """A part from outside the package."""

    delay: int = 1

    def build(self):
        return Synchronous()


def test_a_part_of_your_own_is_found_by_import():
    system = replace(gq.systems.vanilla(), schedule=OwnSchedule(delay=2))
    value = system.to_json()
    assert value["schedule"] == {"name": f"{__name__}:OwnSchedule", "delay": 2}
    assert System.from_json(value) == system


def test_a_part_from_a_notebook_cell_is_refused_with_the_way_out():
    kind = type("Own", (OwnSchedule,), {"__module__": "__main__"})
    with pytest.raises(ValueError, match="Own is defined in a notebook cell or script.*move it to a module"):
        part_to_json("schedule", kind())


def test_a_second_registration_is_an_error():
    def vanilla():
        return gq.systems.vanilla()

    with pytest.raises(ValueError, match="'vanilla' is registered already"):
        register_system(vanilla)


def test_as_released_does_both_things_that_the_published_code_does():
    released = gq.systems.adaqp(as_released=True)
    assert released.bits.as_released and released.codec == gq.codecs.Stochastic(parameters="bfloat16-after")
    assert not gq.systems.adaqp().bits.as_released and gq.systems.adaqp().codec == gq.codecs.Stochastic()
    assert System.from_json(json.loads(json.dumps(released.to_json()))) == released
    with pytest.raises(ValueError, match="as_released sends parameters 'bfloat16-after', got 'bfloat16'"):
        gq.systems.adaqp(as_released=True, parameters="bfloat16")


def test_its_signature_names_the_parts_of_a_plain_system() -> None:
    said = inspect.signature(System)
    assert "<factory>" not in str(said) and "codec: 'Codec' = Float32()" in str(said)
    for axis in PARTS:
        part = said.parameters[axis].default
        assert is_dataclass(part) and hash(part) == hash(type(part)()), "shared, so it must not change"
        with pytest.raises(FrozenInstanceError):
            part.anything = 1


def test_defaults_of_recipes_are_the_settings_of_their_papers() -> None:
    """AdaQP Table 8; BNS-GCN and PipeGCN as in SYLVIE's comparison; CDFGNN sections 4.1 and 6; SYLVIE Fig. 7."""
    adaqp = make_system("adaqp").bits
    assert (adaqp.group_size, adaqp.period, adaqp.lam, adaqp.bit_widths) == (100, 50, 0.5, (2, 4, 8))
    cdfgnn = make_system("cdfgnn")
    assert (cdfgnn.partition.gamma, cdfgnn.partition.alpha, cdfgnn.partition.beta) == (0.1, 1.0, 1.0)
    cache = cdfgnn.cache
    assert (cache.mu1, cache.mu2, cache.nu1, cache.nu2, cache.xi) == (0.001, 0.02, 0.3, 0.001, 0.01)
    assert (cache.lambda1, cache.lambda2, cache.memory, cache.totals) == (1.05, 0.9, 0.8, "active")
    assert cdfgnn.bits == gq.bits.Fixed(bits=8)
    assert make_system("bns-gcn").sampler.p == 0.1
    pipelined = make_system("pipegcn").schedule
    assert (pipelined.feature_smoothing, pipelined.gradient_smoothing) == (0.0, 0.0)
    assert make_system("sylvie").bits.bit_widths == (1, 2, 4, 8)
    assert make_system("random-bits").bits.bit_widths == (2, 4, 8)
