"""The axis ``cache``: skip rows that changed little since they were last sent; and error feedback."""

from gnnqlab.message.caches.adaptive_cache import AdaptiveCache
from gnnqlab.message.caches.cache import Cache, NoCache, Unchanged
from gnnqlab.message.caches.difference import Difference
from gnnqlab.message.caches.feedback import Feedback
from gnnqlab.message.caches.stale_blocks import StaleBlocks

__all__ = ["AdaptiveCache", "Cache", "Difference", "Feedback", "NoCache", "StaleBlocks", "Unchanged"]


def __dir__() -> list[str]:
    return list(__all__)
