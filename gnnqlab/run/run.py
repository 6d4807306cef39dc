"""Handle of a run on disk; it works in any process, also after the launching process has ended."""

import contextlib
import dataclasses
import html
import shutil
import time
import webbrowser
from pathlib import Path
from types import TracebackType
from typing import Any

from gnnqlab.attached import attached
from gnnqlab.cards import card
from gnnqlab.errors import WorkerFailed
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.annotation import read_annotation
from gnnqlab.run.exported_run import ExportedRun
from gnnqlab.run.failure_report import WorkerError
from gnnqlab.run.folder import LIVE
from gnnqlab.run.guard_process import end_guard, is_here, is_launcher, pid_and_start
from gnnqlab.run.job import read_job, status_between_attempts, status_from_queue, stop_job
from gnnqlab.run.progress import Progress
from gnnqlab.run.strays import end_strays
from gnnqlab.run.waiting import WaitingSignals, background_advice, forward, in_notebook
from gnnqlab.terminal import is_screen
from gnnqlab.train.config.config_file import NAME as CONFIG
from gnnqlab.train.config.config_file import read_config
from gnnqlab.train.heartbeat import HeartbeatReader, Pulse
from gnnqlab.train.records.missing_ranks import missing_ranks_error

__all__ = ["LIVE", "Run", "Runs", "runs"]

_POLL_S = 0.05
_START_S = 20.0  # limit from the launch to guard.json


