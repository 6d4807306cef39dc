"""The axis ``compute``: precision of the dense and sparse matrix products of a training."""

from typing import TYPE_CHECKING

from gnnqlab.attached import on_demand

if TYPE_CHECKING:
    from gnnqlab.compute.bfloat16 import BFloat16Rows
    from gnnqlab.compute.exact import ExactActivations
    from gnnqlab.compute.float32 import Float32Products
    from gnnqlab.compute.int8 import Int8Products
    from gnnqlab.compute.products import Compute, Products

__all__ = ["BFloat16Rows", "Compute", "ExactActivations", "Float32Products", "Int8Products", "Products"]

__getattr__ = on_demand(__name__, {
    "gnnqlab.compute.bfloat16": ("BFloat16Rows",),
    "gnnqlab.compute.exact": ("ExactActivations",),
    "gnnqlab.compute.float32": ("Float32Products",),
    "gnnqlab.compute.int8": ("Int8Products",),
    "gnnqlab.compute.products": ("Compute", "Products",),
})  # fmt: skip


def __dir__() -> list[str]:
    return list(__all__)
