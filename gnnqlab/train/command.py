"""The command line that repeats a run."""

from __future__ import annotations

import dataclasses
import inspect
import shlex

from gnnqlab.systems.system import SYSTEMS
from gnnqlab.train.config import RunConfig

__all__ = ["command_of"]


def command_of(config: RunConfig) -> str | None:
    """Return the ``gnnqlab train`` line for a configuration, with what differs from the defaults.

    Returns:
        The line, or ``None`` if the system is no registered recipe and so has no line.

    Example:
        >>> from gnnqlab.train.configure import configure
        >>> command_of(configure("digits", system="fixed-bits", bits=4, epochs=10))
        'gnnqlab train --graph digits --system fixed-bits --model gcn --workers 2 --epochs 10 --bits 4'
    """
    if config.system.name not in SYSTEMS:
        return None
    words = ["gnnqlab", "train", "--graph", config.graph, "--system", config.system.name]
    words += ["--model", config.model.name, "--workers", str(config.workers), "--epochs", str(config.train.epochs)]
    for section in (config.model, config.train, config.launch):
        for field in dataclasses.fields(section):
            value = getattr(section, field.name)
            if field.name in ("name", "epochs", "start_method", "detach") or value == field.default:
                continue
            words += [f"--{field.name.replace('_', '-')}", str(value)]
    recipe = SYSTEMS[config.system.name]
    for name, parameter in inspect.signature(recipe).parameters.items():
        axes = (config.system.bits, config.system.codec)
        value = next((getattr(axis, name) for axis in axes if hasattr(axis, name)), parameter.default)
        if value != parameter.default:
            words += [f"--{name.replace('_', '-')}", str(value)]
    usual = recipe().partition
    if config.system.partition != usual:
        words += ["--partition", type(config.system.partition).__name__.lower()]
    return shlex.join(words)
