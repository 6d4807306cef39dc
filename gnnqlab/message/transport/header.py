"""Message headers: sender, receiver, epoch, exchange key, length and checksum.

The header is a separate message of ``SIZE`` bytes, so that the body can be received in place without a copy. The tag of
the body is a hash of all header fields that both sides can compute. A body of another epoch, layer, direction or length
therefore never matches a posted receive; its header does, and the error names the difference. (Gloo ends the process if
a message is longer than its buffer, and accepts a shorter one silently.)

A header is sent after its body but waited for first: the sender computes the checksum while the body is being sent, and
the receiver wakes up once.
"""

from __future__ import annotations

import functools
import hashlib
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

from gnnqlab.errors import UnexpectedMessage

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["SIZE", "TAG", "Header", "Headers", "checksum", "run_number", "sends_headers"]

MAGIC = b"GNQL"
VERSION = 1
TAG = 1
"""Tag of every header; bodies have tags above it."""

_FORMAT = struct.Struct("<4sHHQqIIIIQQQ")
SIZE = _FORMAT.size
"""Bytes of a header."""

_DIRECTIONS = ("forward", "backward")
_LANES = 1021
"""Number of partial sums of a checksum. An odd prime, so that swapped rows fall into different lanes."""


@dataclass(frozen=True, eq=False)
class Header:
    """Identity of one message; fields in wire order, after magic and version."""

    direction: str
    run: int
    """Number of the run, see :func:`run_number`."""
    epoch: int
    layer: int
    sender: int
    receiver: int
    columns: int
    length: int
    """Bytes of the body; the maximum if a cache selects its rows."""
    layout: int
    """Digest of the layout, see :attr:`gnnqlab.message.layout.Layout.digest`."""
    round: int = 0
    """Communication round of the layer and direction; shares a word with the direction."""
    packed: bytes = field(init=False, repr=False)
    """All bytes except the checksum."""
    tag: int = field(init=False, repr=False)
    """Tag of the body, an int32 in [2, 2^31); equal headers have equal tags."""

    def __post_init__(self) -> None:
        packed = _FORMAT.pack(
            MAGIC,
            VERSION,
            _DIRECTIONS.index(self.direction) | self.round << 1,
            self.run,
            self.epoch,
            self.layer,
            self.sender,
            self.receiver,
            self.columns,
            self.length,
            self.layout,
            0,
        )
        object.__setattr__(self, "packed", packed[:-8])
        object.__setattr__(self, "tag", 2 + zlib.crc32(packed) % (2**31 - 2))  # tag 0: no header, 1: a header

    def pack(self, checksum: int = 0) -> bytes:
        """Encode the header as ``SIZE`` bytes; only the sender can compute the checksum of the body."""
        return self.packed + checksum.to_bytes(8, "little")

    def check(self, came: bytes) -> int:
        """Compare with a received header; return the checksum in it.

        Args:
            came: received header, ``SIZE`` bytes.

        Raises:
            UnexpectedMessage: if a field differs; the message names the first one.
        """
        magic, version, direction, *numbers, checksum = _FORMAT.unpack(came)
        if magic != MAGIC:
            raise self.refusal("magic", MAGIC, magic, "these bytes are no message of gnnqlab")
        if version != VERSION:
            raise self.refusal("format version", VERSION, version, "install one version on every machine")
        if came[:-8] == self.packed:
            return int(checksum)
        # Direction and round share a word: the lowest bit is the direction.
        received_header = replace(Header(_DIRECTIONS[direction & 1], *numbers), round=direction >> 1)
        for name, advice in _ADVICE.items():
            if getattr(received_header, name) != getattr(self, name):
                raise self.refusal(name, getattr(self, name), getattr(received_header, name), advice)
        raise AssertionError("headers that differ differ in a field")

    def refusal(self, what: str, expected: object, found: object, advice: str) -> UnexpectedMessage:
        """Build the error for an unexpected message."""
        return UnexpectedMessage(
            sender=self.sender,
            receiver=self.receiver,
            layer=self.layer,
            direction=self.direction,
            epoch=self.epoch,
            what=what,
            expected=expected,
            found=found,
            advice=advice,
        )


_ADVICE = {
    "run": "it comes from another run, or from a worker with another configuration",
    "sender": "it was sent by another worker",
    "receiver": "it was meant for another worker",
    "epoch": "the workers are out of step",
    "layer": "the workers are out of step",
    "round": "the workers are out of step",
    "direction": "the workers are out of step",
    "columns": "the workers train different models",
    "length": "the workers disagree about rows or bit-widths",
    "layout": "the workers disagree about bit-widths",
}
"""Field -> probable cause of a difference, in the order of comparison."""


