"""Names of scores in the files of a run, and their labels in tables and figures.

An objective names its score; a run's ``facts.json`` stores the name, and summaries have the key ``test_`` + name.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = [
    "FURTHER_SCORES",
    "SCORES",
    "further_test_scores",
    "read_further_score_names",
    "get_test_score",
    "score_key",
    "score_label",
    "read_score_name",
]

SCORES = {"accuracy": "accuracy", "f1_micro": "micro-F1", "auc": "AUC", "r2": "R²"}
"""Name of a score in summaries, after ``test_`` -> its label."""
FURTHER_SCORES = {"mrr": "MRR", "macro_f1": "macro-F1", "balanced_accuracy": "balanced accuracy"}
"""The same for further scores in [0, 1], shown in addition to one of these. ``mae`` and ``mse`` of a regression, in the
unit of the targets, are in records and summaries only."""


def read_score_name(facts: Mapping[str, Any]) -> str:
    """Return the name of a run's score from its ``facts.json``, also from files of versions that did not store it.

    Example:
        >>> read_score_name({"score": "accuracy"}), read_score_name({"multi_label": True}), read_score_name({})
        ('accuracy', 'f1_micro', 'accuracy')
    """
    return str(facts.get("score") or ("f1_micro" if facts.get("multi_label") else "accuracy"))


def read_further_score_names(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of a run's further scores.

    Example:
        >>> read_further_score_names({"also": ["mrr"]}), read_further_score_names({})
        (('mrr',), ())
    """
    return tuple(facts.get("also", ()))


def further_test_scores(summary: Mapping[str, Any]) -> dict[str, float | None]:
    """Return the further test scores of a summary by label.

    Example:
        >>> further_test_scores({"test_auc": 0.9, "test_mrr": 0.25})
        {'MRR': 0.25}
    """
    return {label: summary[f"test_{name}"] for name, label in FURTHER_SCORES.items() if f"test_{name}" in summary}


def score_key(summary: Mapping[str, Any]) -> str:
    """Return the key of a summary's test score.

    Example:
        >>> score_key({"test_f1_micro": 0.5}), score_key({})
        ('test_f1_micro', 'test_accuracy')
    """
    return next((f"test_{name}" for name in SCORES if f"test_{name}" in summary), "test_accuracy")


def score_label(summary: Mapping[str, Any]) -> str:
    """Return the label of a summary's score: ``accuracy``, ``micro-F1`` ..."""
    return SCORES[score_key(summary).removeprefix("test_")]


def get_test_score(summary: Mapping[str, Any]) -> float | None:
    """Return the test score of a summary, in [0, 1]; ``None`` before there is one."""
    score: float | None = summary.get(score_key(summary))
    return score
