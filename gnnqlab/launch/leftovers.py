"""Remove what runs of this machine have left behind: processes and emulated hosts."""

from pathlib import Path

from gnnqlab.launch.emulated import remove_leftovers
from gnnqlab.run.run import Stray, end_strays, runs

__all__ = ["cleanup"]


def cleanup(root: Path | str | None = None) -> list[Stray]:
    """End processes of runs whose guard is gone, found by pid and start time; returns what was found.

    Emulated hosts whose owner is gone are removed too.

    Nothing is left behind in any way we know of; this is for the ways we do not.

    Args:
        root: as for ``launch``.
    """
    strays = [stray for run in runs(root) for stray in end_strays(run.folder)]
    remove_leftovers()
    return strays
