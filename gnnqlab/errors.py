"""The package's own exceptions; everything else is a plain ``ValueError``, ``TypeError`` or ``RuntimeError``."""

__all__ = ["LawBroken", "NonFiniteMessage", "NonFiniteRow", "ObserverFailed", "UnexpectedMessage", "WorkerFailed"]


class LawBroken(AssertionError):
    """A model whose workers together do not compute what one process computes; its text names the first difference."""

    def __init__(
        self, *, model: str, workers: int, graph: str, tensor: str, difference: float, tolerance: float
    ) -> None:
        self.workers, self.tensor, self.difference, self.tolerance = workers, tensor, difference, tolerance
        super().__init__(
            f"workers must give what one process gives to {tolerance:g} of the largest value: model {model!r}, "
            f"{workers} worker(s), {graph}: {tensor} differs by {difference:.3g}; let rows stand for themselves, "
            "neighbours come through g (aggregate, convolve, attend, extend), dropout be g.dropout, weights be drawn "
            "from the seed alone"
        )


class NonFiniteRow(ValueError):
    """A row that cannot be encoded: it holds NaN or Inf, or its range overflows float32."""

    def __init__(self, position: int) -> None:
        self.position = position
        super().__init__(
            f"rows to encode must be finite with a range that float32 can hold, got NaN, Inf or an "
            f"overflowing range in row {position} of the call"
        )


class NonFiniteMessage(RuntimeError):
    """A message that holds NaN or Inf, named by rank, layer, direction and global node."""

    def __init__(self, *, rank: int, layer: int, direction: str, node: int) -> None:
        self.rank, self.layer, self.direction, self.node = rank, layer, direction, node
        super().__init__(
            f"messages must be finite: rank {rank}, layer {layer}, {direction}: the row of global node "
            f"{node} holds NaN, Inf or an overflowing range; training has diverged, lower the learning rate"
        )


class ObserverFailed(RuntimeError):
    """An observer that raised an exception, named with the event that it was called with."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__(
            f"an observer must not raise, got {type(error).__name__} from {method}: {error}; correct it, or launch "
            "without it"
        )


class UnexpectedMessage(RuntimeError):
    """A message that is not the one its receiver waits for: stale, foreign, of another length, or changed."""

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
            f"a message must be the one its receiver waits for: rank {receiver} from rank {sender}, layer {layer}, "
            f"{direction}, epoch {epoch}: {what} must be {expected}, got {found}; {advice}"
        )


class WorkerFailed(RuntimeError):
    """A launched run that ended because of a worker; its text names rank, cause, phase and epoch."""
