"""The reference: a page for each room of public names, under the names that users write."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import inspect
import types
import typing
from collections.abc import Callable, Iterator

import gnnqlab

__all__ = ["front_door", "pages", "reference_of", "rooms", "without_checks"]

_TITLES = {
    "graph": "Graphs",
    "partition": "Cuts",
    "exchange": "Exchanges and schedules",
    "halo": "Halo exchange for any model",
    "message": "Messages: codecs, samplers, caches",
    "bits": "Bit-widths",
    "compute": "Precision of products",
    "systems": "Systems",
    "nn": "Models",
    "train": "Settings of a run",
    "launch": "Runs",
    "testing": "Tests of your own models",
    "tune": "Tuning",
    "theory": "Theory",
    "lab": "Views, comparison, tuner",
    "course": "Course: players, exercises, errata",
    "results": "Kept measurements",
    "simulation": "Simulation",
}
_FURTHER_FUNCTIONS = {"launch": ("on_machines", "resume_on_machines", "cleanup")}
"""Callable module -> its other functions that users call."""
_FURTHER_MODULES = ("halo",)
"""Modules with public names that `gnnqlab.__all__` leaves to them; each is on the page of its room."""
_CLASS = ":members:\n:inherited-members:"


def _verb(room: types.ModuleType) -> Callable[..., object]:
    """What a room does that can be called: ``gq.launch`` is a room with a verb."""
    home, name = vars(room)["_verb"]
    return getattr(importlib.import_module(home), name)


def front_door() -> dict[str, types.ModuleType]:
    """Return modules by name, ``gq`` and those below it, in which every public name is what it does."""
    gq = types.ModuleType("gq", gnnqlab.__doc__)
    found = {"gq": gq}
    for name in gnnqlab.__all__:
        value = getattr(gnnqlab, name)
        if isinstance(value, types.ModuleType) and callable(value):
            value = _verb(value)
        elif isinstance(value, types.ModuleType):
            found |= {f"gq.{name}{part}": module for part, module in _below(value)}
        setattr(gq, name, value)
    for name in _FURTHER_MODULES:
        found[f"gq.{name}"] = getattr(gnnqlab, name)
        setattr(gq, name, found[f"gq.{name}"])
    return found


def without_checks() -> None:
    """Leave out what settings are checked by: ``Annotated[int, Range(...)]`` is an int to a reader.

    Nothing is checked in this process any more: for the one that writes the site, and no other.
    """
    for module in front_door().values():
        for kind in (getattr(module, name) for name in getattr(module, "__all__", vars(module))):
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                _plain(kind)


def _plain(kind: type) -> None:
    for holder in (kind, kind.__init__):
        with contextlib.suppress(NameError):  # types that are imported for type checkers alone
            hints = typing.get_type_hints(holder)
            own = holder.__annotations__
            own.update({name: hints[name] for name in own if "Annotated" not in str(hints[name])})


def _below(module: types.ModuleType) -> Iterator[tuple[str, types.ModuleType]]:
    """Yield a module and its public ones, with what their names have behind that of the first."""
    yield "", module
    for name in module.__all__:
        if isinstance(inner := getattr(module, name), types.ModuleType):
            yield f".{name}", inner


def reference_of(target: str) -> str | None:
    """Return the documented name of what a docstring refers to, by whichever path, if it is a public one."""
    parts = target.split(".")
    for place, part in enumerate(parts):
        if part in gnnqlab.__all__ and (part[0].isupper() or place == len(parts) - 1):
            return ".".join(["gq", *parts[place:]])
        for name in gnnqlab._MODULES if part[:1].isupper() else ():
            if part in getattr(gnnqlab, name).__all__:
                return ".".join(["gq", name, *parts[place:]])
        for name in _FURTHER_MODULES:
            if part in getattr(gnnqlab, name).__all__:
                return ".".join(["gq", name, *parts[place:]])
    return None


def rooms() -> dict[str, list[str]]:
    """Return the public names by the room they come from."""
    found: dict[str, list[str]] = {room: [] for room in _TITLES}
    for name in sorted(gnnqlab.__all__, key=str.lower):
        found.setdefault((gnnqlab._HOMES | gnnqlab._MODULES)[name].split(".")[1], []).append(name)
    return {room: names for room, names in found.items() if names}


def pages() -> dict[str, str]:
    """Return the pages of the reference as Markdown, by path."""
    modules = front_door()
    made = {f"reference/{room}.md": _page(room, names, modules) for room, names in rooms().items()}
    listed = "\n".join(room for room in rooms())
    made["reference/index.md"] = (
        "# Reference\n\n`import gnnqlab as gq` shows these names; all that is public of them is here. Names that are "
        "not here may change.\n\n```{toctree}\n:maxdepth: 1\n\n" + listed + "\n```\n"
    )
    return made


def _page(room: str, names: list[str], modules: dict[str, types.ModuleType]) -> str:
    text = [f"# {_TITLES.get(room, room)}\n"]
    for name in names:
        if f"gq.{name}" in modules:
            for path, module in modules.items():
                if path == f"gq.{name}" or path.startswith(f"gq.{name}."):
                    text.append(_module(path, module))
        else:
            text.append(_directive(f"gq.{name}", getattr(modules["gq"], name)))
        if name in _FURTHER_FUNCTIONS:
            module = importlib.import_module(f"gnnqlab.{name}")
            text += [_function(f"gq.{name}.{each}", getattr(module, each)) for each in _FURTHER_FUNCTIONS[name]]
    if room in _FURTHER_MODULES:
        text.append(_module(f"gq.{room}", modules[f"gq.{room}"]))
    return "\n".join(text)


def _module(path: str, module: types.ModuleType) -> str:
    if callable(module):
        text = [f"## `{path}`\n", _function(path, _verb(module))]
    else:
        text = [f"## `{path}`\n", f"{(module.__doc__ or '').strip().splitlines()[0]}\n"]
    names = [name for name in module.__all__ if name not in gnnqlab.__all__]
    parts = {name: getattr(module, name) for name in names}
    return "\n".join(
        text + [_directive(f"{path}.{name}", part) for name, part in parts.items() if not inspect.ismodule(part)]
    )


def _function(path: str, function: Callable[..., object]) -> str:
    """A function whose name is that of a module too, which only the second could be looked up by."""
    said = (inspect.getdoc(function) or "").splitlines()[0]
    signature = inspect.signature(function).replace(return_annotation=inspect.Signature.empty)
    bare = [each.replace(annotation=inspect.Parameter.empty) for each in signature.parameters.values()]
    signature = signature.replace(parameters=bare)
    return f"```{{eval-rst}}\n.. py:function:: {path}{signature}\n\n   {said}\n```\n"


def _directive(path: str, value: object) -> str:
    if isinstance(value, dict):
        names = ", ".join(f"``{key}``" for key in value)
        return f"```{{eval-rst}}\n.. py:data:: {path}\n\n   Known by name: {names}.\n```\n"
    kind, options = "autodata", ""
    if isinstance(value, type):
        kind, options = "autoclass", _CLASS
    elif callable(value):
        kind = "autofunction"
    options = "".join(f"   {line}\n" for line in options.splitlines())
    return f"```{{eval-rst}}\n.. {kind}:: {path}\n{options}```\n"
