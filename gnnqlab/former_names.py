"""Former names of settings and members: accepted with a warning until 1.0; read from older files without one."""

from __future__ import annotations

import functools
import inspect
import os
import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar, cast

from gnnqlab.settings import Setting, parameters_of, settings_in

__all__ = [
    "FormerMember",
    "accepts_former_names",
    "former_functions",
    "with_former_names",
    "with_present_names",
]

_PACKAGE = os.path.dirname(__file__) + os.sep
Target = TypeVar("Target", bound=Callable[..., Any])


class FormerMember:
    """Former name of a member of a class: gives the present member, with a warning.

    Args:
        name: present name of the member.

    Example:
        >>> class Curve:
        ...     at = FormerMember("loss_at")
        ...     def loss_at(self, age):
        ...         return age / 2
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     Curve().at(4)
        2.0
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, owner: type, former: str) -> None:
        self._former = former

    def __get__(self, instance: object, owner: type) -> Any:
        text = f"{owner.__name__}.{self._former} is {owner.__name__}.{self._name} now"
        warnings.warn(f"{text}; the former name is accepted until version 1.0", DeprecationWarning, _frames_inside())
        return getattr(owner if instance is None else instance, self._name)


def with_present_names(values: Mapping[str, Any], known: Iterable[Setting], *, warn: bool = True) -> dict[str, Any]:
    """Return settings with their present names and values.

    Args:
        values: settings by name.
        known: the settings that exist, some of them with a `gnnqlab.settings.Former`.
        warn: emit a ``DeprecationWarning`` for each former name; False for files.

    Raises:
        ValueError: if a setting is given by both names.

    Example:
        >>> from gnnqlab.settings import Former
        >>> known = [Setting(name="recompute", kind=str, former=(Former("keep", {"all": "none"}),))]
        >>> with_present_names({"keep": "all", "lr": 0.1}, known, warn=False)
        {'lr': 0.1, 'recompute': 'none'}
    """
    present_values = dict(values)
    for setting in known:
        for alias in setting.former:
            if alias.name not in present_values:
                continue
            if setting.name in present_values:
                raise ValueError(
                    f"{setting.name} must be given once, got its former name {alias.name} as well; leave that out"
                )
            value = present_values.pop(alias.name)
            present_values[setting.name] = alias.values.get(value, value) if isinstance(value, str) else value
            if warn:
                text = f"the setting {alias.name}={value!r} is {setting.name}={present_values[setting.name]!r} now"
                warnings.warn(
                    f"{text}; the former name is accepted until version 1.0", DeprecationWarning, _frames_inside()
                )
    return present_values


def with_former_names(values: Mapping[str, Any], known: Iterable[Setting]) -> dict[str, Any]:
    """Return settings with their oldest names and values, as older versions wrote them to files.

    Example:
        >>> from gnnqlab.settings import Former
        >>> known = [Setting(name="recompute", kind=str, former=(Former("keep", {"all": "none"}),))]
        >>> with_former_names({"recompute": "none"}, known)
        {'keep': 'all'}
    """
    oldest_names = {setting.name: setting.former[0] for setting in known if setting.former}
    former_values = {}
    for name, value in values.items():
        if name in oldest_names:
            old_values = {present_value: old_value for old_value, present_value in oldest_names[name].values.items()}
            former_values[oldest_names[name].name] = old_values.get(value, value) if isinstance(value, str) else value
        else:
            former_values[name] = value
    return former_values


def accepts_former_names(target: Target) -> Target:
    """Make a dataclass or a function accept the former names of its settings as keyword arguments; a decorator.

    Example:
        >>> from gnnqlab.bits import UniformRandom
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     UniformRandom(among=(8,))
        UniformRandom(bit_widths=(8,), period=50)
    """
    if inspect.isclass(target):
        target.__init__ = _translating(target.__init__, lambda: settings_in(target))  # type: ignore[misc, method-assign]
        return target
    return cast(Target, _translating(target, lambda: parameters_of(target)))


def former_functions(module: str, present: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a ``__getattr__`` for a module that finds its functions by former names, with a warning.

    Args:
        module: ``__name__`` of the module.
        present: former name -> present name.

    Example:
        >>> find = former_functions("math", {"root": "sqrt"})
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")
        ...     find("root")(4.0)
        2.0
    """

    def find(name: str) -> Any:
        if name not in present:
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        text = f"{module}.{name} is {module}.{present[name]} now; the former name is accepted until version 1.0"
        warnings.warn(text, DeprecationWarning, _frames_inside())
        return getattr(sys.modules[module], present[name])

    return find


def _translating(function: Callable[..., Any], settings: Callable[[], list[Setting]]) -> Callable[..., Any]:
    @functools.cache
    def renamed() -> tuple[list[Setting], frozenset[str]]:
        # Type hints are resolved at the first call: a module may define their names below.
        renamed_settings = [setting for setting in settings() if setting.former]
        return renamed_settings, frozenset(alias.name for setting in renamed_settings for alias in setting.former)

    @functools.wraps(function)
    def call(*arguments: Any, **keywords: Any) -> Any:
        renamed_settings, former_names = renamed()
        if not former_names.isdisjoint(keywords):
            keywords = with_present_names(keywords, renamed_settings)
        return function(*arguments, **keywords)

    return call


def _frames_inside() -> int:
    """Return the ``stacklevel`` of the first caller outside this package: Python shows warnings of user code only."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    return level
