"""Measure the cost of noise in stochastic rounding: Philox noise and the framework's generator, rounding to nearest
without noise, and a copy of the rows.

Philox noise is a function of (seed, epoch, stream, node, column), so workers agree on the codes of a row. TANGO
(section 3.2) draws its noise from a generator in registers, 20 times as fast as cuRAND's; the numbers of such a
generator depend on how many it has drawn before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.kernels.pinned import Pair, by_threads, compare

__all__ = ["measure_rounding"]

SHAPE = (34_493, 256)
"""Rows and columns: more than a cache holds."""
COUNTER, FRAMEWORK = "counter noise", "torch.rand"
NEAREST, NUMBERS, COPY = "nearest", "torch.rand, its numbers alone", "memcpy of the float32 rows"


@by_threads()
def measure_rounding(repeats: int) -> list[dict[str, Any]]:
    """Seconds of quantizing a matrix with a scale a row, with the threads of this process."""
    import torch

    from gnnqlab.kernels import native
    from gnnqlab.kernels.codec.quantize import Noise, quantize
    from gnnqlab.kernels.noise import stream
    from gnnqlab.kernels.sparse.aggregate import QuantizedRows

    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(0))
    copy, numbers = torch.empty_like(x), torch.empty_like(x)
    out = QuantizedRows(torch.empty(SHAPE, dtype=torch.int8), torch.empty(SHAPE[0]))
    noise = Noise(torch.arange(SHAPE[0]), seed=1, epoch=0, stream=stream("operand", 0))
    generator = torch.Generator().manual_seed(1)

    def in_torch() -> None:
        torch.div(torch.linalg.vector_norm(x, ord=float("inf"), dim=1), 127.0, out=out.scales)
        torch.rand(SHAPE, generator=generator, out=numbers)
        out.codes.copy_(numbers.addcdiv_(x, out.scales.unsqueeze(1)).floor_())

    contestants: dict[str, Callable[[], object]] = {
        COUNTER: lambda: quantize(x, noise=noise, out=out),
        FRAMEWORK: in_torch,
        NEAREST: lambda: quantize(x, out=out),
        NUMBERS: lambda: torch.rand(SHAPE, generator=generator, out=numbers),
        COPY: lambda: copy.copy_(x),
    }
    kernels = native.isa() if native.active(x.device) else "plain PyTorch"
    case = f"quantize {SHAPE[0]} x {SHAPE[1]}, {torch.get_num_threads()} thread(s), {kernels}"
    pairs = [Pair(name, name, COPY) for name in contestants if name != COPY]
    return compare(case, contestants, [*pairs, Pair(COUNTER, COUNTER, FRAMEWORK)], repeats)
