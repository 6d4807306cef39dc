"""The limit of open files of a run's processes. Standard library only."""

from __future__ import annotations

import resource

from gnnqlab.errors import LaunchRefused

__all__ = ["min_open_files", "raise_open_files", "require_open_files"]

_BASE, _PER_WORKER = 20, 5
"""Measured peak with 1, 2, 4 and 7 workers: 30, 34, 52 and 69 open files in one process; the bound is below all."""
_ENOUGH = 65536
"""Limit to raise to: a machine may allow a thousand million, and some programs close each number one by one."""


def min_open_files(workers: int) -> int:
    """Return a lower bound on the open files of one process: sockets of each worker to all others, logs and libraries.

    Example:
        >>> min_open_files(6)
        50
    """
    return _BASE + _PER_WORKER * workers


def require_open_files(workers: int) -> None:
    """Raise if a process of a run may not open enough files; the agent raises the soft limit to the hard one itself.

    Raises:
        LaunchRefused: with the hard limit.
    """
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    if hard != resource.RLIM_INFINITY and hard < (least := min_open_files(workers)):
        raise LaunchRefused(
            f"the limit of open files must be at least {least} for {workers} workers, got {hard}; raise it (ulimit -n, "
            "or nofile in /etc/security/limits.conf), or choose fewer workers"
        )


def raise_open_files() -> None:
    """Raise the soft limit of open files of this process and of those that it starts, as far as it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _ENOUGH if hard == resource.RLIM_INFINITY else min(hard, _ENOUGH)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
