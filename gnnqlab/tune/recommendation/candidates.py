"""Candidates of a recommendation: every system, on every partitioner of its kind of cut, with and without services."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gnnqlab.bits.in_words import human_bits
from gnnqlab.bits.row import EXACT
from gnnqlab.compute import Float32Products
from gnnqlab.message.codecs.codec import Float32, Stochastic
from gnnqlab.message.direction import of_direction
from gnnqlab.systems.parts import PARTS, part_to_json
from gnnqlab.systems.registry import SYSTEMS, make_system
from gnnqlab.systems.services import with_every_service
from gnnqlab.systems.system import System

__all__ = ["Candidate", "approximations", "list_candidates"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A system on one partitioner, as published or with all common optimizations."""

    name: str
    """Name of the recipe."""
    published: System
    """The system on this partitioner, without common optimizations."""
    partition: str
    """Name of the partitioner; empty for the system's own."""
    services: bool
    """True with all common optimizations of :mod:`gnnqlab.systems.services`."""

    @property
    def system(self) -> System:
        """The system to predict."""
        return with_every_service(self.published) if self.services else self.published

    @property
    def label(self) -> str:
        """Name in tables: a ``+`` marks common optimizations.

        Example:
            >>> vanilla = make_system("vanilla")
            >>> Candidate(name="vanilla", published=vanilla, partition="random", services=True).label
            'vanilla+ on random'
        """
        return self.name + ("+" if self.services else "") + (f" on {self.partition}" if self.partition else "")

    @property
    def approximations(self) -> tuple[str, ...]:
        """Approximations of the training as text; empty if it equals that of one process."""
        gradients = ("weight gradients in bfloat16",) if self.services else ()
        return (*approximations(self.published), *gradients)

    @property
    def steps(self) -> int:
        """Number of steps away from Vanilla as published, to choose the simplest of equally fast candidates."""
        system = self.published
        codecs = {type(of_direction(system.codec, way)) for way in ("forward", "backward")}
        # A probe times float32 rows and stochastic rounding; other codecs may take longer than predicted.
        is_timed = codecs <= {Float32, Stochastic}
        changes = 2 * (self.name != "vanilla") + self.services + (self.partition != "") + (not is_timed)
        return changes + 8 * bool(approximations(system))


def approximations(system: System) -> tuple[str, ...]:
    """Return the approximations of a system as text, from its parts.

    Example:
        >>> from gnnqlab.systems import bns_gcn, exact, fixed_bits, gradients_only, sar
        >>> approximations(fixed_bits(bits=2)), approximations(sar()), approximations(exact())
        (('messages in 2 bits',), (), ('compute exact, 2 bits',))
        >>> approximations(bns_gcn(p=0.1)), approximations(gradients_only())
        (('a sample of 10 % of the boundary rows',), ('no boundary rows',))
    """
    texts = []
    widths = sorted({width for way in ("forward", "backward") for width in of_direction(system.bits, way).choices})
    if widths != [EXACT]:
        *firsts, last = widths
        texts.append(f"messages in {''.join(f'{width}, ' for width in firsts)}{human_bits(last)}")
    if system.sampler.p == 0.0:
        texts.append("no boundary rows")
    elif system.sampler.p < 1.0:
        texts.append(f"a sample of {100 * system.sampler.p:g} % of the boundary rows")
    if system.cache.build() is not None:
        texts.append("rows that changed little are not sent")
    if system.schedule.lag:
        texts.append("rows of the epoch before")
    if not isinstance(system.compute, Float32Products):
        part = part_to_json("compute", system.compute)
        texts.append(f"compute {part['name']}" + (f", {human_bits(part['bits'])}" if "bits" in part else ""))
    return tuple(texts)


def list_candidates(systems: Sequence[str] | None = None, *, partitions: bool = True) -> list[Candidate]:
    """Return the candidates of systems by name.

    Args:
        systems: names of systems; all registered ones by default. Vanilla is always included.
        partitions: True for every partitioner of the kind of cut that a system's exchange takes; False for its own.
            Systems with other products than float32 keep their own, because their products must be measured.

    Raises:
        ValueError: if a system is unknown.

    Example:
        >>> [each.label for each in list_candidates(["vanilla"])]
        ['vanilla', 'vanilla+', 'vanilla on random', 'vanilla+ on random']
    """
    candidates = []
    for name in dict.fromkeys(["vanilla", *(SYSTEMS if systems is None else systems)]):
        system = make_system(name)
        kinds = {"": type(system.partition)}
        if partitions and isinstance(system.compute, Float32Products):
            others = {
                key: kind
                for key, kind in PARTS["partition"].items()
                if kind.cuts == system.exchange.takes_cuts_of and kind.serves_all and not kind.unusable()
            }
            kinds |= {key: kind for key, kind in others.items() if kind is not type(system.partition)}
        for partition, kind in kinds.items():
            published = system if not partition else replace(system, partition=kind())
            candidates += [
                Candidate(name=name, published=published, partition=partition, services=services)
                for services in (False, True)
            ]
    return candidates
