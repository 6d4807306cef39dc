"""Map of the course: its notebooks along five paths, with links and the number of right answers."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

from gnnqlab.by_name import did_you_mean
from gnnqlab.course.exercises import EXERCISES
from gnnqlab.course.shown import Page
from gnnqlab.course.student import progress as kept
from gnnqlab.course.student.code import CODE

__all__ = ["PATHS", "choose_exercises", "exercises_of", "progress", "right_answers"]

PATHS: dict[str, tuple[str, ...]] = {
    "From a first run to AdaQP": (
        "01_first_run", "02_cut_a_graph", "03_one_process_or_many", "04_messages_in_few_bits",
        "05_noise_and_convergence", "06_who_gets_the_bits", "07_hide_the_rest", "08_adaqp",
    ),
    "Depth, time, and other codes": (
        "09_more_than_two_layers", "10_bits_over_time", "26_is_deciding_worth_it", "25_which_code_for_which_row",
        "27_where_rounding_matters",
    ),
    "Stale, smoothed and sampled rows": ("11_yesterdays_rows", "28_does_smoothing_help", "23_some_of_the_rows"),
    "Other systems": (
        "12_cut_the_vertices", "13_the_cache_at_work", "14_near_and_far_links", "15_integers_all_the_way",
        "16_your_dgl_model", "17_all_of_them",
    ),
    "Your own, and larger": (
        "18_beyond_this_machine", "19_where_papers_err", "20_your_own_system", "21_your_own_graph", "22_tuner",
        "24_on_a_gpu", "29_one_model_eight_ranks",
    ),
}  # fmt: skip
"""Path -> file names of its notebooks, in their order."""
_WORDS = {"adaqp": "AdaQP", "dgl": "DGL", "gpu": "GPU", "yesterdays": "yesterday's"}
"""Words that a file name cannot spell."""
_BOX = (
    "display:inline-block;box-sizing:border-box;width:8.6em;min-height:4.6em;margin:.2em 0;padding:.3em .5em;"
    "border:1.5px solid {color};border-radius:6px;vertical-align:top;text-decoration:none;color:inherit;"
    "line-height:1.25"
)
_OPEN, _DONE = "#8a8f98", "#009E73"


def exercises_of(notebook: str) -> list[str]:
    """Return the exercises of a notebook, graded code included.

    Args:
        notebook: two digits.

    Example:
        >>> exercises_of("06")
        ['06.beta', '06.ratio', '06.time', '06.widths']
    """
    return sorted(name for name in (*EXERCISES, *CODE) if name.startswith(f"{notebook}."))


def choose_exercises(only: str | Sequence[str] | None) -> list[str]:
    """Return exercises by their names and the numbers of notebooks; all for ``None``.

    Args:
        only: names of exercises and numbers of notebooks, also in one text with commas.

    Raises:
        ValueError: if one of them has no exercise.

    Example:
        >>> choose_exercises("06,01.payload")
        ['01.payload', '06.beta', '06.ratio', '06.time', '06.widths']
    """
    everything = sorted([*EXERCISES, *CODE])
    if only is None:
        return everything
    words = [word.strip() for word in (only.split(",") if isinstance(only, str) else only)]
    notebooks = {name[:2] for name in everything}
    for word in words:
        if word not in notebooks and word not in everything:
            raise ValueError(
                "only must name exercises such as 01.payload, or notebooks with exercises, such as 01, got "
                f"{word!r}{did_you_mean(word, everything)}"
            )
    return [name for name in everything if name in words or name[:2] in words]


def right_answers(state: Mapping[str, Any]) -> set[str]:
    """Return the exercises with a right answer or with code that passed.

    Args:
        state: as `gnnqlab.course.student.progress.read` returns it.
    """
    answers = {name for name, each in state["answers"].items() if each["right"]}
    return answers | {name for name, each in state["code"].items() if each["passed"]}


def progress() -> Page:
    """Return the map of the course, for the end of a notebook cell.

    Example:
        >>> import os, tempfile
        >>> os.environ["GNNQLAB_RUNS"] = tempfile.mkdtemp()
        >>> str(progress()).splitlines()[-1]
        'Right answers: 0 of 90'
        >>> del os.environ["GNNQLAB_RUNS"]
    """
    right = right_answers(kept.read())
    texts, rows = [], []
    for path, books in PATHS.items():
        counts = {book: _count(book, right) for book in books}
        names = (f"{_title(book)} ({done} of {all_})" for book, (done, all_) in counts.items())
        texts.append(f"{path}: {' → '.join(names)}")
        boxes = " → ".join(_box(book, *counts[book]) for book in books)
        rows.append(f"<div style='margin:.5em 0'><b>{html.escape(path)}</b><br>{boxes}</div>")
    done, all_ = len(right), len(EXERCISES) + len(CODE)
    texts.append(f"Right answers: {done} of {all_}")
    return Page("\n".join(texts), f"<div>{''.join(rows)}<p>Right answers: {done} of {all_}</p></div>")


def _count(book: str, right: set[str]) -> tuple[int, int]:
    names = exercises_of(book[:2])
    return len(right.intersection(names)), len(names)


def _title(book: str) -> str:
    return " ".join(_WORDS.get(word, word) for word in book.split("_"))


def _box(book: str, done: int, all_: int) -> str:
    color = _DONE if all_ and done == all_ else _OPEN
    mark = "✓ " if all_ and done == all_ else ""  # the colour alone would say nothing to some readers
    return (
        f'<a href="{book}.ipynb" style="{_BOX.format(color=color)}"><b>{book[:2]}</b> {html.escape(_title(book)[3:])}'
        f"<br><small>{mark}{done} of {all_}</small></a>"
    )
