"""Full precision at chosen points of a training from one epoch on; another policy chooses for all other points.

A point is a direction and a layer, written ``backward 1``; a direction alone stands for all of its layers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.axis_part import complete, missing
from gnnqlab.bits.policy import BitPolicy, Bits, Fixed, Rows, in_force
from gnnqlab.bits.policy_prediction import PredictedWidths, PredictionContext
from gnnqlab.bits.row import EXACT
from gnnqlab.former_names import accepts_former_names
from gnnqlab.settings import Former, Range, check
from gnnqlab.worker_context import WorkerContext

__all__ = ["DIRECTIONS", "ExactAt", "ExactFrom", "point_of"]

DIRECTIONS = ("forward", "backward")


def point_of(text: str) -> tuple[str, int | None]:
    """Parse a point into its direction and layer; ``None`` as the layer stands for all layers.

    Raises:
        ValueError: if the text is not a direction with an optional layer.

    Example:
        >>> point_of("backward 1"), point_of("forward")
        (('backward', 1), ('forward', None))
    """
    # A value of another type is split into empty parts, so that it raises the same error as a wrong text.
    direction, _, layer = text.partition(" ") if isinstance(text, str) else ("", "", "")
    # Without a layer the text must equal the direction: a trailing space is an error.
    if direction not in DIRECTIONS or not (layer.isdecimal() or text == direction):
        raise ValueError(
            f"a point must be 'forward' or 'backward', optionally followed by the number of a layer, got {text!r}; "
            "write for instance 'backward 1'"
        )
    return direction, int(layer) if layer else None


@accepts_former_names
@dataclass(frozen=True, kw_only=True)
class ExactAt(Bits):
    """Float32 rows at ``points`` from epoch ``since`` on; the policy ``inner`` chooses all other bit-widths.

    ``b = 32`` where ``(direction, layer)`` is a point and ``t >= since``, else ``b = b_of(row, t)``. Only the rounding
    at a point is removed: a cache still skips rows there, and a schedule still delays them. A row of 32 bits takes
    ``4 D`` bytes, without scale and zero-point. The inner policy adapts as if all rows were rounded, so one that
    assigns bit-widths by their cost counts these rows at the bit-widths that it assigned. The settings of this part
    cannot change during a run. A point without quantized messages stops the training after the first epoch, with an
    error that lists the points there are.

    Not from a paper: it locates the rounding errors that cost accuracy
    (:mod:`gnnqlab.course.experiments.rounding_cost`).
    :func:`gnnqlab.systems.exact_at.exact_at` puts it in a system.

    Example:
        >>> later = ExactAt(inner=Fixed(bits=2), points=("backward 1",), since=30)
        >>> def row(direction, layer):
        ...     return Rows(layer=layer, direction=direction, sender=0, receiver=1, ids=torch.arange(3), seed=0)
        >>> [later.widths(row("backward", 1), epoch) for epoch in (29, 30)], later.widths(row("forward", 1), 30)
        ([2, 32], 2)
    """

    points: Annotated[tuple[str, ...], Former("at")] = DIRECTIONS
    """Points: ``backward 1`` is the embedding gradients of layer 1, ``forward`` the embeddings of all layers."""
    since: Annotated[int, Range(0, unit="epoch")] = 0
    """First epoch in float32."""
    inner: Annotated[Any, Former("of")] = field(default_factory=Fixed)
    """Policy for all other points: a part of the axis ``bits``."""

    def __post_init__(self) -> None:
        # A single text is one point, not a sequence of characters.
        object.__setattr__(self, "points", (self.points,) if isinstance(self.points, str) else tuple(self.points))
        check(self)
        for point in self.points:
            point_of(point)
        if not self.points:
            raise ValueError("points must name at least one point, got none; write for instance points=('backward 1',)")
        # A pair lacks the members of a policy: each direction needs a wrapper of its own.
        if missing(self.inner, Bits):
            raise ValueError(
                f"inner must be one policy for bits, got {self.inner!r}; give each of a pair its own, as "
                "gq.systems.exact_at(system, 'backward 1') does"
            )
        complete(self.inner, Bits)

    @property
    def name(self) -> str:
        """Name that differs from the name of another ``ExactAt``, which may be the policy inside.

        Example:
            >>> ExactAt(points=("backward 1",), since=30).name
            'exact-at-backward-1-from-30'
        """
        return "-".join(["exact-at", *self.points, "from", str(self.since)]).replace(" ", "-")

    def covers(self, direction: str, layer: int) -> bool:
        """Return True if a layer and direction are among the points."""
        return any(point in (direction, f"{direction} {layer}") for point in self.points)

    def exact(self, direction: str, layer: int, epoch: int) -> bool:
        """Return True if rows of a layer and direction are float32 in an epoch."""
        return epoch >= self.since and self.covers(direction, layer)

    wraps: ClassVar[bool] = True

    def wrap(self, present: Any, direction: str | None = None) -> Any:
        """Wrap another policy, with the points of one direction if one is named; return it unwrapped without points.

        Example:
            >>> part = ExactAt(points=("backward 1",))
            >>> part.wrap(Fixed(bits=2)).inner, part.wrap(Fixed(bits=2), "forward")
            (Fixed(bits=2), Fixed(bits=2))
        """
        # A wrapper without points would only require that the codec supports 32 bits.
        own_points = tuple(point for point in self.points if direction is None or point_of(point)[0] == direction)
        return replace(self, inner=present, points=own_points) if own_points else present

    def build(self, worker: WorkerContext) -> ExactFrom:
        """Build the policy of one worker, around the policy that ``inner`` builds."""
        return ExactFrom(self, in_force(self.inner, worker))

    @property
    def choices(self) -> tuple[int, ...]:
        # If every row is float32 from the start, the inner policy's bit-widths are never used.
        is_exact = self.since == 0 and set(DIRECTIONS) <= set(self.points)
        return (EXACT,) if is_exact else tuple(sorted({*self.inner.choices, EXACT}))

    def version(self, epoch: int) -> int:
        # Versions of the inner policy take the even numbers, so that the start of float32 changes the number too.
        return 2 * self.inner.version(epoch) + (epoch >= self.since)

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        if self.exact(rows.direction, rows.layer, epoch):
            return EXACT
        widths: int | Tensor = self.inner.widths(rows, epoch)
        return widths

    @property
    def needs_every_row(self) -> str:
        reason: str = self.inner.needs_every_row
        return reason

    @property
    def weighs_rows(self) -> bool:
        weighs_rows: bool = self.inner.weighs_rows
        return weighs_rows

    @property
    def of_halo_rows(self) -> bool:
        halo_rows: bool = self.inner.of_halo_rows
        return halo_rows

    @property
    def times_links(self) -> bool:
        times_links: bool = self.inner.times_links
        return times_links

    @property
    def start(self) -> int:
        """Bit-width before the first assignment, if the policy inside assigns bit-widths."""
        start: int = self.inner.start
        return start

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use the policy inside, or an empty text."""
        reason: str = self.inner.refuses(system)
        return reason

    def predict(self, context: PredictionContext) -> PredictedWidths:
        """Predict the bit-widths of the other policy, with 32 bits at the points; by default from epoch ``since`` on.

        Raises:
            ValueError: if the other policy cannot be predicted.
        """
        prediction: PredictedWidths = self.inner.predict(context)
        if context.epoch is not None and context.epoch < self.since:  # before the first float32 epoch
            return prediction
        # Same shapes as predicted by the inner policy: one (n,) per message.
        overrides = {
            (layer, direction): [torch.full_like(part, EXACT) for part in parts]
            for (layer, direction), parts in prediction.widths.items()
            if self.covers(direction, layer)
        }
        starts_later = context.epoch is None and self.since > 0
        assumes = (f"an epoch from {self.since} on, in which points are exact",) if starts_later else ()
        return replace(prediction, widths={**prediction.widths, **overrides}, assumes=(*prediction.assumes, *assumes))


