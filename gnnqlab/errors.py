"""The package's own exceptions; everything else is a plain ``ValueError``, ``TypeError`` or ``RuntimeError``."""

__all__ = ["NonFiniteMessage", "NonFiniteRow", "WorkerFailed"]


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


class WorkerFailed(RuntimeError):
    """A launched run that ended because of a worker; its text names rank, cause, phase and epoch."""
