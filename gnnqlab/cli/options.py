"""Options common to all runs, and the configuration built from them."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gnnqlab.settings import NO_OPTION, Setting

if TYPE_CHECKING:
    from gnnqlab.run.annotation import Annotation
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["AnnotatedOptions", "Options", "add_working_folder"]


def add_working_folder() -> None:
    """Add the working folder to the end of the module search path, which the workers inherit."""
    folder = os.getcwd()
    if folder not in sys.path:
        sys.path.append(folder)


@dataclass(kw_only=True)
class Options:
    """Options common to all runs. Those of training, model, launch and system are derived from their settings."""

    graph: str = "digits"
    """Name or path of a graph; `gnnqlab graphs` lists the names."""
    model: str = "gcn"
    """Model; `gnnqlab models` lists them. For your own model give module:function, a function
    that builds it, importable from here."""
    workers: int = 2
    """Number of partitions, one process each."""
    partition: str | None = None
    """Partitioner instead of the system's own, for instance metis or random; an unknown name shows the list."""
    replace: str | None = None
    """Other parts of the system, as AXIS=PART:SETTING=VALUE with one of the axes partition, exchange, sampler, cache,
    codec, bits, schedule and compute; for instance cache=unchanged:tolerance=0.05,compute=bfloat16. An unknown name
    shows the list. Your own part is module:Class, importable from here, as in codec=my_module:MyCodec."""
    out: Path | None = None
    """Folder for runs; default: $GNNQLAB_RUNS, else runs."""
    json: bool = False
    """End standard output with one JSON object."""
    option_texts: Annotated[dict[str, str], NO_OPTION] = field(default_factory=dict)
    """Further options by name, as text; their settings define the types."""

    def configure(self, system: str, **settings: Any) -> RunConfig:
        """Return the configuration of one run of ``system``, with the settings of that system."""
        from gnnqlab.cli.sections import model_options, own_options, system_options
        from gnnqlab.systems.parts import partitioner_named
        from gnnqlab.systems.replaced import parts_in
        from gnnqlab.train.config.configure import configure

        # Parts, objectives, optimizers and schedules may be named by a module of the working folder.
        add_working_folder()
        run_settings = [*own_options(), *model_options(self.model)]
        system_option_names = {setting.option for setting in system_options(system)}
        # Options of other models are refused by `configure`; those that the system has too are the system's.
        other_settings = [setting for setting in model_options() if setting.option not in system_option_names]
        values = {**self._values(other_settings), **self._values(run_settings)}  # the chosen model's options win
        config = configure(
            self.graph,
            model=self.model,
            system=system,
            workers=self.workers,
            **{**settings, **values},
        )
        # All parts at once: a vertex-cut and its exchange are valid only together.
        parts = {} if self.replace is None else parts_in(self.replace)
        if self.partition is not None:
            if "partition" in parts:
                raise ValueError(
                    f"partition must be given once, got --partition {self.partition} and --replace {self.replace}; "
                    "leave one out"
                )
            parts["partition"] = partitioner_named(self.partition, config.train.seed)
        return dataclasses.replace(config, system=config.system.replace(**parts)) if parts else config

    def recipe_settings(self, system: str) -> dict[str, Any]:
        """Return the given settings of a system.

        Raises:
            ValueError: if an option belongs to other systems only.
        """
        from gnnqlab.systems.registry import make_system

        recipe_values = self.select_settings(system)
        other_options = {name: text for name, text in self.system_only_options().items() if name not in recipe_values}
        if other_options:
            make_system(system, **other_options)  # raises and lists the settings of the system
        return recipe_values

    def select_settings(self, system: str) -> dict[str, Any]:
        """Return the given options that are settings of a system."""
        from gnnqlab.cli.sections import own_options, system_options

        common_options = {setting.option for setting in own_options()}
        return self._values(setting for setting in system_options(system) if setting.option not in common_options)

    def system_only_options(self) -> dict[str, str]:
        """Return the given options that only systems have, by the name of the setting, as text."""
        from gnnqlab.cli.sections import model_options, own_options, system_options

        common_options = {setting.option for setting in (*own_options(), *model_options())}
        return {
            setting.name: self.option_texts[setting.option]
            for setting in system_options()
            if setting.option in self.option_texts and setting.option not in common_options
        }

    def _values(self, settings: Iterable[Setting]) -> dict[str, Any]:
        return {
            setting.name: setting.read(self.option_texts[setting.option], label=setting.option)
            for setting in settings
            if setting.option in self.option_texts
        }


@dataclass(kw_only=True)
class AnnotatedOptions(Options):
    """Options of commands that train runs which their user may name."""

    name: str = ""
    """A short text about the run for lists."""
    tags: str = ""
    """Short texts that several runs share, separated by commas; `gnnqlab runs --tag` lists their runs."""
    note: str = ""
    """A text about the run."""

    @property
    def annotation(self) -> Annotation:
        """Name, tags and note of the runs."""
        from gnnqlab.run.annotation import Annotation

        return Annotation(self.name, tuple(tag for tag in self.tags.split(",") if tag), self.note)