class Run(ExportedRun):
    """Handle of a launched run.

    As a context manager it stops the run at the end of the block, if it still trains.

    Args:
        folder: the run folder.

    Raises:
        ValueError: if the folder is not that of a run.
    """

    def __init__(self, folder: Path | str) -> None:
        super().__init__(Path(folder).absolute())
        self._ends_with_block = False
        self._queue_answer: dict[str, Any] = {}
        if not (self.folder / CONFIG).is_file():
            raise ValueError(f"a run folder must hold {CONFIG}, got {self.folder}; runs() lists the runs")

    # -- state ----------------------------------------------------------------------------------------------------

    @property
    def status(self) -> str:
        """``starting``, ``running``, ``finished``, ``failed``, ``stopped``, or ``stalled``.

        Before that a run is ``queued`` while its job waits (``cause`` has the reason), or ``prepared`` for its ranks.
        A ``stalled`` run makes no progress but may still continue; it becomes ``failed`` when the guard ends it.
        """
        state: str = self._status()["state"]
        return state

    @property
    def cause(self) -> str:
        """Cause of a stall or early end, as a sentence; empty without an error."""
        return str(self._status().get("cause", ""))

    @property
    def ended_by(self) -> int | None:
        """Number of the signal after which the run ended before its last epoch; ``None`` if there was none."""
        return self._status().get("signal")

    @property
    def epoch(self) -> int:
        """Latest epoch that all workers have reached; -1 before the first."""
        pulses = self._pulses()
        return min(pulse.epoch for pulse in pulses) if pulses else int(self._status().get("epoch", -1))

    @property
    def pulses(self) -> list[Pulse]:
        """Heartbeat of each worker: its phase, epoch and step; empty before they started."""
        return self._pulses()

    @property
    def is_here(self) -> bool:
        """True if the workers are processes of this machine, so that their pids are valid here."""
        return self._comparable()

    @property
    def errors(self) -> list[WorkerError]:
        """Errors of workers, the root cause first; empty without an error."""
        status = self._status()
        errors = [WorkerError.from_json(error) for error in status.get("errors", [])]
        return [dataclasses.replace(error, traceback=self._traceback(error)) for error in errors]

    # -- actions --------------------------------------------------------------------------------------------------

    def wait(self, timeout: float | None = None, *, progress: bool | None = None) -> "Run":
        """Wait until the run has finished or was stopped; return this handle.

        A signal to this process (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2) ends a run that it has launched after the
        present epoch, with a checkpoint and the model; a second signal ends it at once. An interrupt of a notebook's
        cell, or of a run that was launched detached, only ends the waiting.

        Args:
            timeout: maximal seconds to wait; the run continues afterwards.
            progress: True to show a bar with loss, scores and the time left; by default on a terminal and in a
                notebook.

        Raises:
            WorkerFailed: if the run failed; the text is ``errors[0].cause``.
            TimeoutError: if the run has not ended within ``timeout``.
            KeyboardInterrupt: after Ctrl-C, with the state of the run.
            RunInterrupted: a ``SystemExit``, after another signal has ended the run.
        """
        start_s = time.monotonic()
        is_detached = read_config(self.folder)["launch"]["detach"] or (in_notebook() and not self._ends_with_block)
        received = WaitingSignals(
            lambda number: forward(self.folder, number),
            self.stop,
            is_active=not is_detached and is_launcher(self.folder),
        )
        shown = is_screen() if progress is None else progress
        with Progress(self.folder, self._epochs(), shown=shown) as bar, received:
            try:
                while (status := self._status())["state"] in LIVE:
                    received.follow()
                    bar.show(self.epoch, status.get("cause") or self.warning)
                    if timeout is not None and time.monotonic() - start_s >= timeout:
                        raise TimeoutError(
                            f"run {self.id} must end within the timeout of {timeout:g} s, got status "
                            f"{status['state']} in epoch {self.epoch}; it continues, wait again or stop it"
                        )
                    time.sleep(_POLL_S)
            except KeyboardInterrupt:
                if is_detached:
                    raise KeyboardInterrupt(background_advice(self.folder)) from None
                self.stop()
                raise
            bar.show(self.epoch, "")
        if status["state"] == "failed":
            raise WorkerFailed(f"{status['cause']}; see {self.folder / 'logs'}")
        if status["state"] == "stopped":
            received.raise_end(status["cause"])
        return self

    def control(self, **changes: Any) -> int:
        """Change settings of a run while it trains; all workers apply them between the same two epochs.

        With assigned bit-widths a new period begins: rows are assigned after the epoch in which the change took effect,
        and their bit-widths apply one epoch later. ``events`` and ``assignments.jsonl`` record all changes.

        Args:
            **changes: changeable settings of the system's bit policy: ``lam``, ``period``, ``group_size`` and
                ``bit_widths`` (AdaQP), ``bit_widths`` and ``period`` (random bit-widths), ``bits`` (one bit-width).

        Returns:
            The version of the settings, 1 for the first change.

        Raises:
            ValueError: if the system has no such setting, or a value is out of its range; nothing is changed then.
            TypeError: if a value is of the wrong kind.
            RuntimeError: if the run has ended.
        """
        from gnnqlab.train.control import write_control

        if (status := self.status) not in LIVE:
            raise RuntimeError(
                f"run {self.id} must be training to change its settings, got status {status}; launch a new one"
            )
        return write_control(self.folder, self.config.system, changes)

    def resume(self, *, epochs: int | None = None, workers: int | None = None, wait: bool = False) -> "Run":
        """Resume a run that has ended from its newest checkpoint, as a new run; see ``gq.resume``."""
        resumed_run: Run = attached("run.resume")(self, epochs=epochs, workers=workers, wait=wait)
        return resumed_run

    def stop(self, timeout: float = 5.0) -> "Run":
        """End the run and all its processes; of a run that has ended, only what a killed guard has left.

        If the present epoch ends within the timeout, the run first writes its model, and a checkpoint if it takes
        checkpoints.

        Args:
            timeout: seconds for these files, and again for an orderly end.

        Raises:
            RuntimeError: if its processes are on another machine, or in a container with pids of its own.
        """
        job = read_job(self.folder)
        if job is not None or self.status in files.WAITING:
            stop_job(self.folder, job, timeout, lambda: self.status)
            return self
        guard, here = files.read_json(self.folder / "guard.json"), processes.place()
        if guard is not None and not self._comparable() and self.status in LIVE:
            place = guard["place"]
            if (place.get("host"), place.get("boot")) == (here["host"], here.get("boot")):
                raise RuntimeError(
                    "a run must be stopped in the container that launched it, got a call from another one"
                )
            if place.get("host") != here["host"]:  # else this machine was restarted since, which ended the run
                raise RuntimeError(
                    f"a run must be stopped where its processes are, on {place.get('host')}, got a call on "
                    f"{here['host']}; call gq.runs() and stop it there"
                )
        # Without facts.json no epoch has begun, so there is no state to save.
        if self.status == "running" and (self.folder / "facts.json").exists():
            self._save_first(timeout)
        end_guard(self.folder, timeout)
        end_strays(self.folder)  # processes that a killed guard has left
        if self._comparable():
            shutil.rmtree(self.folder / "tmp", ignore_errors=True)  # removed by the guard, unless it was killed
        return self

    def live(self) -> Any:
        """Return live figures of the run with a Stop button: a `gnnqlab.lab.training.live.LiveView`.

        It works for any run on this machine's disk, also one launched by an earlier kernel, or one that has ended.
        """
        return attached("run.live")(self)

    def critical_path(self, other: "Run | None" = None, *, epoch: int | None = None) -> Any:
        """Return the critical path of a recorded epoch: a `gnnqlab.lab.training.critical_path.CriticalPath`.

        Args:
            other: a run with the same workers as baseline; the result then compares both.
            epoch: an epoch that was recorded; by default the one with the median length.

        Raises:
            ValueError: if nothing, or not that epoch, was recorded, or two runs have different workers.
        """
        return attached("run.critical_path")(self, other, epoch=epoch)

    def open_report(self) -> Path:
        """Show ``report.html`` in a browser; return its path."""
        report = self.folder / "report.html"
        if not report.is_file():
            raise RuntimeError(f"run {self.id} has no report yet, got status {self.status}; wait for its end")
        webbrowser.open(report.as_uri())
        return report

    def __enter__(self) -> "Run":
        self._ends_with_block = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def __repr__(self) -> str:
        try:
            name = f" ({self.name})" if self.name else ""
            return f"<Run {self.id}{name}: {self._sentence()}>"
        except Exception:  # a repr never raises
            return f"<Run {self.folder}>"

    def _repr_html_(self) -> str:
        try:
            words = read_annotation(self.folder)
            rows = {"run": self.id, "name": words.name, "tags": ", ".join(words.tags), "note": words.note}
            rows = {name: text for name, text in rows.items() if text}
            rows |= {"status": self._sentence(), "folder": str(self.folder)}
            settings = read_config(self.folder)
            launch = settings["launch"]
            rows["workers"] = f"{settings['workers']} ({launch['device']}, {launch['backend']})"
            return card("", rows)
        except Exception:  # a repr never raises
            return f"<code>{html.escape(repr(self))}</code>"

    # -- internals ------------------------------------------------------------------------------------------------

    def _sentence(self) -> str:
        status = self._status()
        text = str(status["state"])
        if status["state"] in ("running", "stalled", "stopped", "failed") and self.epoch >= 0:
            text += f", epoch {self.epoch}"
        trouble = status.get("cause") or self.warning
        return text + (f": {trouble}" if trouble else "")

    def _epochs(self) -> int:
        epochs: int = read_config(self.folder)["train"]["epochs"]
        return epochs

    def _status(self) -> dict[str, Any]:
        """Return the status from all guards, corrected if a guard was killed or records of workers are missing."""
        other_statuses = files.other_machines(self.folder)
        first_statuses = [] if other_statuses and not (self.folder / "status.json").exists() else [self._first_status()]
        status = files.merge_statuses([*first_statuses, *other_statuses])
        status = status_between_attempts(self.folder, status, self._queue_answer)
        if status["state"] == "starting" and any(pulse.epoch >= 0 for pulse in self._pulses()):
            # The guard writes the status with a delay, longer on a busy machine; heartbeats are up to date.
            return {**status, "state": "running"}
        if status["state"] != "finished":
            return status
        try:
            cause = missing_ranks_error(self.folder, read_config(self.folder)["workers"], ended=True)
        except ValueError:
            return status  # without a configuration the number of workers is unknown
        if not cause:
            return status
        error = WorkerError(rank=-1, cause=cause, phase="done", epoch=int(status.get("epoch", -1)))
        return {**status, "state": "failed", "cause": cause, "errors": [error.to_json()]}

    def _first_status(self) -> dict[str, Any]:
        """Return the status from the first machine's guard, or a failure if the guard was killed."""
        path = self.folder / "status.json"
        status = files.read_json(path) or {"state": "starting", "errors": []}
        if status["state"] not in LIVE or status["state"] == "prepared":
            return status
        guards = self._guards()
        # Pids of another machine, or of an earlier boot, cannot be checked here: the status is used as written.
        if status["state"] == "queued" or (guards and not self._comparable()):
            return status_from_queue(self.folder, status, self._queue_answer)
        if not guards:
            # Before guard.json exists, only the age of the first status, or without one that of the configuration,
            # shows that the launch has failed.
            with contextlib.suppress(OSError):  # the folder is being deleted
                if time.time() - status.get("time", (self.folder / CONFIG).stat().st_mtime) < _START_S:
                    return status
            cause = "the process that launched the run ended before the guard had started"
            return {**status, "state": "failed", "cause": cause}
        if any(processes.is_alive(pid, start) for pid, start in guards):
            return status
        later_status = files.read_json(path) or status  # it may have ended properly since the first reading
        if later_status["state"] not in LIVE:
            return later_status
        epoch = max((pulse.epoch for pulse in self._pulses()), default=-1)
        cause = "the guard of the run was killed, and the kernel ended its workers with it"
        error = WorkerError(rank=-1, cause=cause, phase="start", epoch=epoch)
        return {**later_status, "state": "failed", "cause": cause, "errors": [error.to_json()]}

    def _save_first(self, timeout: float) -> None:
        """Request saving of model and checkpoint after the present epoch, and wait for it."""
        from gnnqlab.train.control import CHECKPOINT_NOW

        request = self.folder / CHECKPOINT_NOW
        request.touch()
        deadline_s = time.monotonic() + timeout
        while request.exists() and time.monotonic() < deadline_s and self.status == "running":
            time.sleep(0.01)
        request.unlink(missing_ok=True)  # if it was not served in time, it must not be served later

    def _guards(self) -> list[tuple[int, int]]:
        guard = pid_and_start(self.folder)
        return [] if guard is None else [guard]

    def _comparable(self) -> bool:
        return is_here(self.folder)

    def _pulses(self) -> list[Pulse]:
        pulses = []
        for path in (self.folder / "heartbeat").glob("rank*"):
            reader = HeartbeatReader.open(path)
            if reader is not None:
                pulses.append(reader.read())
                reader.close()
        return pulses

    def _traceback(self, error: WorkerError) -> str:
        """Return the complete stack; the heartbeat has space for its end only."""
        report = files.read_json(self.folder / "errors" / f"rank{error.rank}.json")
        return report["traceback"] if report and error.traceback else error.traceback


class Runs(list[Run]):
    """List of handles of runs; displayed as a table at the end of a notebook cell."""

    def browse(self) -> Any:
        """Return a table to sort, filter, compare and delete runs: a `gnnqlab.lab.listing.browser.RunBrowser`."""
        return attached("runs.browse")(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        try:
            return self.browse()._repr_mimebundle_(include, exclude)
        except Exception:  # a repr never raises
            return {"text/plain": repr(self)}


def runs(root: Path | str | None = None, *, tag: str | None = None) -> Runs:
    """Return all runs under ``root``, the oldest first; also those of earlier kernels and other processes.

    Args:
        root: folder of runs, as for ``launch``.
        tag: only the runs with this tag.

    Returns:
        A list of handles; at the end of a notebook cell it is displayed as a table (``Runs.browse``).
    """
    folder = files.default_root() if root is None else Path(root).absolute()
    all_runs = (Run(path.parent) for path in sorted(folder.glob(f"*/{CONFIG}")) if path.is_file())
    return Runs(run for run in all_runs if tag is None or tag in run.tags)
