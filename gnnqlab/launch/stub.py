"""Stub of ``gq.launch`` for editors and type checkers: one typed parameter for each setting, with its default.

After a change of a setting: ``python -c "from gnnqlab.launch.stub import write_stub; write_stub()"``.
"""

from __future__ import annotations

import inspect
import types
from pathlib import Path
from typing import Any

from gnnqlab.launch.start import launch
from gnnqlab.settings import Setting
from gnnqlab.train.config.keywords import PASSED_ON, keywords, settings_text, with_settings

__all__ = ["STUB", "stub_text", "write_stub"]

STUB = Path(__file__).with_name("launch_call.pyi")
_HEAD = '''"""Signature of ``gq.launch``, written by ``gnnqlab.launch.stub.write_stub()`` and compared by a test."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, overload

from gnnqlab.graph.convert.given import GraphLike
from gnnqlab.launch.slurm import Slurm
from gnnqlab.nn.models.registry import ModelSettings
from gnnqlab.partition.cut import Partitioner
from gnnqlab.run.run import Run
from gnnqlab.systems.system import System

class LaunchCall:
'''
_PLAIN = (bool, int, float, str, tuple, type(None))


def stub_text() -> str:
    """Return the text of the stub: one signature with all settings, and one for models and systems with others."""
    users_by_name = keywords()
    own, settings = [], []
    for parameter in with_settings(launch).parameters.values():
        users = users_by_name.get(parameter.name)
        if users is None or isinstance(parameter.annotation, str):
            if parameter.kind is inspect.Parameter.KEYWORD_ONLY and "*" not in own:
                own.append("*")
            own.append(f"{parameter.name}: {parameter.annotation}{_default_text(parameter.default)}")
        else:
            given = PASSED_ON.get(parameter.name)
            kinds = dict.fromkeys([given[0]] if given else [_type_text(setting) for _, setting in users])
            settings.append(f"{parameter.name}: {' | '.join(kinds)}{_default_text(parameter.default)}")
    text = f"{(inspect.getdoc(launch) or '').splitlines()[0]}\n\n{settings_text()}"
    lines = [
        *_signature_lines([*own, *settings], ":"),
        *_indented([f'"""{text}', '"""']),
        *_signature_lines([*own, "**settings: Any"], ": ..."),
    ]
    return _HEAD + "\n".join(lines) + "\n"


def write_stub() -> None:
    """Write the present settings to the stub."""
    STUB.write_text(stub_text(), encoding="utf-8")


def _signature_lines(parameters: list[str], end: str) -> list[str]:
    return [
        *("    @overload", "    def __call__("),
        *(f"        {each}," for each in ["self", *parameters]),
        f"    ) -> Run{end}",
    ]


def _indented(texts: list[str]) -> list[str]:
    return [f"        {line}".rstrip() for text in texts for line in text.splitlines()]


def _default_text(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return ""
    if isinstance(value, str):
        return f" = {_quote(value)}"
    return f" = {value!r}" if isinstance(value, _PLAIN) else " = ..."


def _type_text(setting: Setting) -> str:
    """Return the type of a setting as Python text; text with choices is a ``Literal``, which editors complete."""
    if setting.kind is str and setting.choices:
        text = f"Literal[{', '.join(map(_quote, setting.choices))}]"
    elif isinstance(setting.kind, types.GenericAlias | types.UnionType) or setting.kind is Any:
        text = str(setting.kind).removeprefix("typing.")
    else:
        text = setting.kind.__name__
    return f"{text} | None" if setting.optional else text


def _quote(choice: object) -> str:
    return f'"{choice}"'
