"""Observers for tests, importable by launched workers."""

from __future__ import annotations

from typing import Any

import gnnqlab as gq
from gnnqlab.observe import MessageDecoded

__all__ = ["Bytes", "Events", "Failing"]


class Bytes(gq.Observer):
    """Payload and parameters of each message, by epoch."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []

    def on_message_encoded(self, event: Any) -> None:
        self.rows.append({"epoch": event.epoch, "layer": event.layer, "bytes": event.num_bytes})

    def table(self) -> list[dict[str, Any]]:
        return self.rows


class Events(gq.Observer):
    """Every event, in order."""

    def __init__(self) -> None:
        self.seen: list[Any] = []

    def on_message_encoded(self, event: Any) -> None:
        self.seen.append(event)

    def on_message_decoded(self, event: Any) -> None:
        self.seen.append(event)

    def on_aggregated(self, event: Any) -> None:
        self.seen.append(event)

    def on_phase_ended(self, event: Any) -> None:
        self.seen.append(event)

    def on_decision_made(self, event: Any) -> None:
        self.seen.append(event)

    def on_epoch_ended(self, event: Any) -> None:
        self.seen.append(event)

    def table(self) -> list[dict[str, Any]]:
        return [
            {
                "event": type(each).__name__,
                "epoch": each.epoch,
                "staleness": each.staleness if isinstance(each, MessageDecoded) else None,
            }
            for each in self.seen
        ]


class Failing(gq.Observer):
    """An observer with a fault."""

    def on_aggregated(self, event: Any) -> None:
        raise ZeroDivisionError("no such layer")