class Headers:
    """Headers that one worker sends and expects in one exchange."""

    def __init__(self, sent: Mapping[int, Header], expected: Mapping[int, Header]) -> None:
        """Allocate the receive buffers.

        Args:
            sent: peer -> header of the message to it.
            expected: peer -> header of the message from it.
        """
        self.sent, self.expected = sent, expected
        self.send: dict[int, Tensor] = {}
        """Peer -> packed header with checksum, uint8 ``(SIZE,)``."""
        buffers = torch.empty(len(expected), SIZE, dtype=torch.uint8).unbind()  # one allocation, (SIZE,) each
        self.receive = dict(zip(expected, buffers, strict=True))
        """Peer -> receive buffer of its header."""
        self.num_bytes = SIZE * len(sent)
        """Bytes of the headers that this worker sends."""
        self._sums: dict[int, int] = {}

    def seal(self, peer: int, body: Tensor, device: torch.device | str = "cpu") -> Tensor:
        """Pack the header for a peer with the checksum of the body."""
        # A bytearray, because a tensor must not share the memory of immutable bytes.
        header_bytes = bytearray(self.sent[peer].pack(checksum(body)))
        self.send[peer] = torch.frombuffer(header_bytes, dtype=torch.uint8).to(device)  # (SIZE,) uint8
        return self.send[peer]

    def receive_on(self, device: torch.device) -> None:
        """Move the receive buffers to a device, for a backend that cannot receive into host memory."""
        self.receive = {peer: buffer.to(device) for peer, buffer in self.receive.items()}

    def check_received(self, peer: int) -> None:
        """Check the header received from a peer, and store its checksum.

        Raises:
            UnexpectedMessage: if it is not the expected one.
        """
        self._sums[peer] = self.expected[peer].check(self.receive[peer].cpu().numpy().tobytes())

    def verify(self, peer: int, body: Tensor) -> None:
        """Compare a received body with the checksum in its header.

        Raises:
            UnexpectedMessage: if they differ.
        """
        body_sum = checksum(body)
        if body_sum != self._sums[peer]:
            expected_sum = f"{self._sums[peer]:#018x}"
            advice = "its bytes were changed in transit, or its buffer was overwritten while it was sent"
            raise self.expected[peer].refusal("checksum", expected_sum, f"{body_sum:#018x}", advice)


def checksum(body: Tensor) -> int:
    """Compute a 64-bit checksum of a message, at memory bandwidth.

    32-bit words are summed in ``_LANES`` lanes; then the lanes are weighted with odd numbers and summed in 64 bits.

    Args:
        body: uint8 vector, aligned to four bytes.

    Example:
        >>> body = torch.arange(100, dtype=torch.uint8)
        >>> checksum(body) == checksum(body.clone()), checksum(body) == checksum(body.flip(0))
        (True, False)
    """
    # Whole rows of lanes first, then the words of the last, incomplete row, then the last bytes.
    words = body.numel() // 4
    full_words = words // _LANES * _LANES  # words in complete rows of lanes
    lanes = np.zeros(_LANES, np.int32)  # 32-bit sums wrap around, which loses no single changed byte
    if body.is_cuda:  # sum on the device; only the lanes are copied
        lanes += body[: 4 * full_words].view(torch.int32).view(-1, _LANES).sum(0, dtype=torch.int32).cpu().numpy()
        tail = body[4 * full_words :].cpu().numpy()
    else:
        data = body.numpy()
        if full_words:
            np.add.reduce(data[: 4 * full_words].view(np.int32).reshape(-1, _LANES), 0, dtype=np.int32, out=lanes)
        tail = data[4 * full_words :]
    lanes[: words - full_words] += tail[: 4 * (words - full_words)].view(np.int32)
    lanes = lanes if full_words else lanes[:words]  # the other lanes are zeros
    # The last 0 to 3 bytes do not fill a word; their number is appended, so that trailing zeros count.
    tail_word = int.from_bytes(tail[4 * (words - full_words) :].tobytes() + bytes([body.numel() % 4]), "little")
    # Odd factors are invertible modulo 2^64, so a change of one lane, or of the last bytes, changes the sum.
    return (int(np.dot(lanes.astype(np.int64), _weights()[: lanes.size])) + tail_word * 0x9E3779B97F4A7C15) % 2**64


@functools.cache
def _weights() -> NDArray[np.int64]:
    # At the first checksum, because the import of numpy.random would take a tenth of that of the package.
    return np.random.default_rng(0x474E514C).integers(1, 1 << 62, _LANES, dtype=np.int64) * 2 + 1


def run_number(*what: str) -> int:
    """Hash strings that identify a run to a 64-bit number, equal on all of its workers."""
    # Separated, so that ("ab", "c") and ("a", "bc") differ.
    return int.from_bytes(hashlib.blake2b("\0".join(what).encode(), digest_size=8).digest(), "little")


def sends_headers(setting: str) -> bool:
    """Return True if messages have headers under this value of ``verify_messages``."""
    over_nccl = dist.is_initialized() and dist.get_backend() == "nccl"
    return setting == "on" or (setting == "auto" and not over_nccl)
