"""What TANGO's contradictions about products of codes do, measured: the last of ``MEASUREMENTS``."""

from __future__ import annotations

import torch
from torch import Tensor

from gnnqlab.bits.in_words import human_bits
from gnnqlab.compute import Int8Products
from gnnqlab.compute.float32 import PLAIN
from gnnqlab.course.experiments.errata_cache import MEASUREMENTS
from gnnqlab.course.experiments.errata_measured import Effect, measures
from gnnqlab.kernels.sparse.adjacency import Adjacency

__all__ = ["MEASUREMENTS", "half_a_code_too_many", "logits_on_codes"]


def _normal(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@measures("TG-4")
def half_a_code_too_many() -> Effect:
    """Scale tensors by ``max / (2^(B-1) - 1/2)``, as Eqs. 1 and 3 go together, and round them by noise."""
    tensors = _normal(400, 4096, seed=0)
    noise = torch.rand(tensors.shape, generator=torch.Generator().manual_seed(1))
    scaled = tensors / (tensors.abs().amax(1, keepdim=True) / 127.5)
    outside = float((torch.floor(scaled + noise).abs() > 127).any(1).float().mean())
    x, rounded = torch.tensor(-0.0004), torch.tensor(0.0)
    error = float(((x - rounded) / (x + rounded + 0.0005)).abs())
    return Effect(
        f"at 8 bits the largest element of {outside:.0%} of tensors leaves [-127, 127]; Eq. 4 gives {error:.1f} for "
        f"x = {x.item():g} rounded to 0, and says that it lies in [0, 1]",
        {"outside": outside, "error": error},
    )


@measures("TG-5")
def logits_on_codes() -> Effect:
    """Attend in float32, to codes with exact logits, and to codes with halves of logits rounded; a scale a tensor.

    Halves are N(0, 2^2), as trained ones come to be; errors are of the norm of all sums.
    """
    nodes, heads, features, degree = 2000, 4, 16, 10
    indices = torch.randint(nodes, (nodes * degree,), generator=torch.Generator().manual_seed(2)).int()
    adjacency = Adjacency(torch.arange(nodes + 1) * degree, indices, num_columns=nodes)
    z = _normal(nodes, heads, features, seed=3)
    vectors = [_normal(heads, features, seed=seed) * 2.0 / features**0.5 for seed in (4, 5)]
    truth, figures = PLAIN.attend(adjacency, z, *vectors), {}
    for bits in (8, 4):
        for name, exact in (("exact", True), ("codes", False)):
            products = Int8Products(bits=bits, scale="tensor", exact_logits=exact).build()
            attended = products.attend(adjacency, z, *vectors)
            figures[f"{name}_{bits}"] = float((attended - truth).norm() / truth.norm())
    words = "; ".join(
        f"at {human_bits(bits)} sums of attention are {figures[f'exact_{bits}']:.2%} off with exact logits, "
        f"{figures[f'codes_{bits}']:.2%} with rounded halves"
        for bits in (8, 4)
    )
    return Effect(f"with a scale a tensor, {words}", figures)