class ExactFrom(BitPolicy):
    """Policy of one worker that :class:`ExactAt` builds.

    Args:
        settings: the float32 points and their first epoch.
        other: policy of this worker for all other points.
    """

    def __init__(self, settings: ExactAt, other: BitPolicy) -> None:
        self.settings, self.other = settings, other
        self.points: set[tuple[str, int]] = set()
        """(direction, layer) of all messages so far."""

    @property
    def choices(self) -> tuple[int, ...]:
        return self.settings.choices

    @property
    def by_settings(self) -> bool:
        return self.other.by_settings

    def version(self, epoch: int) -> int:
        return 2 * self.other.version(epoch) + (epoch >= self.settings.since)  # as in ExactAt.version

    def widths(self, rows: Rows, epoch: int) -> int | Tensor:
        self.points.add((rows.direction, rows.layer))  # for require_points
        if self.settings.exact(rows.direction, rows.layer, epoch):
            return EXACT
        return self.other.widths(rows, epoch)

    def require_points(self) -> None:
        """Refuse a point without messages so far; a training without any messages passes.

        Raises:
            ValueError: with the points that there are.
        """
        points = [point for point in self.settings.points if not any(_is_of(point, *each) for each in self.points)]
        if points and self.points:  # one worker sends no messages, so it has no points to check
            raise ValueError(
                f"every point must have quantized messages, got none for {' and '.join(map(repr, points))}; choose "
                f"from the points of this training: {', '.join(_sorted_texts(self.points))}"
            )

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        """Return the adaptive components of the other policy, and a check that every point has messages."""
        return [*self.other.adaptives(training), _PointCheck(training.worker.named(self.settings.name), self)]


class _PointCheck(Adaptive):
    """Check, once after the first epoch, that every point has messages."""

    decides = False

    def __init__(self, name: str, policy: ExactFrom) -> None:
        self.name, self._policy, self._checked = name, policy, False

    def observe(self, arrivals: Sequence[Any]) -> None:
        if not self._checked:  # every epoch has the same points, so the first is enough
            self._policy.require_points()
            self._checked = True


def _is_of(point: str, direction: str, layer: int) -> bool:
    return point_of(point) in ((direction, None), (direction, layer))


def _sorted_texts(points: Iterable[tuple[str, int]]) -> list[str]:
    sorted_points = sorted(points, key=lambda point: (DIRECTIONS.index(point[0]), point[1]))  # forward first
    return [f"{direction} {layer}" for direction, layer in sorted_points]
