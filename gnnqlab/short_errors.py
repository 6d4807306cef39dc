"""Short errors in a notebook: the message first, then the line of the cell, without the frames inside this package.

Only errors that the package raises on purpose are short: those of a ``raise`` statement in one of its files. An
error from anywhere else, or a bug of the package, has its whole traceback; ``%tb`` shows that of a short one, too.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
import traceback
from types import TracebackType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from IPython.core.interactiveshell import InteractiveShell

__all__ = ["install", "is_deliberate", "short_traceback"]

_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_RAISE = dis.opmap["RAISE_VARARGS"]
_KINDS = (ArithmeticError, AssertionError, AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError,
          ValueError)  # fmt: skip


def install(shell: InteractiveShell) -> None:
    """Show errors of this package shortly in a shell, unless it has a handler of its user's already."""
    if not shell.custom_exceptions:
        shell.set_custom_exc(_KINDS, _show)


def _show(
    shell: InteractiveShell,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType,
    tb_offset: Any = None,
) -> list[str] | None:
    if not is_deliberate(trace):
        shell.showtraceback((kind, error, trace), tb_offset=tb_offset)
        return None
    sys.last_type, sys.last_value, sys.last_traceback = kind, error, trace  # for %tb and %debug
    lines = short_traceback(error, trace, cell_name=shell.compile.format_code_name)
    shell._showtraceback(kind, error, lines)
    return lines


def is_deliberate(trace: TracebackType | None) -> bool:
    """Return True if the innermost frame is a ``raise`` statement in this package."""
    if trace is None:
        return False
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return code.co_filename.startswith(_PACKAGE) and code.co_code[trace.tb_lasti] == _RAISE


def short_traceback(error: BaseException, trace: TracebackType, *, cell_name: Any = None) -> list[str]:
    """Return the message, and the line of the user's code that called this package.

    Args:
        error: an error that this package raised.
        trace: its traceback.
        cell_name: function of a file's name that returns ``("Cell", "In[3]")`` for a cell, and ``None`` for a file.
    """
    lines = [f"\x1b[31m{type(error).__name__}\x1b[39m: {error}", *getattr(error, "__notes__", ())]
    caller = None
    for frame, number in traceback.walk_tb(trace):
        path = frame.f_code.co_filename
        if path.startswith(_PACKAGE):
            break
        caller = path, number
    if caller is not None:
        path, number = caller
        kind, name = (cell_name(path) if cell_name is not None else None) or ("File", path)
        source = linecache.getline(path, number).strip()
        lines.append(f"\x1b[2m{kind} {name}, line {number}: {source}\x1b[22m")
    return [*lines, "\x1b[2m%tb shows all frames\x1b[22m"]
