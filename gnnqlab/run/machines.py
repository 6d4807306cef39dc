"""What the guards of several machines say of one run, as one word. Standard library only."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.run import folder as files

__all__ = ["other_machines", "together"]

_WORST_FIRST = ("failed", "stopped", "stalled", "starting", "running", "finished")


def other_machines(folder: Path) -> list[dict[str, Any]]:
    """The last status of every machine of a run but the first."""
    said = (files.read_json(path) for path in sorted(folder.glob("status-node*.json")))
    return [status for status in said if status is not None and "state" in status]


def together(said: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The status of a run: that of the machine which stands worst, of several a cause before its consequence.

    Example:
        >>> together([{"state": "finished"}, {"state": "running", "epoch": 3}])
        {'state': 'running', 'epoch': 3}
    """

    def rank(status: dict[str, Any]) -> tuple[int, bool]:
        state, errors = status["state"], status.get("errors") or [{}]
        worst = _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)
        return worst, bool(errors[0].get("consequence"))

    return min(said, key=rank)
