"""The command line that repeats a run."""

from __future__ import annotations

import dataclasses
import inspect
import shlex
from typing import Any

from gnnqlab.partition.edge_cut import METIS, Random
from gnnqlab.systems.system import SYSTEMS, make_system
from gnnqlab.train.config import RunConfig

__all__ = ["command_of"]

_OPTIONS = {
    "bits": "--bits",
    "lam": "--lam",
    "group_size": "--group-size",
    "period": "--period",
    "among": "--widths",
    "when": "--when",
    "as_released": "--as-released",
    "parameters": "--parameters",
    "feature_smoothing": "--feature-smoothing",
    "gradient_smoothing": "--gradient-smoothing",
    "delta": "--delta",
    "momentum": "--momentum",
    "formula": "--formula",
    "bound": "--stale-bound",
    "p": "--boundary-share",
    "attention": "--boundary-attention",
}
"""Setting of recipes -> the option that the command line has for it."""
_NO_OPTIONS = {
    "name",
    "epochs",
    "start_method",
    "detach",
    "vanilla_share",
    "group_timeout_s",
    "stall_report_s",
    "stall_stop_s",
}
"""Settings of a run that it has none for, or that are said otherwise."""


def command_of(config: RunConfig) -> str | None:
    """Return the ``gnnqlab train`` line for a configuration, with what differs from the defaults.

    Returns:
        The line, or ``None`` if none makes this system: it is no registered recipe, or was changed without option.

    Example:
        >>> from gnnqlab.train.configure import configure
        >>> command_of(configure("digits", system="fixed-bits", bits=4, epochs=10))
        'gnnqlab train --graph digits --system fixed-bits --model gcn --workers 2 --epochs 10 --bits 4'
    """
    if config.system.name not in SYSTEMS:
        return None
    words = ["gnnqlab", "train", "--graph", config.graph, "--system", config.system.name]
    words += ["--model", config.model.name, "--workers", str(config.workers), "--epochs", str(config.train.epochs)]
    plain = RunConfig(graph=config.graph, system=config.system)
    for section, usual_section in (
        (config.model, plain.model),
        (config.train, plain.train),
        (config.launch, plain.launch),
    ):
        for field in dataclasses.fields(section):
            value = getattr(section, field.name)
            if field.name in _NO_OPTIONS or value == getattr(usual_section, field.name):
                continue
            words += [f"--{field.name.replace('_', '-')}", str(value)]
    settings = _settings_of(config)
    usual = make_system(config.system.name, **settings)
    words += [word for name, value in settings.items() for word in _words(_OPTIONS.get(name, name), value)]
    partition = config.system.partition
    if partition != usual.partition:
        words += ["--partition", type(partition).__name__.lower()]
    if not set(settings) <= set(_OPTIONS) or partition not in (
        usual.partition,
        METIS(),
        Random(seed=config.train.seed),
    ):
        return None
    if dataclasses.replace(usual, partition=partition) != config.system:
        return None
    return shlex.join(words)


def _words(option: str, value: Any) -> list[str]:
    """Return an option and its value; one that is on or off has none, several numbers have commas between."""
    if value is True:
        return [option]
    return [option, ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]


def _settings_of(config: RunConfig) -> dict[str, Any]:
    """Return what the recipe must be told to make this system, where that differs from its defaults."""
    axes = (config.system.sampler, config.system.bits, config.system.codec, config.system.schedule)
    settings = {}
    for name, parameter in inspect.signature(SYSTEMS[config.system.name]).parameters.items():
        value = next((getattr(axis, name) for axis in axes if hasattr(axis, name)), parameter.default)
        if value != parameter.default:
            settings[name] = value
    return settings
