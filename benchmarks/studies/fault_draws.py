"""Random faults of launched runs: signals to every process of a run, and deaths of workers that are replaced.

Each draw trains a small graph, with another system each time, and compares its losses with those of a run without a
fault, bit for bit. A draw is a function of its number, so a failing one can be repeated. Outcomes are stored, and draws
that succeeded at the same commit are not repeated.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

import gnnqlab as gq
from gnnqlab.launch.local import launch
from gnnqlab.run import folder as files
from gnnqlab.run import processes
from gnnqlab.run.run import Run
from gnnqlab.systems import SYSTEMS, make_system
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from gnnqlab.train.records.provenance import package

__all__ = ["KINDS", "Outcome", "draw", "outcomes"]

GRAPH, LAYERS, HIDDEN = "sbm:60,3,6", 2, 8
TARGETS = ("launcher", "guard", "agent", "worker")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
KINDS = ("signals", "kills")
_ASSIGNED: dict[str, Any] = {"lam": 1.0, "when": "blocking"}
_NO_SECONDS: dict[str, dict[str, Any]] = {
    "adaqp": _ASSIGNED, "adaqp-q": _ASSIGNED, "adaqp-r": _ASSIGNED, "sylvie": {"delta": 10**6},
    "sylvie-r": {"delta": 10**6},
}  # fmt: skip
"""System -> settings with which it decides nothing by measured seconds, so that two runs of it are equal."""
_KILL_EPOCHS, _MORE_EPOCHS, _ENDLESS, _LONGEST = 60, 5, 100_000, 100
_LIMIT_S, _LEFT_S = 120.0, 2.0


@dataclass(frozen=True, kw_only=True)
class Draw:
    """One fault: its run, its time and its victim."""

    number: int
    system: str
    workers: int
    target: str = "worker"
    """Process that receives the signal."""
    signal: int = signal.SIGKILL
    rank: int = 0
    """Rank of the worker, if it is one."""
    epoch: int = 0
    """Epoch after whose begin the fault comes."""
    delay_s: float = 0.0
    """Seconds after that."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Outcome of one draw."""

    draw: Draw
    failures: tuple[str, ...] = ()
    """Broken promises; empty if all were kept."""
    seconds: float = 0.0
    """After a signal until the run has ended; after a death until the next epoch."""

    @property
    def text(self) -> str:
        """Number of the draw, its fault and the broken promises."""
        name, victim = signal.Signals(self.draw.signal).name, self.draw.target
        victim += f" {self.draw.rank}" if victim == "worker" else ""
        fault = f"draw {self.draw.number} ({self.draw.system}, P = {self.draw.workers}, {name} to {victim})"
        return f"{fault}: {'; '.join(self.failures)}"


