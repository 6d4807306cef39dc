"""What goes with a message: whose it is, of when, how long and with which sum.

The header is a message of its own, ``SIZE`` bytes beside the body, so that rows still land where they belong without
a copy. The body's tag is drawn from everything that both sides know of it. A body of another epoch, layer, direction or
length therefore never meets the wrong buffer; its header does, and says what is wrong. (Gloo ends the process if a
message is longer than its buffer, and takes a shorter one in silence.)

A header is sent behind its body and waited for first: the checksum is found while the body is under way, and whoever
waits is woken once.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from gnnqlab.errors import UnexpectedMessage

__all__ = ["SIZE", "TAG", "Header", "Headers", "checksum", "run_number"]

MAGIC = b"GNQL"
VERSION = 1
TAG = 1
"""Tag of every header; bodies have tags above it."""

_FORMAT = struct.Struct("<4sHHQqIIIIQQQ")
SIZE = _FORMAT.size
"""Bytes of a header."""

_DIRECTIONS = ("forward", "backward")
_LANES = 1021
"""Words are added up in this many lanes. An odd prime: rows that changed places do not end in the same lanes."""
_WEIGHTS = np.random.default_rng(0x474E514C).integers(1, 1 << 62, _LANES, dtype=np.int64) * 2 + 1


@dataclass(frozen=True, eq=False)
class Header:
    """One message's identity; fields in the order of the wire, behind magic and version."""

    direction: str
    run: int
    """Number of the run, see :func:`run_number`."""
    epoch: int
    layer: int
    sender: int
    receiver: int
    columns: int
    length: int
    """Bytes of the body; of one whose rows its sender chose, the most that it may have."""
    layout: int
    """Digest of the row widths and of the place of every row."""
    round: int = 0
    """Which exchange of the layer and direction; it shares a word with the direction."""

    def pack(self, checksum: int = 0) -> bytes:
        """Return the header as ``SIZE`` bytes; the checksum of the body is no part of what both sides know."""
        return _FORMAT.pack(
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
            checksum,
        )

    @cached_property
    def tag(self) -> int:
        """Tag of the body, in [2, 2^31): equal where headers are."""
        return 2 + zlib.crc32(self.pack()) % (2**31 - 2)

    def check(self, came: bytes) -> int:
        """Compare with what came; return the checksum that the body must have.

        Raises:
            UnexpectedMessage: if anything differs; the text names the first difference.
        """
        magic, version, direction, *numbers, checksum = _FORMAT.unpack(came)
        if magic != MAGIC:
            raise self.refusal("magic", MAGIC, magic, "these bytes are no message of gnnqlab")
        if version != VERSION:
            raise self.refusal("format version", VERSION, version, "install one version on every machine")
        if came[:-8] == self.pack()[:-8]:
            return int(checksum)
        found = replace(Header(_DIRECTIONS[direction & 1], *numbers), round=direction >> 1)
        for name, advice in _ADVICE.items():
            if getattr(found, name) != getattr(self, name):
                raise self.refusal(name, getattr(self, name), getattr(found, name), advice)
        raise AssertionError("headers that differ differ in a field")

    def refusal(self, what: str, expected: object, found: object, advice: str) -> UnexpectedMessage:
        """Return the error for a message that is not the expected one."""
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
"""Fields in the order they are compared, and what a difference means."""


class Headers:
    """The headers of one exchange on one worker: those it sends, and those it expects."""

    def __init__(self, sent: Mapping[int, Header], expected: Mapping[int, Header]) -> None:
        """Prepare the headers.

        Args:
            sent: peer -> header of the message to it.
            expected: peer -> header of the message from it.
        """
        self.sent, self.expected = sent, expected
        self.send: dict[int, Tensor] = {}
        """Bytes of the headers that are sealed, uint8 ``(SIZE,)`` each."""
        self.receive = {peer: torch.empty(SIZE, dtype=torch.uint8) for peer in expected}
        """Where headers arrive."""
        self._sums: dict[int, int] = {}

    def seal(self, peer: int, body: Tensor, device: torch.device | str = "cpu") -> Tensor:
        """Return the bytes of the header to a peer, with the checksum of the body."""
        packed = bytearray(self.sent[peer].pack(checksum(body)))
        self.send[peer] = torch.frombuffer(packed, dtype=torch.uint8).to(device)
        return self.send[peer]

    def receive_on(self, device: torch.device) -> None:
        """Let headers arrive on a device, for a backend that moves only its memory."""
        self.receive = {peer: buffer.to(device) for peer, buffer in self.receive.items()}

    @property
    def num_bytes(self) -> int:
        """Bytes that the headers add to what this worker sends."""
        return SIZE * len(self.sent)

    def came(self, peer: int) -> None:
        """Check the header that came from a peer.

        Raises:
            UnexpectedMessage: if it is not the expected one.
        """
        self._sums[peer] = self.expected[peer].check(self.receive[peer].cpu().numpy().tobytes())

    def verify(self, peer: int, body: Tensor) -> None:
        """Compare the body that came from a peer with the checksum in its header.

        Raises:
            UnexpectedMessage: if they differ.
        """
        found = checksum(body)
        if found != self._sums[peer]:
            expected = f"{self._sums[peer]:#018x}"
            advice = "its bytes were changed on the way, or its buffer was written to while it was sent"
            raise self.expected[peer].refusal("checksum", expected, f"{found:#018x}", advice)


def checksum(body: Tensor) -> int:
    """Return 64 bits that depend on every byte of a message, at the speed of memory.

    32-bit words are added up in ``_LANES`` lanes, the lanes are weighted with odd numbers and added up in 64 bits.

    Args:
        body: uint8 vector, aligned to four bytes.

    Example:
        >>> body = torch.arange(100, dtype=torch.uint8)
        >>> checksum(body) == checksum(body.clone()), checksum(body) == checksum(body.flip(0))
        (True, False)
    """
    words = body.numel() // 4
    whole = words // _LANES * _LANES
    lanes = np.zeros(_LANES, np.int32)
    if body.is_cuda:
        lanes += body[: 4 * whole].view(torch.int32).view(-1, _LANES).sum(0, dtype=torch.int32).cpu().numpy()
        rest = body[4 * whole :].cpu().numpy()
    else:
        data = body.numpy()
        if whole:
            np.add.reduce(data[: 4 * whole].view(np.int32).reshape(-1, _LANES), 0, dtype=np.int32, out=lanes)
        rest = data[4 * whole :]
    lanes[: words - whole] += rest[: 4 * (words - whole)].view(np.int32)
    last = int.from_bytes(rest[4 * (words - whole) :].tobytes() + bytes([body.numel() % 4]), "little")
    return (int(np.dot(lanes.astype(np.int64), _WEIGHTS)) + last * 0x9E3779B97F4A7C15) % 2**64


def run_number(*what: str) -> int:
    """Return a 64-bit number of a run from whatever tells it from others, equal on all of its workers."""
    return int.from_bytes(hashlib.blake2b("\0".join(what).encode(), digest_size=8).digest(), "little")
