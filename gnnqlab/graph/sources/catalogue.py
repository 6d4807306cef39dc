"""Graphs by name or path: the table of names and the function that loads one."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from gnnqlab.graph.edges import SelfLoops
from gnnqlab.graph.generate import rmat, sbm
from gnnqlab.graph.graph import Graph
from gnnqlab.graph.sources.arrays import read_npz
from gnnqlab.graph.sources.digits import read_digits
from gnnqlab.graph.sources.edge_list import EdgeList

__all__ = ["Source", "load", "names"]


@dataclass(frozen=True, kw_only=True)
class Source:
    """A graph that can be loaded by name.

    Args:
        name: what ``load`` takes; a pattern such as ``sbm:NODES,CLASSES,DEGREE`` for generators.
        about: one line for people.
        needs: ``"nothing"`` (generated or bundled), or the archive that is downloaded.
        read: called with the part of the name after ``:`` (empty for most), the dataset root the
            caller gave (or ``None``) and the seed.
    """

    name: str
    about: str
    needs: str
    read: Callable[[str, Path | None, int], EdgeList | Graph]


def _sbm(parameters: str, root: Path | None, seed: int) -> Graph:
    nodes, classes, degree = _numbers("sbm:NODES,CLASSES,DEGREE", parameters, (int, int, float))
    return sbm(nodes, classes, degree, seed=seed, name=f"sbm:{parameters}")


def _rmat(parameters: str, root: Path | None, seed: int) -> Graph:
    scale, degree = _numbers("rmat:SCALE,DEGREE", parameters, (int, float))
    return rmat(scale, degree, seed=seed, name=f"rmat:{parameters}")


_SOURCES = (
    Source(
        name="digits",
        about="10 nearest neighbours of scikit-learn's digits: 1,797 nodes, 64 features, 10 classes",
        needs="nothing",
        read=lambda parameters, root, seed: read_digits(),
    ),
    Source(
        name="sbm:NODES,CLASSES,DEGREE",
        about="generated: planted partition with Gaussian features",
        needs="nothing",
        read=_sbm,
    ),
    Source(
        name="rmat:SCALE,DEGREE",
        about="generated: power law with 2**SCALE nodes, labels by a random teacher",
        needs="nothing",
        read=_rmat,
    ),
)


def load(
    name_or_path: str | Path,
    *,
    root: str | Path | None = None,
    symmetrize: bool | None = None,
    deduplicate: bool | None = None,
    self_loops: SelfLoops | None = None,
    seed: int = 0,
) -> Graph:
    """Load a graph by name or from a path.

    Args:
        name_or_path: a name listed by ``names()``, or the path of a ``.npz`` file or saved graph.
        root: where downloaded data lies.
        symmetrize, deduplicate, self_loops: edge rules, see ``build_csr``. ``None`` means the
            papers' (reverse edges added, repeated edges kept once, exactly one self loop per node)
            for edge lists, and "as it is" for graphs that already went through them: generated and
            saved ones.
        seed: of generated graphs, and of the random 60/20/20 split over labelled nodes that a
            graph without a split gets.

    Raises:
        ValueError: for an unknown name or a malformed file.
        RuntimeError: if the data is not here and cannot be downloaded; the text says which file
            to put where.

    Example:
        >>> g = load("sbm:1000,4,10")
        >>> g.name, g.num_nodes, g.num_classes
        ('sbm:1000,4,10', 1000, 4)
    """
    found = _read(name_or_path, None if root is None else Path(root), seed)
    if isinstance(found, EdgeList):
        return found.build(symmetrize=symmetrize, deduplicate=deduplicate, self_loops=self_loops, seed=seed)
    return found.with_edge_rules(
        symmetrize=bool(symmetrize), deduplicate=bool(deduplicate), self_loops=self_loops or "keep"
    )


def names() -> list[dict[str, str]]:
    """Every known name with what it is and what it needs, for tables.

    Example:
        >>> names()[0]["name"], names()[0]["needs"]
        ('digits', 'nothing')
    """
    return [{"name": source.name, "about": source.about, "needs": source.needs} for source in _SOURCES]


def _read(name_or_path: str | Path, root: Path | None, seed: int) -> EdgeList | Graph:
    text = str(name_or_path)
    stem, _, parameters = text.partition(":")
    for source in _SOURCES:
        known, _, pattern = source.name.partition(":")
        if stem == known and isinstance(name_or_path, str) and bool(pattern) == (":" in text):
            return source.read(parameters, root, seed)
    path = Path(text).expanduser()
    if path.exists():
        return _read_path(path)
    if path.suffix or len(path.parts) > 1:
        raise ValueError(f"a graph must be a known name or a path that exists, there is no {text}; {_known(text)}")
    raise ValueError(f"a graph must be a known name or a path that exists, got {text!r}; {_known(text)}")


def _read_path(path: Path) -> EdgeList | Graph:
    if path.is_dir():
        return Graph.load(path)
    return read_npz(path)


def _known(text: str) -> str:
    stems = {source.name.partition(":")[0]: source.name for source in _SOURCES}
    near = difflib.get_close_matches(text.partition(":")[0].lower(), stems, n=3, cutoff=0.6)
    hint = f"did you mean {' or '.join(stems[stem] for stem in near)}? " if near else ""
    return f"{hint}Known names: {', '.join(source.name for source in _SOURCES)}"


def _numbers(pattern: str, parameters: str, kinds: tuple[type, ...]) -> list:
    parts = parameters.split(",")
    try:
        if len(parts) != len(kinds):
            raise ValueError
        return [kind(part) for kind, part in zip(kinds, parts)]
    except ValueError:
        stem = pattern.partition(":")[0]
        example = {"sbm": "sbm:2000,8,10", "rmat": "rmat:14,16"}[stem]
        raise ValueError(
            f"a generated graph must be named {pattern}, got '{stem}:{parameters}'; for example {example}"
        ) from None
