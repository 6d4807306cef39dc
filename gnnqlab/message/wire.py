"""Former name of :mod:`gnnqlab.message.layout`, for codecs of one's own; with a warning until version 1.0."""

import warnings

from gnnqlab.message.layout import Layout, Part, Share
from gnnqlab.message.layout import make_layout as lay_out

__all__ = ["Layout", "Part", "Share", "lay_out"]

warnings.warn(
    "gnnqlab.message.wire is gnnqlab.message.layout now, and lay_out is make_layout", DeprecationWarning, stacklevel=2
)
