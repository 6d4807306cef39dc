"""Usual names of columns in tables of edges and nodes, compared without case, spaces and punctuation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

__all__ = [
    "EDGE_NAMES",
    "IDS",
    "LABELS",
    "MASKS",
    "SPLITS",
    "WEIGHTS",
    "could_be_id",
    "pair_of_ends",
    "plain",
    "those_named",
]

_SOURCES = (
    "src", "source", "sources", "sourceid", "from", "fromid", "fromnode", "fromnodeid", "start", "startid", "u", "i",
    "head", "node1", "node1id", "id1", "txid1", "v1", "citing", "follower", "sender",
)  # fmt: skip
_TARGETS = (
    "dst", "target", "targets", "targetid", "to", "toid", "tonode", "tonodeid", "end", "endid", "v", "j",
    "tail", "node2", "node2id", "id2", "txid2", "v2", "cited", "followee", "receiver",
)  # fmt: skip
_FURTHER_TARGETS = {"dest": "src", "destination": "source"}
WEIGHTS = ("weight", "weights", "edgeweight", "w")
IDS = ("id", "ids", "nodeid", "node", "nid", "vertex", "vertexid", "unnamed0")
"""Names that only ids have."""
_PERHAPS_IDS = ("index", "name", "key", "uuid", "guid")
LABELS = (
    "label", "labels", "y", "class", "classes", "target", "targets", "category",
    "nodelabel", "nodelabels", "classlabel", "classid", "labelid", "groundtruth",
)  # fmt: skip
SPLITS = ("split", "splits", "set", "subset", "fold")
MASKS = {
    "train": ("trainmask", "trainingmask", "train", "training", "istrain", "trainidx"),
    "val": ("valmask", "validmask", "validationmask", "devmask", "val", "valid", "validation", "isval", "isvalid"),
    "test": ("testmask", "testingmask", "test", "testing", "istest"),
}
EDGE_NAMES = frozenset({*_SOURCES, *_TARGETS, *_FURTHER_TARGETS, *WEIGHTS})


def plain(name: object) -> str:
    """Return a name in lower case, without spaces and punctuation.

    Example:
        >>> plain("Node_ID"), plain("Unnamed: 0"), plain(":START_ID")
        ('nodeid', 'unnamed0', 'startid')
    """
    return re.sub(r"[^a-z0-9]", "", str(name).lower())


def pair_of_ends(columns: Sequence[str]) -> tuple[str, str] | None:
    """Return the columns of source and target by their usual names; ``None`` without exactly one of each.

    Example:
        >>> pair_of_ends(["time", "FromNodeId", "ToNodeId"]), pair_of_ends(["a", "b"])
        (('FromNodeId', 'ToNodeId'), None)
    """
    sources = [column for column in columns if plain(column) in _SOURCES]
    targets = [column for column in columns if plain(column) in (*_TARGETS, *_FURTHER_TARGETS)]
    if len(sources) > 1 or len(targets) > 1:
        # A table may have "src" and "start": names of one kind decide.
        named = {plain(column): column for column in columns}
        kinds = [
            *zip(_SOURCES, _TARGETS, strict=True),
            *((source, target) for target, source in _FURTHER_TARGETS.items()),
        ]
        pairs = [(named[source], named[target]) for source, target in kinds if source in named and target in named]
        return pairs[0] if len(pairs) == 1 else None
    return (sources[0], targets[0]) if sources and targets else None


def could_be_id(column: str) -> bool:
    """Return True if a column of nodes has a name that ids have: ``id``, ``txId``, ``name`` ...

    Example:
        >>> [name for name in ("Id", "txId", "index", "age", "valid") if could_be_id(name)]
        ['Id', 'txId', 'index']
    """
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", column)
    is_last_word = bool(words) and words[-1].lower() in ("id", "ids")
    return is_last_word or plain(column) in (*IDS, *_PERHAPS_IDS)


def those_named(columns: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the columns whose name is one of some usual names, in the order of the columns."""
    known = set(names)
    return [column for column in columns if plain(column) in known]
