"""Headline numbers of a position of the knobs as tiles: epoch time, training time, bytes, variance."""

from __future__ import annotations

import html
from dataclasses import dataclass

from gnnqlab.lab.tuner.model import TunerModel
from gnnqlab.tune.forecast import Forecast
from gnnqlab.units import format_power, human_bytes, human_seconds

__all__ = ["Tile", "tiles", "tiles_html"]

_BOX = "flex:1 1 150px;border:1px solid var(--jp-border-color2,#d8dee4);border-radius:6px;padding:4px 10px"

_THREE = "flex:1 1 560px;min-width:0;display:flex;flex-wrap:wrap;gap:8px"


@dataclass(frozen=True, kw_only=True)
class Tile:
    """One number with its name and a note."""

    name: str
    value: str
    note: str


def tiles(model: TunerModel) -> list[Tile]:
    """Return the headline numbers of a position; bound and staleness of bit-widths if they are known.

    Args:
        model: model whose current graph, model and link were probed.
    """
    forecast, (speedup, spread) = model.forecast, model.speedup
    spread_text = "" if spread is None else f" (± {spread:.1g})"
    epochs = model.config.train.epochs  # of the whole training
    headline_tiles = [
        Tile(
            name="Epoch" if model.is_timed else "Epoch, first estimate",
            value=human_seconds(forecast.epoch_s),
            note=f"predicted {speedup:.2f}×{spread_text} Vanilla, {human_seconds(forecast.vanilla_s)}"
            + ("" if model.is_timed else "; not timed yet"),
        ),
        Tile(
            name=f"{epochs} such epochs",
            value=human_seconds(epochs * forecast.epoch_s),
            note=f"Vanilla {human_seconds(epochs * forecast.vanilla_s)}; without bit assignment and evaluation",
        ),
        Tile(
            name="Sent per epoch",
            value=human_bytes(forecast.bytes_sent),
            note=f"mean bit-width {forecast.mean_bits:.2f}",
        ),
        _variance(forecast),
        *_accuracy(model),
    ]
    if bounds := model.bound_per_layer:
        by_layer = ", ".join(f"layer {layer + 1}: {format_power(bound)}" for layer, bound in bounds.items())
        headline_tiles.append(Tile(name="Bound of Theorem 3", value=format_power(sum(bounds.values())), note=by_layer))
    if model.settings.assigns and model.has_aging:
        period = model.settings.period
        headline_tiles.append(
            Tile(
                name="Stale assignment",
                value=f"variance +{model.stale_loss:.0%}".replace("%", "\u00a0%"),
                note=f"mean of the {period} epochs until the next assignment",
            )
        )
    return headline_tiles


def _accuracy(model: TunerModel) -> list[Tile]:
    """Return the share of trainings that are expected to reach Vanilla's accuracy; empty until it is computed."""
    if not model.has_risk:
        return []
    risk = model.risk
    more = f", in {risk.epochs:.2f} times its epochs" if risk.epochs > 1.005 else ""
    share = f"{risk.reached:.0%}".replace("%", "\u00a0%")
    return [Tile(name="Reaches Vanilla's accuracy", value=share, note=f"of trainings{more}; {risk.source}")]


def _variance(forecast: Forecast) -> Tile:
    name = "Gradient variance"
    if forecast.no_variance:
        return Tile(name=name, value="not forecast", note=forecast.no_variance)
    total = forecast.total_variance
    return Tile(name=name, value=format_power(total), note="of quantization; 0 for Vanilla" if total else "none added")


def tiles_html(model: TunerModel) -> str:
    """Return the tiles in a row that wraps on a narrow page, and the assumptions of the prediction."""
    fragments = [
        f'<div style="{_BOX}">'
        f'<div style="font-size:12px">{html.escape(tile.name)}</div>'
        '<div style="margin:0;font-size:19px;font-weight:600;line-height:1.35;white-space:nowrap">'
        f"{html.escape(tile.value)}</div>"
        f'<div style="margin:0;font-size:12px;line-height:1.35">{_unbroken(tile.note)}</div></div>'
        for tile in tiles(model)
    ]
    # In groups of three, so that no tile is alone on a line: one row of six on a wide page, else two rows.
    groups = "".join(
        f'<div style="{_THREE}">{"".join(fragments[start : start + 3])}</div>' for start in range(0, len(fragments), 3)
    )
    row = f'<div style="display:flex;flex-wrap:wrap;gap:8px;margin:4px 2px">{groups}</div>'
    assumptions = model.forecast.assumes
    words = f'<p style="margin:0 2px">Assumes {html.escape(", ".join(assumptions))}.</p>' if assumptions else ""
    return f'<div role="status">{row}{words}</div>'


def _unbroken(note: str) -> str:
    """Return a note as HTML that wraps only after the commas between its parts.

    Example:
        >>> _unbroken("a, b")
        '<span style="display:inline-block">a,</span> <span style="display:inline-block">b</span>'
    """
    parts = note.replace(", ", ",\n").splitlines()
    return " ".join(f'<span style="display:inline-block">{html.escape(part)}</span>' for part in parts)
