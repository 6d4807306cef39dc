"""Files of named tensors in safetensors layout, written atomically, and never pickles.

The layout: 8 bytes of header length, a JSON header ``{name: {dtype, shape, data_offsets}, "__metadata__": {...}}``,
and the tensors one after another (https://github.com/huggingface/safetensors). The metadata hold the writer's entries
and a hash of the tensors.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gnnqlab.atomic import replacing

__all__ = ["TensorFile", "is_storable", "read_tensors", "write_tensors"]

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}
_MAX_HEADER = 64 << 20  # bytes; a longer header is a damaged length
_METADATA = "__metadata__"
_HASH = "sha256"


@dataclass(frozen=True, eq=False)
class TensorFile:
    """Contents of a file."""

    tensors: dict[str, Tensor]
    metadata: dict[str, str]
    intact: bool | None
    """True if the tensors match their hash in the file; ``None`` if the file has no hash."""


def is_storable(value: object) -> bool:
    """Return True for a tensor of a dtype that the layout supports."""
    return isinstance(value, Tensor) and value.dtype in _NAMES


def write_tensors(path: Path, tensors: Mapping[str, Tensor], metadata: Mapping[str, str]) -> None:
    """Write tensors under their names, each with its own dtype; a crash leaves a complete file or none.

    Args:
        path: the file.
        tensors: of any shape, on any device.
        metadata: further entries for readers.

    Raises:
        ValueError: if the layout does not support the dtype of a tensor.
        OSError: if the disk is full or cannot be written; no partial file remains.

    Example:
        >>> import tempfile
        >>> path = Path(tempfile.mkdtemp(), "a.safetensors")
        >>> write_tensors(path, {"w": torch.tensor([1.0, 2.0])}, {"epoch": "3"})
        >>> read_tensors(path).tensors["w"].tolist(), read_tensors(path).metadata["epoch"]
        ([1.0, 2.0], '3')
    """
    header: dict[str, Any] = {}
    parts, offset = [], 0
    for name, tensor in tensors.items():
        if tensor.dtype not in _NAMES:
            raise ValueError(f"a tensor to write must have one of {list(_NAMES)}, got {tensor.dtype} of {name!r}")
        # Without a copy on the CPU: the tensors must not change until the file is written.
        part = tensor.detach().cpu().contiguous()
        size = part.numel() * part.element_size()
        header[name] = {
            "dtype": _NAMES[part.dtype],
            "shape": list(part.shape),
            "data_offsets": [offset, offset + size],
        }
        parts.append(part.flatten().view(torch.uint8).numpy().data)  # its bytes, without a copy
        offset += size
    # The header cannot be part of the hash that it holds.
    digest = hashlib.sha256()
    for view in parts:
        digest.update(view)
    header[_METADATA] = {**metadata, _HASH: digest.hexdigest()}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # safetensors aligns the tensors to 8 bytes
    with replacing(path) as partial_path, open(partial_path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for view in parts:
            file.write(view)
        # Before the rename: the final name must never refer to data that a crash can lose.
        file.flush()
        os.fsync(file.fileno())
    _sync_folder(path.parent)  # or the rename itself might not survive a power failure


def read_tensors(path: Path, *, what: str = "tensor file") -> TensorFile:
    """Read a file of named tensors; no code in the file is executed.

    Args:
        path: the file; another program may have written it.
        what: noun for the file in error messages.

    Raises:
        ValueError: if the file is incomplete or has another layout.
        OSError: if it cannot be read.
    """
    content = memoryview(path.read_bytes())
    # Untrusted input: each length and offset is compared with the size of the file before it is used.
    length = int.from_bytes(content[:8], "little")
    if len(content) < 8 or length > min(len(content) - 8, _MAX_HEADER):
        raise ValueError(f"a {what} must be complete, got a truncated file {path}")
    try:
        header = json.loads(bytes(content[8 : 8 + length]))  # json takes no memoryview
        metadata = dict(header.pop(_METADATA, {}))
        body = content[8 + length :]
        tensors = {name: _tensor(body, entry) for name, entry in header.items()}
        is_intact = hashlib.sha256(body).hexdigest() == metadata[_HASH] if _HASH in metadata else None
    except (AttributeError, KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise ValueError(f"a {what} must have the layout of safetensors, got {path}: {error}") from error
    return TensorFile(tensors, metadata, is_intact)


def _tensor(body: memoryview, entry: Any) -> Tensor:
    dtype, shape, (start, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
    if not (isinstance(start, int) and isinstance(end, int) and 0 <= start <= end <= len(body)):
        raise ValueError("a tensor lies outside the file")
    if not all(isinstance(side, int) and side >= 0 for side in shape):
        raise ValueError("a shape is not a list of sizes")
    if math.prod(shape) * dtype.itemsize != end - start:
        raise ValueError("the bytes of a tensor do not match its shape")
    if start == end:  # frombuffer() refuses an empty buffer
        return torch.empty(shape, dtype=dtype)
    # A copy: a view of the read-only bytes would not be writable, and would keep the whole file in memory.
    return torch.frombuffer(bytearray(body[start:end]), dtype=dtype).view(shape)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
