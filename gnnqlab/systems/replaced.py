"""Text form of a replaced part, ``cache=unchanged:tolerance=0.05``, for the command line."""

from __future__ import annotations

import dataclasses
from typing import Any

from gnnqlab.by_name import did_you_mean, load, name_of
from gnnqlab.settings import settings_in
from gnnqlab.systems.parts import PARTS, wraps

__all__ = ["parts_in", "words_of"]


def parts_in(text: str) -> dict[str, Any]:
    """Parse replaced parts: axes separated by commas, each setting of a part after a colon; return axis -> part.

    A part outside this package is given as ``codec=my_module:MyCodec``: no ``=`` follows its first colon.

    Raises:
        ValueError: if an axis, a part, a setting or a value is unknown; the message lists the known ones.

    Example:
        >>> parts_in("cache=unchanged:tolerance=0.05,schedule=overlapped")
        {'cache': Unchanged(tolerance=0.05, differences=False), 'schedule': Overlapped()}
    """
    parts: dict[str, Any] = {}
    for piece in text.split(","):
        axis, sign, value = (word.strip() for word in piece.partition("="))
        if not sign or axis not in PARTS:
            rule = f"an axis to replace must be written AXIS=PART, AXIS one of {list(PARTS)}"
            raise ValueError(f"{rule}, got {piece!r}{did_you_mean(axis, PARTS) if axis not in PARTS else ''}")
        if axis in parts:
            raise ValueError(f"{axis} must be given once, got {text!r}")
        parts[axis] = _part(axis, value)
    return parts


def words_of(axis: str, part: Any, usual: Any = None) -> str | None:
    """Format a part as text for :func:`parts_in`; ``None`` if its class cannot be imported or a setting has no text.

    Args:
        axis: the axis of the part.
        part: the part.
        usual: the part that the system has by default; a wrapping part has a text only if it wraps this one.

    Example:
        >>> from gnnqlab.message.caches.cache import Unchanged
        >>> words_of("cache", Unchanged(tolerance=0.05))
        'cache=unchanged:tolerance=0.05'
    """
    # The text of a wrapping part has only its own settings; the wrapped part must be the system's.
    if usual is not None and wraps(part):
        if part != part.wrap(usual):
            return None
        part = part.wrap(type(part)().inner)  # with the default inside, so that `inner` is unchanged
    kind = type(part)
    try:
        # A registered name, else module:Class.
        name = next((name for name, part_class in PARTS[axis].items() if part_class is kind), None) or name_of(kind)
    except ValueError:
        return None
    settings = settings_in(kind)
    # defaults are left out
    changed_settings = [setting for setting in settings if getattr(part, setting.name) != setting.default]
    if any(setting.option is None or getattr(part, setting.name) is None for setting in changed_settings):
        return None
    # Commas separate axes, so elements of a setting are joined with a plus sign.
    texts = [
        f"{setting.name}={setting.write(getattr(part, setting.name), between='+')}" for setting in changed_settings
    ]
    return ":".join([f"{axis}={name}", *texts])


def _part(axis: str, text: str) -> Any:
    name, *settings = (word.strip() for word in text.split(":"))
    if name in PARTS[axis]:
        kind = PARTS[axis][name]
    elif settings and "=" not in settings[0]:  # module:Class, not a setting
        name = f"{name}:{settings.pop(0)}"
        kind = _own_class(axis, name)
    else:
        known_parts = f"{sorted(PARTS[axis])} or module:Class"
        raise ValueError(f"{axis} must be one of {known_parts}, got {name!r}{did_you_mean(name, PARTS[axis])}")
    known_settings = {field.name: field for field in settings_in(kind)}
    readable_settings = {
        former_setting.name: field for field in known_settings.values() for former_setting in field.former
    } | known_settings
    values: dict[str, Any] = {}
    for word in settings:
        setting, sign, value = (piece.strip() for piece in word.partition("="))
        setting = setting.replace("-", "_")  # both spellings, as for command-line options
        if not sign or setting not in readable_settings:
            settings_text = f"the settings {sorted(known_settings)}" if known_settings else "no settings"
            raise ValueError(
                f"{axis} {name} takes {settings_text}, written NAME=VALUE, got {word!r}"
                f"{did_you_mean(setting, known_settings)}"
            )
        values[setting] = readable_settings[setting].read(value, label=f"{setting} of {name}", between="+")
    return kind(**values)


def _own_class(axis: str, name: str) -> type:
    """Import the dataclass ``module:Class``."""
    try:
        kind = load(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{axis} of your own must be module:Class, importable from here, got {name!r}: {error}"
        ) from error
    if not (isinstance(kind, type) and dataclasses.is_dataclass(kind)):
        raise ValueError(f"{axis} of your own must be a dataclass, written module:Class, got {name!r}: {kind!r}")
    return kind
