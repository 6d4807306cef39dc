"""Codec that sends coefficients of a row in a basis of few directions, which follows the rows of a training.

Letters: n rows of a message, m of one part of it, D columns, r directions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor

from gnnqlab.adaptive import Adaptive, Training
from gnnqlab.bits.exact_at import DIRECTIONS
from gnnqlab.bits.policy import USUAL, Period
from gnnqlab.kernels.codec.row_errors import ERROR_WIDTHS
from gnnqlab.kernels.codec.rows import row_bytes
from gnnqlab.message.codecs.base import Codec, Noise, PartCodec, PartRows
from gnnqlab.message.codecs.basis import VERSIONS, Bases, Basis, BasisRefresh, refresh_bytes
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.message.codecs.least_variance import LeastVariance
from gnnqlab.message.codecs.lloyd_max import relative_error
from gnnqlab.message.exchange_key import ExchangeKey
from gnnqlab.message.layout import Layout
from gnnqlab.settings import OneOf, Range, check

__all__ = ["LowRank", "with_basis"]

_COEFFICIENT_BITS = 8
"""Bits of a coefficient: a row of b bits an element has one coefficient per byte."""
_MAX_COLUMNS = 2048
"""Maximum number of columns of rows with a basis: second moments take ``8 D^2`` bytes."""
_MAX_ROWS = 4096
"""Maximum number of traced rows of a message."""


@dataclass(frozen=True, kw_only=True)
class LowRank(PartCodec):
    """Coefficients of a row in the leading directions of the rows of its exchange key (after ResBM, arXiv 2604.11947).

    ``c = U^T x`` is sent in 8 bits, rounded stochastically between the row's least and largest coefficient, and decoded
    as ``U c``. A row of b = 1, 2 or 4 bits an element has ``r = ceil(D b / 8)`` coefficients, so it takes
    ``ceil(D b / 8) + 4`` bytes as with :class:`gnnqlab.message.codecs.least_variance.LeastVariance`, and the bit policy
    chooses the rank: all sizes are known before a training. Rows of 8 bits and more are encoded as there.

    U, ``(D, r)``, has orthonormal columns and belongs to one exchange key (layer, direction, round). Epoch ``first``,
    and the last one of every ``refresh_every``, are traced: U follows from the rows that all workers encode in them (up
    to 4096 of each message, evenly spaced), by orthogonal iteration from the former basis on the sum of their second
    moments. It is computed in the background during the next epoch and replaced after that one on all workers, so it
    serves from the second epoch after the traced one on; a message is decoded with the basis of its own epoch. A
    refresh sends the bytes of :func:`gnnqlab.message.codecs.basis.refresh_bytes`, ``bytes_bases`` in records.

    Early in a training gradients turn faster than bases follow. So a key uses its basis at a bit-width only if the
    share of the squared norm outside its *former* basis, measured at the end of that one's period, times ``least_gain``
    is at most the error of rotated codes of this bit-width (0.57 at one bit, see
    :func:`gnnqlab.message.codecs.lloyd_max.relative_error`). Otherwise, and until the second basis, its rows are
    encoded as by ``LeastVariance``. Rows of few columns, such as the classes of the last layer, hardly ever have such a
    basis; rows of more than 2048 columns, such as input features, never.

    The part of a row outside the basis is never sent, which is a bias: it is equal in every draw, and a mean over
    epochs keeps it. A cache with feedback or differences sends it after the next refresh; with one, set ``least_gain``
    to 0, because the rows that it sends next lie outside the former basis by construction. Theorems about unbiased
    messages and policies that weigh rows by their variance are refused.

    Measured on cora (GCN, 3 layers of 256, ``gnnqlab bench codecs --parts spectrum``; float32 messages until epoch 59,
    bases of epoch 54): gradients at one bit have a squared error of 0.05 of their square, 0.001 and 0.03 in the layers
    with 256 columns, the best existing codec 0.55; embeddings 0.10 and 0.48. On ``amazon_computers`` after 30 epochs:
    gradients 0.056 and 0.54, embeddings 0.005 and 0.25. Codes of one bit in both directions add
    noise to the rows that a basis must hold: in such a training with 64 columns on 4 workers 0.2 to 0.3 of the
    gradients of the middle layer are outside.

    Differs: ResBM learns the projection of a pipeline's activations by gradient descent; here it follows from second
    moments, as in PowerSGD (Vogels et al., NeurIPS 2019), and gradients have bases too. Without a training there is
    no basis and every row is encoded as by ``LeastVariance``, so ``gnnqlab.halo`` refuses this codec.

    Example:
        >>> LowRank().rank(1, 256), LowRank().rank(4, 256), LowRank().layout(1, 10, 256).num_bytes
        (32, 128, 360)
        >>> [epoch for epoch in range(20) if LowRank().refreshes_after(epoch)]
        [1, 4, 9, 14, 19]
    """

    separate_widths: ClassVar[tuple[int, ...]] = (32, 16, 8, 4, 2, 1)
    undecodable: ClassVar[str] = "rows that may be rotated"

    refresh_every: Period = 5
    """Epochs between two bases; the first one is computed during the epoch after ``first``."""
    first: Annotated[int, Range(0)] = 1
    """Epoch whose rows give the first basis."""
    iterations: Annotated[int, Range(1, 16)] = 2
    """Products with the second moments per refresh."""
    least_gain: Annotated[float, Range(0)] = 2.0
    """Least factor by which a basis must reduce the squared error of a row to be used; above 1, because its error is a
    bias, which does not average out."""
    noise: Annotated[str, OneOf(("receiver", "node"))] = "receiver"
    """Random numbers per ``receiver`` or per ``node``, see :class:`gnnqlab.message.codecs.codec.Stochastic`."""

    def __post_init__(self) -> None:
        check(self)

    @property
    def widths(self) -> tuple[int, ...]:
        return USUAL

    @property
    def _base(self) -> LeastVariance:
        return LeastVariance(noise=self.noise)

    @property
    def _coefficients(self) -> Stochastic:
        return Stochastic(parameters="bfloat16", noise=self.noise)

    def param_bytes(self, bits: int, columns: int) -> int:
        return self._base.param_bytes(bits, columns)

    def biased(self, direction: str) -> str:
        """Return the reason why messages are biased."""
        return "never sends the part of a row outside its basis, which is the same in every draw"

    @staticmethod
    def rank(bits: int, columns: int) -> int:
        """Return the number of coefficients of a row, ``ceil(D b / 8)``."""
        return int(row_bytes(columns, bits))

    def refreshes_after(self, epoch: int) -> bool:
        """Return True if the rows of this epoch are traced, and bases computed from them during the next one."""
        return epoch == self.first or (epoch > self.first and (epoch + 1) % self.refresh_every == 0)

    def shared_bytes(self, columns: Sequence[int], choices: Sequence[int], workers: int, epoch: int | None) -> float:
        """Return the bytes of a refresh in the epoch after a traced one, else 0; a mean over a period without epoch.

        Example:
            >>> [LowRank().shared_bytes([64], (1,), 2, epoch) for epoch in (4, 5, None)]  # 2 * 8712 + 4160
            [0.0, 21584.0, 4316.8]
        """
        widths = {*choices} & {*ERROR_WIDTHS}
        if not widths or workers == 1 or (epoch is not None and not self.refreshes_after(epoch - 1)):
            return 0.0
        shapes = [(count, self.rank(max(widths), count)) for count in columns if count <= _MAX_COLUMNS]
        summed, sent_by_first = refresh_bytes(shapes, self.iterations)
        return (workers * summed + sent_by_first) / (1 if epoch is not None else self.refresh_every)

    def uses(self, basis: Basis, bits: int, columns: int) -> bool:
        """Return True if rows of a bit-width are encoded in a basis.

        Example:
            >>> basis = Basis(0, torch.eye(16)[:, :2], torch.tensor([0.7, 0.2]))
            >>> [LowRank(least_gain=gain).uses(basis, 1, 16) for gain in (2.0, 8.0)]
            [True, False]
        """
        rank = self.rank(bits, columns)
        if not 0 < rank <= basis.rank or columns != len(basis.directions):
            return False
        return basis.lost_share(rank) * self.least_gain <= relative_error(bits, columns)

    def refuses(self, system: Any) -> str:
        """Return the reason why a system cannot use bases, or an empty string."""
        if system.schedule.lag < VERSIONS:
            return ""
        return (
            f"{VERSIONS} versions of a basis are stored, for messages that are decoded at most one epoch after their "
            f"encoding, and this schedule decodes them up to {system.schedule.lag} epochs after it; choose "
            "schedule Synchronous(), Overlapped() or Pipelined(), or codec LeastVariance()"
        )

    def at_work(self) -> LowRank:
        """Create the codec of one worker, which has bases."""
        return _LowRankAtWork(self, Bases())

    def directions(self, bits: int, columns: int, noise: Noise | None) -> Tensor | None:
        """Return the directions in which rows of a message are encoded, ``(D, r)``; ``None``: there is no basis."""
        return None

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        """Encode rows; there are no statistics, because no variance follows from them.

        Raises:
            NonFiniteRow: if a row holds NaN or Inf, or a coefficient overflows.
        """
        super().encode(x, rows, ids, layout, segment, noise)
        return None

    def encode_part(self, part: PartRows, x: Tensor, noted: Tensor, noise: Noise) -> None:
        directions = self.directions(part.width, x.shape[1], noise)
        if directions is None:
            statistics = self._base.notes(x, part.rows) if part.width in ERROR_WIDTHS else noted
            self._base.encode_part(part, x, statistics, noise)
            return
        coefficients = x.index_select(0, part.rows) @ directions  # (m, D) @ (D, r) -> (m, r)
        self._coefficients.encode_part(_coefficient_rows(part), coefficients, noted, noise)

    def decode_part(self, part: PartRows, out: Tensor, noise: Noise | None, *, accumulate: bool) -> None:
        directions = self.directions(part.width, out.shape[1], noise)
        if directions is None:
            self._base.decode_part(part, out, noise, accumulate=accumulate)
            return
        coefficients = out.new_empty(part.rows.numel(), directions.shape[1])  # (m, r)
        self._coefficients.decode_part(_coefficient_rows(part), coefficients, noise, accumulate=False)
        rows = coefficients @ directions.T  # (m, r) @ (r, D) -> (m, D)
        (out.index_add_ if accumulate else out.index_copy_)(0, part.rows, rows)


def _coefficient_rows(part: PartRows) -> PartRows:
    """Return the part with coefficients in place of columns: rows numbered from 0, one byte per coefficient."""
    rows = torch.arange(part.rows.numel(), device=part.rows.device)
    return replace(part, width=_COEFFICIENT_BITS, bits=_COEFFICIENT_BITS, rows=rows)


class _LowRankAtWork(LowRank):
    """Codec of one worker, or of one of its exchange keys, with the worker's bases."""

    def __init__(self, settings: LowRank, bases: Bases, place: ExchangeKey | None = None) -> None:
        super().__init__(**{field.name: getattr(settings, field.name) for field in fields(LowRank)})
        self.__dict__["bases"], self.__dict__["place"] = bases, place  # settings are frozen, this state is not
        self.bases: Bases
        self.place: ExchangeKey | None

    def codec_at(self, place: ExchangeKey) -> Codec:
        """Return the codec of an exchange key."""
        return _LowRankAtWork(self, self.bases, place)

    def directions(self, bits: int, columns: int, noise: Noise | None) -> Tensor | None:
        if self.place is None or noise is None or bits not in ERROR_WIDTHS:
            return None
        basis = self.bases.basis_for(self.place, noise.epoch)
        if basis is None or not self.uses(basis, bits, columns):
            return None
        return basis.directions[:, : self.rank(bits, columns)]

    def encode(
        self, x: Tensor, rows: Tensor, ids: Tensor, layout: Layout, segment: Tensor, noise: Noise
    ) -> Tensor | None:
        statistics = super().encode(x, rows, ids, layout, segment, noise)  # first, because it refuses NaN and Inf
        has_codes = any(share.bits in ERROR_WIDTHS and share.rows for share in layout.shares)
        is_traced = has_codes and self.refreshes_after(noise.epoch) and layout.columns <= _MAX_COLUMNS
        if self.place is not None and is_traced:
            step = -(-rows.numel() // _MAX_ROWS)  # rounded up
            self.bases.trace(self.place, x.index_select(0, rows[::step]))
        return statistics

    def adaptives(self, training: Training) -> Sequence[Adaptive]:
        """Return the callback that refreshes the bases; a single worker sends no rows and has none."""
        if training.worker.workers == 1:
            return []
        directions = DIRECTIONS if training.worker.direction is None else (training.worker.direction,)
        policies = [training.part("bits", direction) for direction in directions]
        return [BasisRefresh(self, self.bases, policies, training.worker, training.phases)]


def with_basis(codec: LowRank, rows: Tensor, bits: int) -> LowRank:
    """Return the codec of one exchange key with the basis of given rows, for measurements without a training.

    Args:
        codec: settings.
        rows: float32 ``(n, D)``.
        bits: largest bit-width that will be encoded.

    Example:
        >>> from gnnqlab.simulation.codec_error import codec_error
        >>> generator = torch.Generator().manual_seed(0)
        >>> rows = torch.randn(100, 4, generator=generator) @ torch.randn(4, 64, generator=generator)
        >>> codec_error(with_basis(LowRank(), rows, 1), rows, 1).squared < 1e-3  # four directions hold everything
        True
    """
    place, bases = ExchangeKey(0, "forward"), Bases()
    values, vectors = torch.linalg.eigh(rows.double().T @ rows.double())  # (D,), (D, D), ascending
    count = codec.rank(bits, rows.shape[1])
    shares = values.flip(0)[:count] / values.sum()
    bases.install(place, Basis(0, vectors.flip(1)[:, :count].float(), shares))
    return _LowRankAtWork(codec, bases, place)
