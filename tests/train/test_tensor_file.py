"""Tensors in the layout of safetensors: every type is restored, and other libraries read the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from gnnqlab.train.checkpoints.tensor_file import read_tensors, write_tensors

TENSORS = {
    "layers.0.weight": torch.arange(15.0).view(3, 5).t(),  # not contiguous
    "double": torch.tensor(1.5, dtype=torch.float64),
    "half": torch.tensor([0.5, -2.0], dtype=torch.float16),
    "bfloat16": torch.tensor([[1.0, 3.0]], dtype=torch.bfloat16),
    "int64": torch.tensor([-(2**40)]),
    "int32": torch.tensor([-7], dtype=torch.int32),
    "int16": torch.tensor([300], dtype=torch.int16),
    "int8": torch.tensor([-1, 2, 3], dtype=torch.int8),
    "uint8": torch.tensor([255], dtype=torch.uint8),
    "bool": torch.tensor([True, False, True]),
    "empty": torch.empty(0, 4),
}


def assert_same(found: dict[str, torch.Tensor]) -> None:
    assert sorted(found) == sorted(TENSORS)
    for name, tensor in TENSORS.items():
        assert found[name].dtype == tensor.dtype and torch.equal(found[name], tensor), name


def test_every_type_comes_back_under_its_name(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", TENSORS, {"epoch": "3"})
    found = read_tensors(tmp_path / "a")
    assert_same(found.tensors)
    assert found.intact is True and found.metadata["epoch"] == "3"


def test_the_package_safetensors_reads_the_file_and_writes_one_that_is_read(tmp_path: Path) -> None:
    theirs = pytest.importorskip("safetensors.torch", reason="the package safetensors is not installed")
    write_tensors(tmp_path / "a", TENSORS, {"epoch": "3"})
    assert_same(theirs.load_file(tmp_path / "a"))
    whole = {name: tensor.contiguous() for name, tensor in TENSORS.items()}
    theirs.save_file(whole, tmp_path / "b", {"epoch": "4"})
    found = read_tensors(tmp_path / "b")
    assert_same(found.tensors)
    assert found.intact is None and found.metadata == {"epoch": "4"}


def test_the_bytes_are_those_of_the_layout(tmp_path: Path) -> None:
    write_tensors(tmp_path / "a", {"w": torch.tensor([1.0, 2.0])}, {})
    content = (tmp_path / "a").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    del header["__metadata__"]
    assert length % 8 == 0 and header == {"w": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}}
    assert content[8 + length :] == bytes.fromhex("0000803f00000040")


def test_unsupported_types_and_damaged_tensor_files_are_detected(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"must have one of .*, got torch\.complex64 of 'c'"):
        write_tensors(tmp_path / "a", {"c": torch.zeros(2, dtype=torch.complex64)}, {})
    assert not list(tmp_path.iterdir())
    write_tensors(tmp_path / "a", TENSORS, {})
    content = bytearray((tmp_path / "a").read_bytes())
    content[-1] ^= 1
    (tmp_path / "a").write_bytes(content)
    assert read_tensors(tmp_path / "a").intact is False
    (tmp_path / "a").write_bytes(content[:-1])
    with pytest.raises(ValueError, match="a model file must have the layout of safetensors, got .*outside the file"):
        read_tensors(tmp_path / "a", what="model file")
    (tmp_path / "a").write_bytes(content[:5])
    with pytest.raises(ValueError, match="a tensor file must be complete, got a truncated file"):
        read_tensors(tmp_path / "a")
