"""Collectives of plain values: JSON and arrays, never pickles, which could run code of a stranger on the network.

A plain value is ``None``, a bool, a number, a text, a tensor or array of numbers, or a tuple, list or dictionary of
plain values. It is sent as one vector of bytes: the number of bytes of a JSON text (eight bytes, little endian), that
text, and the contents of all arrays, in the order in which the text names them.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np
import torch
import torch.distributed as dist
from torch import Tensor

__all__ = ["all_gather_values", "broadcast_value", "from_bytes", "gather_values", "to_bytes"]

_HEADER_BYTES = 8
_DTYPES = {str(dtype).removeprefix("torch."): dtype for dtype in (
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64,
    torch.float16, torch.bfloat16, torch.float32, torch.float64,
)}  # fmt: skip


def to_bytes(value: object) -> bytes:
    """Return a plain value as bytes.

    Raises:
        TypeError: if a part is none of the types of this module.

    Example:
        >>> from_bytes(to_bytes({(0, "forward"): torch.tensor([1.5, 2.5])}))
        {(0, 'forward'): tensor([1.5000, 2.5000])}
    """
    contents: list[bytes] = []
    text = json.dumps(_encoded(value, contents)).encode()
    return b"".join([len(text).to_bytes(_HEADER_BYTES, "little"), text, *contents])


def from_bytes(data: bytes) -> Any:
    """Return the plain value of :func:`to_bytes`; an array comes back as what it was, a tensor on the CPU.

    Raises:
        ValueError: if the bytes hold no plain value.
    """
    end = _HEADER_BYTES + int.from_bytes(data[:_HEADER_BYTES], "little")
    if len(data) < _HEADER_BYTES or len(data) < end:
        _refuse(f"{len(data)} bytes, which end too early")
    try:
        encoded = json.loads(data[_HEADER_BYTES:end])
    except (ValueError, RecursionError):  # also wrong UTF-8
        _refuse("text that is not JSON")
    value, rest = _decoded(encoded, memoryview(data)[end:])
    if rest:
        _refuse(f"{len(rest)} bytes after the last array")
    return value


def all_gather_values(value: object, *, group: dist.ProcessGroup | None = None) -> list[Any]:
    """Return the plain values of all workers in rank order, on all of them; collective over the group.

    Example:
        >>> all_gather_values({"rows": 3})  # one process without a process group
        [{'rows': 3}]
    """
    if not dist.is_initialized():
        return [from_bytes(to_bytes(value))]
    own, device = _vector(value), _device(group)
    lengths = torch.empty(dist.get_world_size(group), dtype=torch.int64, device=device)
    dist.all_gather(list(lengths.split(1)), torch.tensor([own.numel()], device=device), group=group)
    # all_gather needs equal lengths; the rest of a row beyond its length is undefined.
    longest = int(lengths.max())
    padded, rows = own.new_empty(longest, device=device), own.new_empty((len(lengths), longest), device=device)
    padded[: own.numel()] = own
    dist.all_gather(list(rows), padded, group=group)
    return [_value(row[:length]) for row, length in zip(rows.cpu(), lengths.tolist(), strict=True)]


def gather_values(value: object) -> list[Any]:
    """Return the plain values of all workers in rank order on rank 0, and an empty list elsewhere; collective."""
    own, device, rank, workers = _vector(value), _device(None), dist.get_rank(), dist.get_world_size()
    lengths = torch.empty(workers, dtype=torch.int64, device=device)
    dist.all_gather(list(lengths.split(1)), torch.tensor([own.numel()], device=device))
    if rank != 0:
        dist.send(own.to(device), 0)
        return []
    received = [own]
    for sender, length in enumerate(lengths.tolist()[1:], start=1):
        received.append(own.new_empty(length, device=device))
        dist.recv(received[-1], sender)
    return [_value(vector.cpu()) for vector in received]


def broadcast_value(value: object) -> Any:
    """Return rank 0's plain value on all workers; collective.

    Args:
        value: read on rank 0 only.
    """
    device, is_source = _device(None), dist.get_rank() == 0
    own = _vector(value) if is_source else torch.empty(0, dtype=torch.uint8)
    length = torch.tensor([own.numel()], device=device)
    dist.broadcast(length, 0)
    own = own.to(device) if is_source else own.new_empty(int(length), device=device)
    dist.broadcast(own, 0)
    return _value(own.cpu())


def _device(group: dist.ProcessGroup | None) -> torch.device:
    if dist.get_backend(group) != "nccl":
        return torch.device("cpu")
    return torch.device("cuda", torch.cuda.current_device())  # NCCL moves memory of the GPU only


def _vector(value: object) -> Tensor:
    return torch.frombuffer(bytearray(to_bytes(value)), dtype=torch.uint8)


def _value(vector: Tensor) -> Any:
    return from_bytes(vector.numpy().tobytes())


def _encoded(value: object, contents: list[bytes]) -> Any:
    """Return a value as JSON, containers and arrays as lists that begin with their kind; add contents of arrays."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.bool_):
        return bool(value)
    if isinstance(value, int | np.integer):
        return int(value)
    if isinstance(value, float | np.floating):
        return float(value)
    if isinstance(value, np.ndarray | Tensor):
        tensor = torch.from_numpy(np.array(value, order="C")) if isinstance(value, np.ndarray) else value
        # As bytes, because NumPy has no bfloat16; flat first, because a tensor () has no other view.
        contents.append(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        kind = "array" if isinstance(value, np.ndarray) else "tensor"
        return [kind, str(tensor.dtype).removeprefix("torch."), *tensor.shape]
    if isinstance(value, tuple | list):
        return ["tuple" if isinstance(value, tuple) else "list", *(_encoded(part, contents) for part in value)]
    if isinstance(value, dict):
        # A list of keys and values in turn, because keys of JSON are texts.
        return ["dict", *(_encoded(part, contents) for item in value.items() for part in item)]
    raise TypeError(
        f"a value that is sent between workers must be plain (numbers, texts, arrays and containers of them), got "
        f"{type(value).__name__}; convert it"
    )


def _decoded(encoded: Any, rest: memoryview) -> tuple[Any, memoryview]:
    """Return a value, and the contents of the arrays after it."""
    if not isinstance(encoded, list):
        if isinstance(encoded, dict):
            _refuse("an object of JSON")
        return encoded, rest
    kind, parts = (encoded[0], encoded[1:]) if encoded else (None, [])
    if kind in ("array", "tensor"):
        return _array(kind, parts, rest)
    values: list[Any] = []
    for part in parts:
        value, rest = _decoded(part, rest)
        values.append(value)
    if kind == "list":
        return values, rest
    if kind == "tuple":
        return tuple(values), rest
    if kind == "dict" and len(values) % 2 == 0:
        try:
            return dict(zip(values[::2], values[1::2], strict=True)), rest
        except TypeError:
            _refuse("a key that is no number, text or tuple")
    _refuse(f"a container of the kind {kind!r}")


def _array(kind: str, parts: Sequence[Any], rest: memoryview) -> tuple[Any, memoryview]:
    name, shape = (parts[0], parts[1:]) if parts else (None, [])
    if not isinstance(name, str) or name not in _DTYPES or not all(type(size) is int and size >= 0 for size in shape):
        _refuse(f"an array of {name} and the shape {shape}")
    dtype = _DTYPES[name]
    count = dtype.itemsize
    for size in shape:
        count *= size
    if count > len(rest):
        _refuse(f"an array of {count} bytes where {len(rest)} follow")
    # A bytearray, because tensors of read-only memory give a warning; frombuffer() takes no empty one.
    data = torch.frombuffer(bytearray(rest[:count]), dtype=torch.uint8) if count else torch.empty(0, dtype=torch.uint8)
    tensor = data.view(dtype).reshape(shape)
    return (tensor.numpy() if kind == "array" else tensor), rest[count:]


def _refuse(found: str) -> NoReturn:
    raise ValueError(
        f"a message between workers must hold a plain value, got {found}; use the same version of gnnqlab on all "
        "machines, on a network that only they use"
    )
