"""Exceptions of the package; all other errors are a plain ``ValueError``, ``TypeError`` or ``RuntimeError``."""

import signal

__all__ = [
    "LaunchRefused",
    "LawBroken",
    "MissingMessage",
    "NonFiniteMessage",
    "NonFiniteRow",
    "ObserverFailed",
    "RunInterrupted",
    "UnexpectedMessage",
    "WorkerFailed",
]


class LaunchRefused(RuntimeError):
    """Error of a run that this machine cannot hold or whose folders cannot be written; no process was started."""


class LawBroken(AssertionError):
    """Error of a model whose distributed result differs from that of one process; it names the first difference."""

    def __init__(
        self, *, model: str, workers: int, graph: str, tensor: str, difference: float, tolerance: float
    ) -> None:
        self.workers, self.tensor, self.difference, self.tolerance = workers, tensor, difference, tolerance
        super().__init__(
            f"workers must compute the result of one process within {tolerance:g} of the largest value: model "
            f"{model!r}, {workers} worker(s), {graph}: {tensor} differs by {difference:.3g}; use row-wise operations, "
            "get neighbours through g only (aggregate, convolve, attend, extend), use g.dropout for dropout, and "
            "initialise weights from the seed only"
        )


class MissingMessage(RuntimeError):
    """Error of a message that was not received: the sender has not posted it in time, or its process has ended.

    Args:
        peer: rank of the sender, within its process group.
        reason: text of the backend.
        is_sent: True for a message to ``peer``, which has not posted its receive.
    """

    def __init__(self, peer: int, reason: str, *, is_sent: bool = False) -> None:
        self.peer, self.is_sent = peer, is_sent
        self.is_late = "timed out" in reason.lower()
        """True if the time limit of the process group has ended; False if the connection has."""
        super().__init__(reason)


class NonFiniteRow(ValueError):
    """Error of a row that cannot be encoded: it has NaN or Inf, or its range overflows float32."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"rows to encode must be finite with a range that float32 can hold, got NaN, Inf or an "
            f"overflowing range in row {position} of the call"
        )


class NonFiniteMessage(RuntimeError):
    """Error of a message with NaN or Inf, with rank, layer, direction and global node."""

    def __init__(self, *, rank: int, layer: int, direction: str, node: int) -> None:
        self.rank, self.layer, self.direction, self.node = rank, layer, direction, node
        super().__init__(
            f"messages must be finite: rank {rank}, layer {layer}, {direction}: the row of global node "
            f"{node} holds NaN, Inf or an overflowing range; training has diverged, lower the learning rate"
        )


class ObserverFailed(RuntimeError):
    """Error of an observer that raised an exception, with the name of its method."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__(
            f"an observer must not raise, got {type(error).__name__} from {method}: {error}; fix it, or launch "
            "without it"
        )


class RunInterrupted(SystemExit):
    """End of a program after a signal that has also ended its run, with the exit status of the signal.

    Example:
        >>> end = RunInterrupted(15, "interrupted by SIGTERM at epoch 3")
        >>> end.code, str(end)
        (143, 'interrupted by SIGTERM at epoch 3')
    """

    def __init__(self, number: int, cause: str) -> None:
        self.signal, self.cause = signal.Signals(number), cause
        super().__init__(128 + number)

    def __str__(self) -> str:
        return self.cause


class UnexpectedMessage(RuntimeError):
    """Error of a message that its receiver does not expect: stale, of another run, of another length, or corrupt."""

    def __init__(
        self,
        *,
        sender: int,
        receiver: int,
        layer: int,
        direction: str,
        epoch: int,
        what: str,
        expected: object,
        found: object,
        advice: str,
    ) -> None:
        self.sender, self.receiver, self.layer, self.direction, self.epoch = sender, receiver, layer, direction, epoch
        self.what, self.expected, self.found = what, expected, found
        super().__init__(
            f"a message must be the one its receiver expects: rank {receiver} from rank {sender}, layer {layer}, "
            f"{direction}, epoch {epoch}: {what} must be {expected}, got {found}; {advice}"
        )


class WorkerFailed(RuntimeError):
    """Error of a launched run that ended because of a worker; it names rank, cause, phase and epoch."""
