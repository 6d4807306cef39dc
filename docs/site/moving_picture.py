"""``python -m docs.site.moving_picture``: draw one training epoch as an animated SVG, ``docs/epoch.svg``.

The data are those of the epoch player: ten nodes on two workers, trained in this process. The left half sends
float32 messages and waits for them; the right half sends 2-bit messages and aggregates central nodes meanwhile. Both
halves play in modelled time (``epoch_times.py``), so the right one ends sooner. The animation is CSS inside the file,
so a page needs neither a script nor a network to play it.
"""

from __future__ import annotations

import argparse
import html
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import gnnqlab as gq
from docs.site.gather import ROOT
from gnnqlab.course.experiments.one_epoch import train_one_epoch
from gnnqlab.course.players.epoch_views import changed_traces, row_marks, row_ways
from gnnqlab.course.players.epoch_walk import EpochStep, EpochWalk
from gnnqlab.course.players.epoch_words import compare_length
from gnnqlab.course.ten_nodes import Halves, ten_nodes
from gnnqlab.lab.figures.graph_places import neighbours, places_of
from gnnqlab.lab.figures.theme import ACTIVITY_STYLES, OKABE_ITO
from gnnqlab.systems.system import System

__all__ = ["PICTURE", "draw", "main", "panels"]

PICTURE = ROOT / "docs" / "epoch.svg"
PLAY_S = 20
"""Seconds that the picture plays."""
LAYERS, HIDDEN = 3, 64
"""Hidden embeddings of this dimension make messages much longer than their quantization parameters."""
_WIDTH, _HEIGHT, _PANEL = 850, 332, 425
_LEFT, _LANES = 84, 236
"""Pixels left of the lanes, and above them."""
_TEXT = 36
"""Pixels left of the words below the lanes."""
_LANE = 322
"""Pixels of the lanes."""
_PAUSE = 1.08
"""Length of the film, in lengths of the longer epoch."""
_SHOWN_AT = 0.06
"""Part of the film that readers who prefer reduced motion see: messages are on their way."""
_SHORT = 0.015
"""Part of the film; shorter steps share the caption of the next longer one."""
_STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; fill: var(--ink); }
.title { font-weight: 600; font-size: 15px; } .node { fill: #fff; text-anchor: middle; font-weight: 600; }
.lane { text-anchor: end; fill: var(--quiet); } .bits { fill: #000; text-anchor: middle; font-size: 11px; }
svg { --ground: #fff; --ink: #1f2328; --quiet: #59636e; --edge: #a0a0a0; }
@media (prefers-color-scheme: dark) { svg { --ground: #14171a; --ink: #e6e8ea; --quiet: #9198a1; --edge: #6c757d; } }
@media (prefers-reduced-motion: reduce) { * { animation-play-state: paused !important; } }
"""
_COLORS = (OKABE_ITO["blue"], OKABE_ITO["vermillion"])
"""Of the nodes of each worker."""


class Panel(NamedTuple):
    """One half of the picture."""

    title: str
    walk: EpochWalk


def panels() -> tuple[Panel, ...]:
    """Train the epochs that the picture shows, in this process."""
    parts = gq.partition(ten_nodes(), Halves(), workers=2)
    overlapped = replace(gq.systems.fixed_bits(bits=2), schedule=gq.schedules.Overlapped())

    def walk(way: str, system: System, compared_with: EpochWalk | None = None) -> EpochWalk:
        facts = train_one_epoch(parts, system, layers=LAYERS, hidden=HIDDEN)
        return EpochWalk(parts, way, facts, vanilla=compared_with)

    vanilla = walk("vanilla", gq.systems.vanilla())
    return (
        Panel("Vanilla: float32 messages", vanilla),
        Panel("2-bit messages, overlapped", walk("overlapped", overlapped, vanilla)),
    )


def draw(shown: Sequence[Panel]) -> str:
    """Return the picture of two epochs as SVG.

    Raises:
        ValueError: if there are other than two epochs.
    """
    if len(shown) != 2:
        raise ValueError(f"the picture compares two epochs, got {len(shown)}")
    film = _Film(_PAUSE * max(panel.walk.length for panel in shown))
    halves = [_half(film, panel, left=number * _PANEL) for number, panel in enumerate(shown)]
    said = "; ".join(
        f"{panel.title}: {_bytes(panel.walk.num_bytes)} and {_length(panel.walk)} per epoch" for panel in shown
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img">\n'
        f"<title>One training epoch of ten nodes on two workers, in modelled time. {html.escape(said)}.</title>\n"
        f"<style>{_STYLE}{film.style()}</style>\n"
        f'<rect width="{_WIDTH}" height="{_HEIGHT}" fill="var(--ground)"/>\n' + "\n".join(halves) + "\n</svg>\n"
    )


class _Film:
    """The animations of a picture, by modelled time: one CSS rule for each span, or each way of a message."""

    def __init__(self, length: float) -> None:
        self.length = length
        self._rules: dict[str, str] = {}

    def shown(self, start: float, end: float) -> str:
        """Return the attributes of an element that is visible from one moment to another, in microseconds."""
        frames = {0.0: "opacity:0", start: "opacity:1"}
        if end < self.length:
            frames[end] = "opacity:0"
        return self._played(frames, timing="step-end")

    def moved(self, start: float, end: float, way: tuple[float, float, float, float]) -> str:
        """Return the attributes of an element that moves in a line, and is visible meanwhile."""
        x, y, to_x, to_y = (round(value, 1) for value in way)
        brief = 0.1 * (end - start)
        here, there = f"transform:translate({x}px,{y}px)", f"transform:translate({to_x}px,{to_y}px)"
        frames = {
            0.0: f"opacity:0;{here}", start: f"opacity:0;{here}", start + brief: f"opacity:1;{here}",
            end - brief: f"opacity:1;{there}", end: f"opacity:0;{there}", self.length: f"opacity:0;{there}",
        }  # fmt: skip
        return self._played(frames, timing="linear")

    def swept(self, end: float) -> str:
        """Return the attributes of an element that moves to the right until the end of an epoch."""
        there = f"transform:translate({self.pixels(end):.1f}px,0)"
        return self._played({0.0: "transform:translate(0,0)", end: there, self.length: there}, timing="linear")

    def pixels(self, time_us: float) -> float:
        """Return the distance of a time from the left end of the lanes."""
        return _LANE * time_us / self.length

    def style(self) -> str:
        """Return the rules of all animations."""
        play = f"animation-duration:{PLAY_S}s;animation-iteration-count:infinite"
        delay = f"animation-delay:-{PLAY_S * _SHOWN_AT:g}s"
        common = f".film{{{play}}}\n@media (prefers-reduced-motion: reduce) {{ .film {{ {delay} }} }}\n"
        return common + "\n".join(f"@keyframes {name}{rule}" for rule, name in self._rules.items()) + "\n"

    def _played(self, frames: dict[float, str], *, timing: str) -> str:
        rule = " ".join(f"{100 * at / self.length:.5g}%{{{value}}}" for at, value in frames.items())
        name = self._rules.setdefault(f"{{{rule}}}", f"f{len(self._rules)}")
        return f'class="film" style="animation-name:{name};animation-timing-function:{timing}"'


def _half(film: _Film, panel: Panel, *, left: int) -> str:
    walk = panel.walk
    drawn = [
        f'<text class="title" x="{_LEFT}" y="26">{html.escape(panel.title)}</text>',
        *_graph(walk),
        *(_ring(film, step, spot) for step in walk.steps if step.end > step.start for spot in _computing(walk, step)),
        *_messages(film, walk),
        *_lanes(film, walk),
        *_captions(film, walk),
    ]
    return f'<g transform="translate({left} 0)">\n' + "\n".join(drawn) + "\n</g>"


def _at(x: float, y: float) -> tuple[float, float]:
    """Convert the drawing's units to pixels of a panel."""
    return _LEFT + 16 + 48 * x, 186 - 62 * y


def _graph(walk: EpochWalk) -> Iterator[str]:
    graph, owner = walk.parts.graph, walk.parts.owner.tolist()
    places = [_at(*place) for place in places_of(graph)]
    for a, b in neighbours(graph):
        (x, y), (to_x, to_y) = places[a], places[b]
        dash = "" if owner[a] == owner[b] else f' stroke-dasharray="5 4" style="stroke:{OKABE_ITO["orange"]}"'
        yield f'<line x1="{x:g}" y1="{y:g}" x2="{to_x:g}" y2="{to_y:g}" stroke="var(--edge)" stroke-width="2"{dash}/>'
    for node, (x, y) in enumerate(places):
        yield f'<circle cx="{x:g}" cy="{y:g}" r="13" fill="{_COLORS[owner[node]]}"/>'
        yield f'<text class="node" x="{x:g}" y="{y + 4.5:g}">{node}</text>'


def _computing(walk: EpochWalk, step: EpochStep) -> Iterator[tuple[float, float]]:
    """Yield the nodes that compute in a step, as the player draws them."""
    ring = changed_traces(walk, step)[0]
    yield from zip(ring["x"], ring["y"], strict=True)


def _ring(film: _Film, step: EpochStep, spot: tuple[float, float]) -> str:
    x, y = _at(*spot)
    shown = film.shown(step.start, step.end)
    return f'<circle {shown} cx="{x:g}" cy="{y:g}" r="16.5" fill="none" stroke="var(--ink)" stroke-width="2.5"/>'


def _messages(film: _Film, walk: EpochWalk) -> Iterator[str]:
    marks = iter(row_marks(walk))
    for flight, ways in zip(walk.flights, row_ways(walk), strict=True):
        for (start, end), (label, is_backward) in zip(ways, marks, strict=False):
            moved = film.moved(flight.start, flight.end, (*_at(*start), *_at(*end)))
            fill = "#f0e442" if is_backward else OKABE_ITO["sky"]
            circle = f'<circle r="11" fill="{fill}" stroke="var(--ink)"/>'
            yield f'<g {moved}>{circle}<text class="bits" y="4">{label.removesuffix("b")}</text></g>'


def _lanes(film: _Film, walk: EpochWalk) -> Iterator[str]:
    for row, name in enumerate(("workers", "messages")):
        yield f'<text class="lane" x="{_LEFT - 8}" y="{_LANES + 13 + 22 * row}">{name}</text>'
    for step in walk.steps:
        fill = ACTIVITY_STYLES.get(step.activity, "#c8ccd0 ").split()[0]
        x, width = _LEFT + film.pixels(step.start), film.pixels(step.end - step.start)
        yield f'<rect x="{x:.1f}" y="{_LANES}" width="{width:.1f}" height="17" fill="{fill}"/>'
    for start, end in sorted({(flight.start, flight.end) for flight in walk.flights}):
        yield (
            f'<rect x="{_LEFT + film.pixels(start):.1f}" y="{_LANES + 25}" width="{film.pixels(end - start):.1f}"'
            ' height="11" fill="var(--edge)" rx="3"/>'
        )
    if walk.vanilla is not None:  # the end of Vanilla's epoch
        x = _LEFT + film.pixels(walk.vanilla.length)
        yield (
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{_LANES - 4}" y2="{_LANES + 42}" stroke="var(--ink)"'
            ' stroke-width="1.5" stroke-dasharray="4 3"/>'
        )
    swept = film.swept(walk.length)
    yield f'<rect {swept} x="{_LEFT - 1}" y="{_LANES - 4}" width="2.5" height="46" fill="var(--ink)"/>'


def _captions(film: _Film, walk: EpochWalk) -> Iterator[str]:
    begin, longest = 0.0, walk.steps[0]
    for step in walk.steps:
        longest = max(longest, step, key=lambda each: each.end - each.start)
        if step.end - begin >= _SHORT * film.length or step is walk.steps[-1]:
            yield _captioned(film, begin, step.end, _caption(walk, longest), longest.activity)
            begin, longest = step.end, replace(step, start=step.end, modelled_us=(0.0,))
    yield _captioned(film, walk.length, film.length, f"the epoch has ended after {_length(walk)}", "update")
    sent, since = 0, 0.0
    for step in walk.steps:
        if step.activity == "post" and step.place is not None:
            yield _sent(film, sent, since, step.start)
            sent, since = sent + sum(rows.num_bytes for rows in walk.messages_of(step.place)), step.start
    yield _sent(film, sent, since, film.length)


def _captioned(film: _Film, start: float, end: float, words: str, activity: str) -> str:
    fill = ACTIVITY_STYLES.get(activity, "#c8ccd0 ").split()[0]
    square = f'<rect x="{_TEXT - 18}" y="{_LANES + 53}" width="11" height="11" fill="{fill}"/>'
    text = f'<text x="{_TEXT}" y="{_LANES + 63}">{html.escape(words)}</text>'
    return f"<g {film.shown(start, end)}>{square}{text}</g>"


def _sent(film: _Film, sent: int, start: float, end: float) -> str:
    return f'<text {film.shown(start, end)} x="{_TEXT}" y="{_LANES + 83}">sent so far: {_bytes(sent)}</text>'


def _length(walk: EpochWalk) -> str:
    comparison = compare_length(walk)
    return f"{walk.length:,.0f} µs" + (f", {comparison}" if comparison else "")


def _caption(walk: EpochWalk, step: EpochStep) -> str:
    """Return what happens in a step, in one line."""
    if step.place is None:
        return {
            "start": f"{walk.parts.workers} workers own five nodes each; all have the same weights",
            "loss": "compute the loss of the training nodes",
            "reduce": "all-reduce the weight gradients",
            "update": "update the weights",
        }[step.activity]
    forward = step.place.direction == "forward"
    sent = _bytes(sum(rows.num_bytes for rows in walk.messages_of(step.place)))
    words = {
        "encode": "encode boundary embeddings" if forward else "encode gradients of halo nodes",
        "post": f"send {sent}",
        "wait": f"send {sent} and wait" if walk.way == "vanilla" else "wait for the rest of the messages",
        "decode": "decode into halo embeddings" if forward else "decode, add to the owners' gradients",
        "central": "aggregate central nodes" if forward else "compute gradients of owned nodes",
        "marginal": "aggregate marginal nodes" if forward else "compute gradients of halo nodes",
    }[step.activity]
    return f"layer {step.place.layer + 1}, {step.place.direction}: {words}"


def _bytes(count: int) -> str:
    return f"{count:,} bytes"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m docs.site.moving_picture", description=__doc__)
    parser.add_argument("--path", type=Path, default=PICTURE, help="where the picture is written")
    path = parser.parse_args(arguments).path
    path.write_text(draw(panels()), encoding="utf-8")
    print(f"picture: {path}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
