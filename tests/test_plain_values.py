"""Values sent between workers: equal after the way there, refused if they are no plain values, never unpickled."""

from __future__ import annotations

import json
import math
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as some

from gnnqlab.plain_values import all_gather_values, broadcast_value, from_bytes, gather_values, to_bytes
from tests.cases import each
from tests.ranks import run_ranks

ROOT = Path(__file__).parent.parent
LEAVES = some.none() | some.booleans() | some.integers() | some.floats(allow_nan=False) | some.text()
KEYS = some.integers() | some.text() | some.tuples(some.integers(), some.text())
ARRAYS = some.sampled_from([
    np.array([[1.5, -0.0], [np.inf, 1e-300]]),
    np.zeros((0, 3), dtype=np.int64),
    np.array(7, dtype=np.uint8),
    np.arange(12).reshape(3, 4).T,  # not contiguous
])  # fmt: skip
VALUES = some.recursive(
    LEAVES | ARRAYS,
    lambda part: some.lists(part) | some.lists(part).map(tuple) | some.dictionaries(KEYS, part),
    max_leaves=12,
)


def is_same(first: Any, second: Any) -> bool:
    """Return True if two values have the same types, shapes and bits, at every place."""
    if type(first) is not type(second):
        return False
    if isinstance(first, np.ndarray):
        return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
    if isinstance(first, dict):
        return list(first) == list(second) and all(is_same(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(is_same, first, second))
    if isinstance(first, float):
        return first == second and math.copysign(1, first) == math.copysign(1, second)
    return bool(first == second)


@given(VALUES)
def test_values_are_the_same_after_the_way_there(value: object) -> None:
    assert is_same(from_bytes(to_bytes(value)), value)


@each("dtype", [torch.bool, torch.uint8, torch.int32, torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_tensors_keep_dtype_and_bits(dtype: torch.dtype) -> None:
    tensor = torch.tensor([[0, 1, 3]], dtype=dtype)
    sent = from_bytes(to_bytes(tensor))
    assert sent.dtype == dtype and torch.equal(sent, tensor)


def test_numbers_of_numpy_become_those_of_python() -> None:
    sent = from_bytes(to_bytes([np.int64(3), np.float64(0.5), np.bool_(True)]))
    assert sent == [3, 0.5, True] and [type(part) for part in sent] == [int, float, bool]


@each("value", [object(), {1, 2}, b"bytes", Path("folder"), 1j, [lambda: None], np.array(["text"])])
def test_other_values_are_refused_before_they_are_sent(value: object) -> None:
    with pytest.raises(TypeError, match="plain|can't convert"):
        to_bytes(value)


def framed(encoded: object, contents: bytes = b"") -> bytes:
    text = json.dumps(encoded).encode()
    return len(text).to_bytes(8, "little") + text + contents


BROKEN = {
    "nothing": b"",
    "a pickle": pickle.dumps({"rows": 3}),
    "an end too early": framed([1])[:-1],
    "no JSON": (3).to_bytes(8, "little") + b"abc",
    "lists too deep": (200_000).to_bytes(8, "little") + b"[" * 100_000 + b"]" * 100_000,
    "no UTF-8": (2).to_bytes(8, "little") + b"\xff\xfe",
    "an object of JSON": framed({"rows": 3}),
    "an unknown container": framed(["set", 1]),
    "a container without a kind": framed([]),
    "a kind that is a list": framed([["list"]]),
    "a key without a value": framed(["dict", 1]),
    "a list as a key": framed(["dict", ["list", 1], 2]),
    "an unknown dtype": framed(["array", "object", 1], bytes(8)),
    "a dtype that is a list": framed(["array", ["list"], 1], bytes(8)),
    "no dtype": framed(["array"]),
    "a negative size": framed(["array", "uint8", -1], bytes(8)),
    "a size that is a bool": framed(["array", "uint8", True], bytes(1)),
    "more than there is": framed(["tensor", "float64", 2], bytes(8)),
    "a size beyond memory": framed(["tensor", "float64", 1 << 62, 1 << 62], bytes(8)),
    "bytes left over": framed(["tensor", "uint8", 2], bytes(3)),
}


@each("case", BROKEN)
def test_broken_bytes_are_refused(case: str) -> None:
    with pytest.raises(ValueError, match="must hold a plain value, got"):
        from_bytes(BROKEN[case])


def _collected(rank: int, workers: int) -> dict[str, Any]:
    # Of different lengths, and one of them empty.
    value = {"rank": rank, "rows": torch.arange(1000 * rank, dtype=torch.float32)}
    return {
        "all": all_gather_values(value),
        "gathered": gather_values(value),
        "broadcast": broadcast_value(value if rank == 0 else object()),  # a value of another rank is not read
    }


@each("workers", [1, 2, 3])
def test_collectives_deliver_the_values_in_rank_order(workers: int) -> None:
    for rank, collected in enumerate(run_ranks(_collected, workers)):
        gathered = collected["all"]
        assert [part["rank"] for part in gathered] == list(range(workers))
        assert all(torch.equal(part["rows"], torch.arange(1000.0 * part["rank"])) for part in gathered)
        assert [part["rank"] for part in collected["gathered"]] == (list(range(workers)) if rank == 0 else [])
        assert collected["broadcast"]["rank"] == 0 and collected["broadcast"]["rows"].numel() == 0


def test_no_collective_of_objects_is_used() -> None:
    """Those of PyTorch unpickle the received data, which runs any code that the sender chooses."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "gnnqlab").rglob("*.py"))
        for name in re.findall(r"dist\.\w*_object\w*|pickle\.loads?\b", path.read_text(encoding="utf-8"))
    ]
    assert found == []
