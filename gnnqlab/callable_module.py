"""Callable modules: ``gnnqlab.partition`` is a sub-package, and ``gq.partition(graph)`` calls its main function."""

from __future__ import annotations

import importlib
import inspect
import sys
from types import ModuleType
from typing import Any

__all__ = ["make_callable"]


class _CallableModule(ModuleType):
    _verb: tuple[str, str]
    _settings: str

    def __call__(self, *arguments: Any, **settings: Any) -> Any:
        function = self._function()
        try:
            inspect.signature(function).bind(*arguments, **settings)
        except TypeError as error:  # raised here, where a short traceback of a notebook has its message first
            raise TypeError(f"{error}; call {function.__name__}{inspect.signature(function)}") from None
        return function(*arguments, **settings)

    @property
    def __signature__(self) -> inspect.Signature:
        # Read by help() and by completion in notebooks.
        if self._settings:
            signature: inspect.Signature = importlib.import_module(self._settings).with_settings(self._function())
            return signature
        return inspect.signature(self._function())

    @property
    def __doc__(self) -> str:  # type: ignore[override]
        """Signature and docstring of the function, for ``help(gq.launch)`` and ``gq.launch?``.

        Without its example, which doctest would otherwise run as one of this module, without the names it needs.
        """
        function = self._function()
        text, example, _ = (inspect.getdoc(function) or "").partition("\n\nExample:")
        hint = f"\n\nExample: see help({'.'.join(self._verb)})." if example else ""
        appendix = f"\n\n{importlib.import_module(self._settings).settings_text()}" if self._settings else ""
        return f"{function.__name__}{inspect.signature(function)}\n\n{text}{hint}{appendix}"

    def _function(self) -> Any:
        module, name = self._verb
        return getattr(importlib.import_module(module), name)  # at a call, not when the package is imported


def make_callable(package: str, home: str, name: str, *, settings: str = "") -> None:
    """Make the module ``package`` callable: a call runs ``home.name``, imported at its first use.

    Args:
        package: the module that is being imported, its ``__name__``.
        home: the module that defines the function.
        name: the function.
        settings: module with ``with_settings`` and ``settings_text``, for a function whose ``**settings`` are known;
            the signature and the help of the callable module then list them.
    """
    module = sys.modules[package]
    # Python looks up `__call__` on the class of an object, so the module needs a class of its own.
    module.__class__ = _CallableModule
    module._verb = (home, name)  # type: ignore[attr-defined]
    module._settings = settings  # type: ignore[attr-defined]
