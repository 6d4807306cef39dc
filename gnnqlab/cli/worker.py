"""``gnnqlab worker``: run this process as one rank that another program has started."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Worker"]


@dataclass(kw_only=True)
class Worker:
    """Run this process as one rank of a prepared run, under torchrun, srun or mpirun."""

    run_folder: Path
    """Folder of the run, from gnnqlab train --prepare, on a disk that all ranks share."""
    from_environment: bool = False
    """Read rank and world size from the environment variables of the program that started this process."""
    json: bool = False
    """End standard output with one JSON object."""

    def run(self) -> dict[str, Any]:
        from gnnqlab.cli.options import add_working_folder
        from gnnqlab.launch.existing_rank import become_rank

        if not self.from_environment:
            raise ValueError("a worker takes its rank from the environment, got no --from-environment; add it")
        add_working_folder()  # for a user-defined model
        become_rank(self.run_folder, os.environ)
        raise AssertionError("the guard has replaced this process")
