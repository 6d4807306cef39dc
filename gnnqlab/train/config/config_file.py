"""Read ``config.json`` of a run folder as plain JSON, without building objects, so no user module is imported."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

__all__ = ["NAME", "read_config", "find_unimported_modules"]

NAME = "config.json"
_SECTIONS: dict[str, type] = {
    "graph": str,
    "workers": int,
    "system": dict,
    "model": dict,
    "train": dict,
    "launch": dict,
}


def read_config(folder: Path) -> dict[str, Any]:
    """Return the configuration in a run folder as plain JSON.

    Raises:
        ValueError: if it is not the configuration of a run; the message names the file.
    """
    path = folder / NAME
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(
            f"a run folder must hold {NAME}, got {path}: {error.strerror}; runs() lists the runs"
        ) from None
    except ValueError as error:
        raise ValueError(f"{NAME} of a run must be a JSON object, got {path}: {error}") from None
    sections = value if isinstance(value, dict) else {}
    missing_parts = [section for section, kind in _SECTIONS.items() if not isinstance(sections.get(section), kind)]
    # Lists of runs show both names.
    missing_parts += [
        f"{part}.name" for part in ("system", "model") if part not in missing_parts and "name" not in sections[part]
    ]
    if missing_parts:
        raise ValueError(
            f"{NAME} of a run must have {', '.join(_SECTIONS)}, got {path} without {', '.join(missing_parts)}"
        )
    return sections


def find_unimported_modules(value: Mapping[str, Any]) -> list[str]:
    """Return the modules of a configuration's parts and model that this process has not imported.

    Example:
        >>> parts = {"bits": {"name": "my_bits:Growing"}, "schedule": {"name": "synchronous"}}
        >>> find_unimported_modules({"system": parts})
        ['my_bits']
    """
    modules = (name.partition(":")[0] for name in _names(dict(value)))  # module:Class -> module
    return sorted({module for module in modules if module not in sys.modules})


def _names(value: dict[str, Any]) -> Iterator[str]:
    """Yield every ``module:name`` of the system's parts, also nested ones, and of the model."""
    parts = value.get("system")
    # Parts are nested, for instance one codec for each direction, or a wrapping part.
    queue = [part for part in parts.values() if isinstance(part, dict)] if isinstance(parts, dict) else []
    while queue:
        part = queue.pop()
        queue += [inner_part for inner_part in part.values() if isinstance(inner_part, dict)]
        if ":" in (name := str(part.get("name", ""))):
            yield name
    home = value.get("model_home")
    if isinstance(home, dict):
        yield from (str(home[key]) for key in ("builder", "settings") if key in home)
