"""Remove leftover processes and emulated hosts of runs on this machine."""

from pathlib import Path

from gnnqlab.launch.emulated import remove_leftovers
from gnnqlab.run.run import runs
from gnnqlab.run.strays import Stray, end_strays

__all__ = ["cleanup"]


def cleanup(root: Path | str | None = None) -> list[Stray]:
    """End processes of runs whose guard has ended, identified by pid and start time; return these processes.

    Emulated hosts whose owner has ended are removed too. Runs leave nothing behind in any known case; this function is
    for unknown ones.

    Args:
        root: folder of runs, as for ``launch``.
    """
    strays = [stray for run in runs(root) for stray in end_strays(run.folder)]
    remove_leftovers()
    return strays
