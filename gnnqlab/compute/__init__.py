"""The axis ``compute``: precision of the dense and sparse matrix products of a training."""

from gnnqlab.compute.bfloat16 import BFloat16Rows
from gnnqlab.compute.exact import ExactActivations
from gnnqlab.compute.float32 import Float32Products
from gnnqlab.compute.int8 import Int8Products
from gnnqlab.compute.products import Compute, Products

__all__ = ["BFloat16Rows", "Compute", "ExactActivations", "Float32Products", "Int8Products", "Products"]


def __dir__() -> list[str]:
    return list(__all__)