def draw(kind: str, number: int) -> Draw:
    """Return a draw, a function of its kind and number; systems, targets and numbers of workers take turns.

    Example:
        >>> draw("kills", 7) == draw("kills", 7), draw("signals", 6).target
        (True, 'agent')
    """
    chance, systems = random.Random(f"{kind}-{number}"), sorted(SYSTEMS)
    workers = 2 + number % 2
    fault: dict[str, Any] = {
        "number": number,
        "workers": workers,
        "rank": chance.randrange(workers),
        "delay_s": 0.05 * chance.random(),
    }
    if kind == "kills":
        return Draw(system=systems[number % len(systems)], epoch=chance.randrange(_KILL_EPOCHS - 10), **fault)
    target, system = TARGETS[number % len(TARGETS)], systems[number // len(TARGETS) % len(systems)]
    return Draw(
        system=system, target=target, signal=chance.choice(SIGNALS), epoch=chance.randrange(_KILL_EPOCHS), **fault
    )


def outcomes(kind: str, numbers: range, folder: Path) -> list[Outcome]:
    """Return the outcomes of draws; those that succeeded at this commit are read from the folder.

    Args:
        kind: one of ``KINDS``.
        numbers: of the draws.
        folder: of stored outcomes and of the runs of failed draws.
    """
    folder.mkdir(parents=True, exist_ok=True)
    references, progress = _References(folder), tqdm(total=len(numbers))
    found = []
    for number in numbers:
        drawn, path = draw(kind, number), folder / f"{kind}-{number}.json"
        stored = files.read_json(path)
        if stored is None or stored["commit"] != references.commit or stored["failures"]:
            root = folder / f"runs-{kind}-{number}"
            shutil.rmtree(root, ignore_errors=True)
            failures, seconds = {"signals": _signalled, "kills": _killed}[kind](drawn, root, references)
            stored = {"commit": references.commit, "failures": failures, "seconds": seconds}
            files.write_json(path, stored)
            if not failures:
                shutil.rmtree(root, ignore_errors=True)
        found.append(Outcome(draw=drawn, failures=tuple(stored["failures"]), seconds=stored["seconds"]))
        progress.set_postfix_str(found[-1].text if stored["failures"] else f"{kind}, draw {number}", refresh=False)
        progress.update()
    return found


class _References:
    """Losses of runs without a fault, by system and number of workers; stored in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.commit = folder, package()["commit"]

    def losses(self, drawn: Draw, epochs: int) -> list[float]:
        """Return the losses of the first epochs."""
        path = self._folder / f"reference-{drawn.system}-{drawn.workers}.json"
        stored = files.read_json(path)
        if stored is None or stored["commit"] != self.commit or len(stored["losses"]) < epochs:
            root = self._folder / f"runs-reference-{os.getpid()}"  # another call may use the same folder
            run = launch(_config(drawn, epochs=max(epochs, _LONGEST)), root=root, wait=True)
            stored = {"commit": self.commit, "losses": _losses(run)}
            files.write_json(path, stored)
            shutil.rmtree(root, ignore_errors=True)
        losses: list[float] = stored["losses"][:epochs]
        return losses


def _config(drawn: Draw, **settings: Any) -> RunConfig:
    system = make_system(drawn.system, **_NO_SECONDS.get(drawn.system, {}))
    return configure(GRAPH, system=system, workers=drawn.workers, layers=LAYERS, hidden=HIDDEN, **settings)


def _losses(run: Run) -> list[float]:
    records = run.records
    losses: list[float] = records[records["rank"] == 0].sort_values("epoch")["loss"].tolist()
    return losses


def _signalled(drawn: Draw, root: Path, references: _References) -> tuple[list[str], float]:
    """Send the signal to a process of ``gnnqlab train``; return the broken promises, and seconds until its end."""
    command = command_of(_config(drawn, epochs=_ENDLESS))
    assert command is not None
    words = [*shlex.split(command)[1:], "--out", str(root)]
    launcher = subprocess.Popen(
        [sys.executable, "-m", "gnnqlab", *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _until(lambda: bool(gq.runs(root)) or launcher.poll() is not None, "a run")
        run = gq.runs(root)[0]
        _until(lambda: run.epoch >= drawn.epoch or launcher.poll() is not None, "the epoch")
        guard = files.read_json(run.folder / "guard.json")
        assert guard is not None
        pids = {"launcher": launcher.pid, "guard": guard["guard"][0], "agent": guard["agent"][0]}
        tree = [(each.pid, each.start) for each in processes.tree(pids["guard"])]
        tree.append((pids["guard"], guard["guard"][1]))
        time.sleep(drawn.delay_s)
        begin_s = time.monotonic()
        os.kill(pids.get(drawn.target, guard["workers"][str(drawn.rank)][0]), drawn.signal)
        code = launcher.wait(timeout=_LIMIT_S)
        seconds = time.monotonic() - begin_s
    finally:
        launcher.kill()
        launcher.wait()
    failures = [] if code == 128 + drawn.signal else [f"the exit status is {code}, not {128 + drawn.signal}"]
    try:
        _until(lambda: not any(processes.is_alive(*each) for each in tree), "the end of all processes", _LEFT_S)
    except TimeoutError:
        failures.append(f"processes are left after {_LEFT_S:g} s")
    names = [path.name for path in run.folder.glob("checkpoints/*")]
    if run.records.empty:  # the signal came in the first epoch: nothing to resume, as its cause says
        is_clear = "before the end of its first epoch" in run.cause and not names
        return [
            *failures,
            *([] if is_clear else [f"no epoch ended, the checkpoints are {names}: {run.cause}"]),
        ], seconds
    epoch = int(run.records["epoch"].max())
    if names != [f"epoch-{epoch + 1:06d}.safetensors"]:
        return [*failures, f"the last epoch is {epoch}, the checkpoints are {names}: {run.cause}"], seconds
    if f"at epoch {epoch}; resume" not in run.cause:
        failures.append(f"the cause is {run.cause!r}, the last epoch {epoch}")
    resumed = run.resume(epochs=epoch + 1 + _MORE_EPOCHS, wait=True)
    return [*failures, *_differences(_losses(resumed), references.losses(drawn, epoch + 1 + _MORE_EPOCHS))], seconds


def _killed(drawn: Draw, root: Path, references: _References) -> tuple[list[str], float]:
    """Kill a worker of a run with restarts; return the broken promises, and seconds until the next epoch."""
    run = launch(_config(drawn, epochs=_KILL_EPOCHS, retries=3, checkpoint_every=5), root=root)
    try:
        _until(lambda: run.epoch >= drawn.epoch, "the epoch")
        time.sleep(drawn.delay_s)
        former = {pulse.rank: pulse.pid for pulse in run.pulses}
        begin_s = time.monotonic()
        os.kill(former[drawn.rank], signal.SIGKILL)
        _until(lambda: _trains_again(run, former) or run.status in ("finished", "failed"), "the next epoch")
        seconds = time.monotonic() - begin_s
        run.wait(timeout=_LIMIT_S)
    except (gq.errors.WorkerFailed, TimeoutError) as error:
        run.stop()
        return [str(error)], _LIMIT_S
    restarts = [event for event in run.events if event["event"] == "restarting"]
    failures = [] if len(restarts) == 1 else [f"{len(restarts)} restarts"]
    return [*failures, *_differences(_losses(run), references.losses(drawn, _KILL_EPOCHS))], seconds


def _trains_again(run: Run, former: Mapping[int, int]) -> bool:
    pulses = run.pulses
    return len(pulses) == len(former) and all(pulse.epoch >= 0 and pulse.pid != former[pulse.rank] for pulse in pulses)


def _differences(losses: list[float], expected: list[float]) -> list[str]:
    """Return the first difference of losses; empty if they are identical to the bit."""
    if len(losses) != len(expected):
        return [f"{len(losses)} epochs, not {len(expected)}"]
    pairs = zip(losses, expected, strict=True)
    return next(([f"epoch {epoch}: loss {a!r}, not {b!r}"] for epoch, (a, b) in enumerate(pairs) if a != b), [])


def _until(condition: Callable[[], bool], event: str, limit_s: float = _LIMIT_S) -> None:
    deadline_s = time.monotonic() + limit_s
    while not condition():
        if time.monotonic() > deadline_s:
            raise TimeoutError(f"{event} must come within {limit_s:g} s")
        time.sleep(0.002)
