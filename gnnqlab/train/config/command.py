"""The command line that repeats a run."""

from __future__ import annotations

import dataclasses
import shlex
from typing import Any

from gnnqlab.nn.models.registry import word_for
from gnnqlab.settings import settings_in
from gnnqlab.systems.parts import PARTS, partitioner_named
from gnnqlab.systems.registry import SYSTEMS, make_system
from gnnqlab.systems.replaced import words_of
from gnnqlab.systems.settings import settings_of
from gnnqlab.train.config.run_config import RunConfig

__all__ = ["command_of"]


def command_of(config: RunConfig) -> str | None:
    """Return the ``gnnqlab train`` command of a configuration: its recipe's settings, and all values but defaults.

    Returns:
        The command, or ``None`` if there is none for this run: its system is not made by a registered recipe, a
        setting has no option, or its model is registered in this process only.

    Example:
        >>> from gnnqlab.train.config.configure import configure
        >>> command_of(configure("digits", system="fixed-bits", bits=4, epochs=10))
        'gnnqlab train --graph digits --system fixed-bits --model gcn --workers 2 --epochs 10 --bits 4'
    """
    recipe, model = config.system.recipe, word_for(config.model.name)
    if recipe is None or recipe.name not in SYSTEMS or model is None:
        return None
    words = ["gnnqlab", "train", "--graph", config.graph, "--system", recipe.name]
    words += ["--model", model, "--workers", str(config.workers), "--epochs", str(config.train.epochs)]
    # Defaults to compare with: only values that differ from them become options.
    default_config = RunConfig(graph=config.graph, system=config.system)
    words += _changed_options(config.model, type(config.model)(name=config.model.name))
    words += _changed_options(config.train, dataclasses.replace(default_config.train, epochs=config.train.epochs))
    words += _changed_options(config.launch, default_config.launch)
    words += _changed_options(config.task, default_config.task)
    known_settings = {setting.name: setting for setting in settings_of(SYSTEMS[recipe.name])}
    # A recipe setting without an option cannot be repeated on the command line.
    if any(name not in known_settings or known_settings[name].option is None for name in recipe.settings):
        return None
    words += [word for name, value in recipe.settings.items() for word in known_settings[name].words(value)]
    # Parts that the recipe does not make, named by --partition or --replace.
    recipe_system, seed = make_system(recipe.name, **recipe.settings), config.train.seed
    changed_axes = [axis for axis in PARTS if getattr(config.system, axis) != getattr(recipe_system, axis)]
    partition_names = [name for name in PARTS["partition"] if partitioner_named(name, seed) == config.system.partition]
    if "partition" in changed_axes and partition_names:
        words += ["--partition", *partition_names]
        changed_axes.remove("partition")
    # None stands for a part that has no text, for instance an object of a local class.
    part_texts = [words_of(axis, getattr(config.system, axis), getattr(recipe_system, axis)) for axis in changed_axes]
    if None in part_texts or config.system.name != recipe_system.name:
        return None
    if part_texts:
        words += ["--replace", ",".join(map(str, part_texts))]
    return shlex.join(words)


def _changed_options(section: Any, defaults: Any) -> list[str]:
    """Return the options for the settings of a section that differ from its defaults."""
    words: list[str] = []
    for setting in settings_in(type(section)):
        value = getattr(section, setting.name)
        if setting.option is not None and value != getattr(defaults, setting.name):
            words += setting.words(value)
    return words
