"""Names and files of a run folder, for all writers and readers. Standard library only.

RUN/config.json              the RunConfig as JSON
RUN/status.json              latest status from the guard: state, epoch, errors (replaced atomically)
RUN/job.json                 job of a queue that starts the ranks, see run/job.py
RUN/token                    random text that only the user of the run can read, see launch/same_run.py
RUN/guard.json               processes of the run with their start times, to find strays
RUN/machines.json            machines of a run over several ones, and links between them, see run/machine_links.py
RUN/events.jsonl             one line per event: launched, running, slow, stalled, failed, finished ...
RUN/records-rankR.jsonl      written by training, as is traffic-rankR.jsonl
RUN/assignments.jsonl        one line per assignment of bit-widths: settings, solutions, cost model
RUN/checkpoints/             the newest two checkpoints, see train/checkpoints/checkpoint.py
RUN/model.safetensors        the weights of the best epoch, see train/checkpoints/model_file.py
RUN/last_model.safetensors   those of the last epoch, if it is another one
RUN/control.json             settings changed during training (``Run.control``); read by rank 0 once per epoch
RUN/stop-after-epoch         request of a guard that has received a signal, see train/stop_request.py
RUN/heartbeat/rankR          see train/heartbeat.py
RUN/errors/rankR.json        error report of a rank; rankR.trace: stacks after a crash or a hang
RUN/logs/rankR.log           output of a rank; agent.log: of torchrun; guard.log: of the guard
RUN/tmp/                     temporary files of the run, removed at its end
"""

import contextlib
import json
import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gnnqlab.atomic import write_text
from gnnqlab.errors import LaunchRefused
from gnnqlab.train.records.machine import node_name

__all__ = [
    "END_NOW",
    "LIVE",
    "RESERVE",
    "WAITING",
    "append_event",
    "create",
    "default_root",
    "log_line",
    "new_id",
    "node_name",
    "other_machines",
    "read_json",
    "read_token",
    "tail",
    "merge_statuses",
    "write_json",
]

WAITING = ("prepared", "queued")
"""Statuses of a run whose ranks have not been started: by its user, or by a queue."""
LIVE = (*WAITING, "starting", "running", "stalled")
"""Statuses of a run that has not ended."""
RESERVE = "reserve"
"""File in ``tmp`` that is deleted when the disk is full, so that the final status can still be written."""
END_NOW = "end-now"
"""File in ``tmp``: the next signal to the guard ends the run at once (:meth:`gnnqlab.run.run.Run.stop`)."""
_TOKEN = "token"
_WORST_FIRST = ("failed", "stopped", "stalled", *WAITING, "starting", "running", "finished")
_RESERVE_BYTES = 256 << 10
_FREE_BYTES = 64 << 20
"""Free space needed to start a run; records of a long run take a few MB."""


def default_root() -> Path:
    """Return the folder of runs: the environment variable ``GNNQLAB_RUNS``, else ``runs`` in the working folder."""
    return Path(os.environ.get("GNNQLAB_RUNS") or "runs").absolute()


def new_id(system: str) -> str:
    """Return a new name that sorts by time, for instance ``20261121-071500-adaqp-ab12``."""
    system_text = "".join(c if c.isalnum() or c in "-_" else "-" for c in system)[:40] or "run"
    # The random end separates runs that are launched in the same second.
    return f"{time.strftime('%Y%m%d-%H%M%S')}-{system_text}-{secrets.token_hex(2)}"


def create(root: Path, run_id: str, *, exist_ok: bool = False) -> Path:
    """Create a run folder, if it is writable and there is enough free space.

    Raises:
        LaunchRefused: if the folder cannot be written or the disk is nearly full.
    """
    folder = root / run_id
    folder_existed = folder.exists()  # then another machine may be writing there, so an error must not remove it
    try:
        folder.mkdir(parents=True, exist_ok=exist_ok)
        for name in ("heartbeat", "errors", "logs", "tmp"):
            (folder / name).mkdir(exist_ok=exist_ok)
        (folder / "tmp" / RESERVE).write_bytes(bytes(_RESERVE_BYTES))  # real bytes: a sparse file reserves nothing
        _write_token(folder)
    except FileExistsError:
        raise  # an OSError as well, but the caller then tries another name
    except OSError as error:
        if not folder_existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise LaunchRefused(
            f"the folder of a run must be writable, got {folder}: {error.strerror}; "
            f"pass out=... or set GNNQLAB_RUNS to another folder"
        ) from error
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < _FREE_BYTES:
        if not folder_existed:
            shutil.rmtree(folder, ignore_errors=True)
        raise LaunchRefused(
            f"a run needs {_FREE_BYTES >> 20} MB of free space, got {free_bytes} bytes under {root}; "
            f"free some space, pass out=... or set GNNQLAB_RUNS to another folder"
        )
    return folder


def _write_token(folder: Path) -> None:
    """Create the token of a run, unless another machine or an earlier attempt has created it."""
    with contextlib.suppress(FileExistsError):
        descriptor = os.open(folder / _TOKEN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "w") as file:
            file.write(secrets.token_hex(16))


def read_token(folder: Path) -> str:
    """Return the token of a run, empty for a folder of an earlier version."""
    try:
        return (folder / _TOKEN).read_text()
    except FileNotFoundError:
        return ""


def write_json(path: Path, value: Any) -> None:
    """Replace a file atomically: a reader gets the old or the new text, never a part."""
    write_text(path, json.dumps(value, indent=1))


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the JSON object in a file, or ``None`` if it is missing or invalid."""
    try:
        value = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def append_event(folder: Path, event: str, **fields: Any) -> None:
    """Append one line to ``events.jsonl`` with one write; a full disk costs the line, not the run."""
    line = json.dumps({"event": event, "time": time.time(), "monotonic_ns": time.monotonic_ns(), **fields})
    try:
        # O_APPEND, because the guard and several workers append to this file.
        descriptor = os.open(folder / "events.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.write(descriptor, line.encode() + b"\n")
        finally:
            os.close(descriptor)
    except OSError:
        pass


def log_line(text: str) -> None:
    """Write one line to standard error; on a full disk, to which it may be redirected, the line is lost."""
    with contextlib.suppress(OSError):
        print(text, file=sys.stderr, flush=True)


def tail(path: Path, limit: int = 2000) -> str:
    """Return the end of a text file, from the start of a line; empty if the file does not exist."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - limit))
            text = file.read().decode(errors="replace")  # the cut may split a character
    except OSError:
        return ""
    return text if size <= limit else text.partition("\n")[2]  # without the line that was cut


def other_machines(folder: Path) -> list[dict[str, Any]]:
    """Return the latest status of every machine of a run except the first."""
    statuses = (read_json(path) for path in sorted(folder.glob("status-node*.json")))
    return [status for status in statuses if status is not None and "state" in status]


def merge_statuses(statuses: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the status of a run: the worst of its machines, and among equals a cause before its consequence.

    Example:
        >>> merge_statuses([{"state": "finished"}, {"state": "running", "epoch": 3}])
        {'state': 'running', 'epoch': 3}
    """

    def rank(status: dict[str, Any]) -> tuple[int, bool]:
        state, errors = status["state"], status.get("errors") or [{}]
        severity = _WORST_FIRST.index(state) if state in _WORST_FIRST else len(_WORST_FIRST)
        return severity, bool(errors[0].get("consequence"))

    return min(statuses, key=rank)
