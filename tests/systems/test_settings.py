"""Settings of recipes: from their signatures and from the parts that they set."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import pytest

from gnnqlab.bits.policy import Fixed
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.settings import Option, Range
from gnnqlab.systems import SYSTEMS, System
from gnnqlab.systems.settings import settings_of


def test_every_recipe_setting_has_an_option_a_help_text_and_bounds():
    for recipe in SYSTEMS.values():
        for setting in settings_of(recipe):
            assert setting.option and setting.help, (recipe, setting)
            if setting.kind in (int, float):
                assert setting.choices or setting.low is not None, (recipe, setting)
            setting.check(setting.default)


def test_options_that_differ_from_their_settings():
    renamed = {
        setting.name: setting.option
        for recipe in SYSTEMS.values()
        for setting in settings_of(recipe)
        if setting.option != setting.name.replace("_", "-")
    }
    assert renamed == {
        "bound": "stale-bound",
        "p": "boundary-share",
        "attention": "boundary-attention",
        "depth": "prefetch",
    }


def test_recipe_annotations_override_those_of_its_part():
    def coarse(*, bits: Annotated[int, Range(1, 4), Option("coarse-bits"), "How coarse."] = 2) -> System:
        return replace(SYSTEMS["vanilla"](), codec=Stochastic(), bits=Fixed(bits=bits))

    (setting,) = settings_of(coarse)
    assert (setting.low, setting.high, setting.option, setting.help) == (1, 4, "coarse-bits", "How coarse.")
    assert setting.choices == (1, 2, 3, 4, 8, 16, 32)


def test_a_setting_without_default_or_part_is_one_as_well():
    def steep(*, slope: Annotated[float, Range(0, 1)], codec: Stochastic | None = None) -> System:
        raise AssertionError("a recipe that needs a setting cannot be asked without")

    slope, codec = settings_of(steep)
    assert (slope.option, slope.low) == ("slope", 0) and codec.option is None
    with pytest.raises(ValueError, match=r"slope must lie in \[0, 1\], got 2"):
        slope.check(2)
