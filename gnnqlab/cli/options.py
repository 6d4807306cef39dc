"""The options that every run shares, and the configuration they make."""

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
    from gnnqlab.train.config.run_config import RunConfig

__all__ = ["Options", "look_here"]


def look_here() -> None:
    """Find modules in the folder in which the line is typed, after all others; workers look where this process does."""
    here = os.getcwd()
    if here not in sys.path:
        sys.path.append(here)


@dataclass(kw_only=True)
class Options:
    """What every run shares. The options of training, model, launch and system are those that the settings say."""

    graph: str = "digits"
    """Name or path of a graph; `gnnqlab graphs` lists the names."""
    model: str = "gcn"
    """Model; `gnnqlab models` lists them. One of your own is module:function, its builder, found from here."""
    workers: int = 2
    """Partitions, one process each."""
    partition: str | None = None
    """Partitioner instead of the system's own: metis or random."""
    replace: str | None = None
    """Other parts on axes of the system, as cache=unchanged:tolerance=0.05,compute=bfloat16; an unknown name is
    answered with the known ones. One of your own is module:Class, found from here, as codec=my_module:MyCodec."""
    out: Path | None = None
    """Folder for runs; default: $GNNQLAB_RUNS, else runs."""
    json: bool = False
    """End standard output with one JSON object."""
    given: Annotated[dict[str, str], NO_OPTION] = field(default_factory=dict)
    """The other options by name, as they were typed: what takes one also says its type."""

    def configure(self, system: str, **settings: Any) -> RunConfig:
        """Return the configuration of one run of ``system``, with the settings of its recipe."""
        from gnnqlab.cli.sections import model_options, own_options, system_options
        from gnnqlab.systems.parts import partitioner_named
        from gnnqlab.systems.replaced import parts_in, replaced
        from gnnqlab.train.config.configure import configure

        own = [*own_options(), *model_options(self.model)]
        recipes = {setting.option for setting in system_options(system)}
        others = [setting for setting in model_options() if setting.option not in recipes]
        shared = {**self._values(others), **self._values(own)}
        config = configure(
            self.graph,
            model=self.model,
            system=system,
            workers=self.workers,
            **{**settings, **shared},
        )
        if self.replace is not None:
            look_here()
        # All at once: a cut of edges and an exchange that takes it are no system one by one.
        parts = {} if self.replace is None else parts_in(self.replace)
        if self.partition is not None:
            if "partition" in parts:
                raise ValueError(f"partition must be given once, got {self.partition!r} and {self.replace!r}")
            parts["partition"] = partitioner_named(self.partition, config.train.seed)
        return dataclasses.replace(config, system=replaced(config.system, parts)) if parts else config

    def recipe_settings(self, system: str) -> dict[str, Any]:
        """Return the settings of a system's recipe that were given.

        Raises:
            ValueError: if an option that only systems have is none of this one's.
        """
        from gnnqlab.systems.system import make_system

        takes = self.taken(system)
        strange = {name: text for name, text in self.systems_alone().items() if name not in takes}
        if strange:
            make_system(system, **strange)  # refuses them and lists what it takes
        return takes

    def taken(self, system: str) -> dict[str, Any]:
        """Return the settings among those given that a system's recipe takes."""
        from gnnqlab.cli.sections import own_options, system_options

        others = {setting.option for setting in own_options()}
        return self._values(setting for setting in system_options(system) if setting.option not in others)

    def systems_alone(self) -> dict[str, str]:
        """Return the options given that are of systems alone, by the name of the setting, as they were typed."""
        from gnnqlab.cli.sections import model_options, own_options, system_options

        others = {setting.option for setting in (*own_options(), *model_options())}
        return {
            setting.name: self.given[setting.option]
            for setting in system_options()
            if setting.option in self.given and setting.option not in others
        }

    def _values(self, takers: Iterable[Setting]) -> dict[str, Any]:
        return {
            setting.name: setting.read(self.given[setting.option], said=setting.option)
            for setting in takers
            if setting.option in self.given
        }
