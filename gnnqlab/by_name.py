"""Look-ups by name: classes and functions as ``module:name``, which other processes can import, and suggestions for
misspelled words of a list.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

__all__ = ["closest_words", "did_you_mean", "function_of", "load", "module_of", "name_of"]


def load(name: str) -> Any:
    """Return the object named by ``module:name``; the module may be written as its file ``folder/module.py``.

    Raises:
        ImportError: if the module does not exist.
        ValueError: if a file is not in or under the present folder.
        AttributeError: if the module has no such object.

    Example:
        >>> load("math:sqrt")(9)
        3.0
    """
    module, _, path = name.partition(":")
    return functools.reduce(getattr, path.split("."), importlib.import_module(module_of(module)))  # also Outer.Inner


def function_of(setting: str, name: str, known: Iterable[str], arguments: str) -> Any:
    """Return the user's function that a setting names as ``module:function``.

    Args:
        setting: its name, for errors.
        name: value of the setting.
        known: values that are no functions, for errors.
        arguments: those of the function, for errors.

    Raises:
        ValueError: if there is no such function.

    Example:
        >>> function_of("lr_schedule", "math:pow", ["constant"], "(epoch, epochs)")(2, 3)
        8.0
    """
    try:
        if ":" not in name:
            raise AttributeError("it is not one of them, and has no colon")
        function = load(name)
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"{setting} must be one of {', '.join(known)}, or a function of {arguments} as module:function, got "
            f"{name!r}: {error}"
        ) from error
    if not callable(function):
        raise ValueError(f"{setting} must name a function of {arguments}, got {name!r}, a {type(function).__name__}")
    return function


def module_of(text: str) -> str:
    """Return the name of a module from its name or its file, relative to the present folder.

    Raises:
        ValueError: if the file is outside the present folder, which has no name to import.

    Example:
        >>> module_of("./models/my_net.py"), module_of("models.my_net")
        ('models.my_net', 'models.my_net')
    """
    if not text.endswith(".py") and "/" not in text:
        return text
    file = Path(text)
    relative_path = os.path.relpath(file.with_suffix("") if file.suffix == ".py" else file)
    if relative_path.startswith(os.pardir):
        raise ValueError(
            f"a module's file must be in this folder, got {text!r}; write {file.stem} instead, with its folder on "
            "PYTHONPATH"
        )
    return ".".join(Path(relative_path).parts)


def name_of(kind: Any) -> str:
    """Return the name ``module:name`` of a class or function, for :func:`load`.

    Raises:
        ValueError: if other processes cannot import it.

    Example:
        >>> from fractions import Fraction
        >>> name_of(Fraction)
        'fractions:Fraction'
    """
    # A worker is a new process: its __main__ is another module, and local names do not exist there.
    if kind.__module__ == "__main__" or "<locals>" in kind.__qualname__:
        place = "a function" if "<locals>" in kind.__qualname__ else "a notebook cell or script"
        raise ValueError(
            f"{kind.__name__} is defined in {place}, where workers cannot import it; move it to a module (a .py file "
            "next to the notebook) and import it from there"
        )
    return f"{kind.__module__}:{kind.__qualname__}"


def did_you_mean(name: Any, known: Iterable[str]) -> str:
    """Return an error suffix with the known word closest to an unknown one; empty if none is similar.

    Example:
        >>> did_you_mean("Metsi", ["metis", "random"]), did_you_mean("gnc", ["sgc", "gcn"])
        ('; did you mean metis', '; did you mean gcn')
    """
    return "".join(f"; did you mean {word}" for word in closest_words(str(name), known, limit=1))


def closest_words(name: str, known: Iterable[str], *, limit: int = 3, edits: int | None = None) -> list[str]:
    """Return the known words that a misspelled one may stand for, closest first, compared without case.

    An edit is a letter inserted, deleted or replaced, or two neighbours swapped. Of equally distant words the one with
    the same first letter is first.

    Args:
        name: the unknown word.
        known: the known words.
        limit: largest number of words.
        edits: largest number of edits. By default a third of the longer word's letters; if no word is as near, a word
            that contains ``name`` from the start of one of its parts counts.

    Example:
        >>> closest_words("coar", ["cora", "citeseer"]), closest_words("sylive", ["sylvie", "adaqp"])
        (['cora'], ['sylvie'])
        >>> closest_words("products", ["ogbn-products", "ogbn-arxiv"]), closest_words("weather", ["cora", "reddit"])
        (['ogbn-products'], [])
    """
    lower_name = name.lower()
    ranked = []
    words = list(known)
    for word in words:
        lower_word = word.lower()
        allowed = max(len(lower_name), len(lower_word)) // 3 if edits is None else edits
        if abs(len(lower_name) - len(lower_word)) <= allowed:  # each letter of the difference is an edit
            distance = _edit_distance(lower_name, lower_word)
            if distance <= allowed:
                ranked.append((distance, lower_word[:1] != lower_name[:1], word))
    if not ranked and edits is None and len(lower_name) > 2:
        part = re.compile(rf"(^|[-_:/]){re.escape(lower_name)}")
        return [word for word in words if part.search(word.lower())][:limit]
    return [word for *_, word in sorted(ranked, key=lambda each: each[:2])[:limit]]


def _edit_distance(first: str, second: str) -> int:
    """Return the number of insertions, deletions, substitutions and swaps of neighbours (optimal string alignment).

    Example:
        >>> _edit_distance("gnc", "gcn"), _edit_distance("gnc", "sgc"), _edit_distance("", "gat")
        (1, 2, 3)
    """
    rows = [list(range(len(second) + 1))]  # rows[i][j]: distance of first[:i] and second[:j]
    for i, letter in enumerate(first, start=1):
        row = [i]
        for j, other in enumerate(second, start=1):
            distance = min(rows[-1][j] + 1, row[-1] + 1, rows[-1][j - 1] + (letter != other))
            if i > 1 and j > 1 and (letter, first[i - 2]) == (second[j - 2], other):
                distance = min(distance, rows[-2][j - 2] + 1)
            row.append(distance)
        rows.append(row)
    return rows[-1][-1]
