"""``gq.recommend``: all systems and partitioners ranked for a graph, a model and a link, from one probe."""

from gnnqlab.tune.recommendation.recommend import recommend
from gnnqlab.tune.recommendation.result import Alternative, Recommendation

__all__ = ["Alternative", "Recommendation", "recommend"]
