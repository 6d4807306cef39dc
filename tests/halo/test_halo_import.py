"""The import of the halo exchange alone: modules that it loads, and the names of `gnnqlab` that lead to it."""

from __future__ import annotations

import subprocess
import sys

import gnnqlab as gq
from gnnqlab import halo
from tests.slow_down import HANG_S

PROGRAM = (
    "import sys, torch, torch.distributed; before = set(sys.modules); import gnnqlab.halo; "
    "print(*set(sys.modules) - before)"
)
EXCHANGE = """
import sys, torch
from gnnqlab.halo import HaloPlan, exchange_rows, reduce_rows, start_exchange
plan = HaloPlan.from_edges(torch.tensor([[0, 1], [1, 0]]), torch.tensor([0, 0]))
x = torch.ones(2, 3, requires_grad=True)
pending = start_exchange(x, plan, bits=4)
rows = torch.cat([exchange_rows(x, plan, bits=(4, 8), layer=1), pending.wait()])
(torch.cat([x, rows]).square().sum() + reduce_rows(rows, plan).sum()).backward()
print("torch._dynamo" in sys.modules, "sympy" in sys.modules)
"""
HEAVY_ROOMS = {"graph", "compute", "exchange", "nn", "systems", "train", "run", "launch", "lab", "course", "study"}


def output_of(program: str) -> list[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=HANG_S).stdout.split()


def test_first_exchange_imports_no_compiler() -> None:
    assert output_of(EXCHANGE) == ["False", "False"], "it takes seconds"


def test_import_needs_torch_and_few_modules() -> None:
    output = output_of(PROGRAM)
    own = {module for module in output if module.split(".")[0] == "gnnqlab"}
    others = {module for module in output if module.split(".")[0] not in {"gnnqlab", *sys.stdlib_module_names}}
    assert "gnnqlab.halo" in own and others == set(), "torch has imported NumPy; nothing else is needed"
    assert {module.split(".")[1] for module in own if "." in module} & HEAVY_ROOMS == set()
    assert not any(module.startswith(("gnnqlab.bits.assigner", "gnnqlab.message.caches")) for module in own)
    assert len(own) <= 75, sorted(own)


def test_names_of_the_package_lead_to_the_halo_exchange() -> None:
    assert gq.halo is halo
    assert set(gq._OF_HALO) - {"halo"} <= set(halo.__all__)
    for name in set(gq._OF_HALO) - {"halo"} | {"HaloPlan", "exchange_rows"}:
        assert getattr(gq, name) is getattr(halo, name)
