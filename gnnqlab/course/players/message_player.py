"""Stepped player of a message: choose a row and a bit-width, go step by step, draw new noise.

``PlayerModel`` is the state of the player; ``MessagePlayer`` adds controls and figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gnnqlab.bits.in_words import human_bits
from gnnqlab.course.experiments.real_message import RealMessage, trained_message
from gnnqlab.course.players.message_views import STEPS, draw_walk
from gnnqlab.course.players.message_walk import MessageWalk
from gnnqlab.course.players.stepped import Player, StepControls, WalkModel, page_steps
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.controls import KNOBS, LABEL_LEFT, row_with_tip
from gnnqlab.lab.figures.light.choice_page import Choice, PageStep, write_choice_page

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["MessagePlayer", "PlayerModel"]

_PAGE_ROWS = 3
"""Number of rows that an exported page follows."""


class PlayerModel(WalkModel):
    """State of the player: message, row, bit-width, noise and step.

    Example:
        >>> import torch
        >>> message = RealMessage(torch.tensor([[0.0, 1.0, 3.0]]), torch.tensor([7]), 0, 1, layer=1, epoch=0, seed=0)
        >>> player = PlayerModel(message, bits=2)
        >>> player.step, player.next_step(), player.step
        ('row', True, 'ruler')
    """

    def __init__(self, message: RealMessage, *, bits: int = 2, node: int | None = None) -> None:
        super().__init__(STEPS, MessageWalk.from_message(message, bits=bits, node=node))
        self.message = message

    def change(self, *, bits: int | None = None, node: int | None = None) -> None:
        """Follow another row, or send the message in another bit-width, with the same noise.

        Raises:
            ValueError: if there is no such row or bit-width.
        """
        walk = self.walk
        # Other rows and bit-widths reuse the number of the noise, so only the changed setting has an effect.
        width = walk.bits if bits is None else bits
        row = walk.node if node is None else node
        self.walk = MessageWalk.from_message(self.message, bits=width, node=row, draw=walk.draw)

    def draw_again(self) -> None:
        """Send the message again, with the noise of the next epoch."""
        walk = self.walk
        # the next epoch's noise key
        self.walk = MessageWalk.from_message(self.message, bits=walk.bits, node=walk.node, draw=walk.draw + 1)


class _MessageControls(StepControls):
    def __init__(self, model: PlayerModel) -> None:
        super().__init__(model, order="a message is encoded and decoded")
        import ipywidgets as widgets

        from gnnqlab.kernels.codec.rows import WIDTHS

        self.model = model
        nodes = model.message.ids.tolist()
        self.bits = widgets.ToggleButtons(
            options=[(human_bits(bits), bits) for bits in WIDTHS],
            value=model.walk.bits,
            description="Bits",
            tooltips=[f"{bits} per element" for bits in WIDTHS],
            layout=LABEL_LEFT,
            style={"button_width": "64px", "description_width": "40px"},
        )
        self.row = widgets.Dropdown(
            options=[(f"node {node}", node) for node in nodes],
            value=model.walk.node,
            description="Row",
            tooltip="Row of the message to follow",
        )
        self.again = widgets.Button(
            description="New noise", icon="random", tooltip="Send the message again, with the noise of the next epoch"
        )
        self.again.on_click(self._draw_again)
        choices = widgets.HBox(
            [self.bits, row_with_tip(self.row), self.again], layout=KNOBS
        )  # the button redraws by itself
        self.lay_out(choices, follows=[self.bits, self.row])

    def apply(self) -> None:
        self.model.change(bits=self.bits.value, node=self.row.value)

    def _draw_again(self, button: Any) -> None:
        self.model.draw_again()
        self.draw()


class MessagePlayer(Player):
    """Interactive player of one real message: quantize, pack, send and unpack, step by step.

    At the end of a notebook cell it shows the player; without a kernel, the main steps as one figure.

    Args:
        source: a message, or a partition, on which a small model is trained first; worker 0 sends to worker 1.
        bits: 1, 2, 4 or 8 bits per element.
        node: node of the row to follow; by default that with the most distinct values.
        **settings: see `trained_message`, for a partition.

    Raises:
        ValueError: if there is no such row or bit-width, or settings are passed with a message.
    """

    controls = _MessageControls

    def __init__(self, source: RealMessage | Parts, *, bits: int = 2, node: int | None = None, **settings: Any) -> None:
        if isinstance(source, RealMessage):  # a message has been trained already
            if settings:
                raise ValueError(f"a ready message takes no settings, got {sorted(settings)}; pass a partition instead")
            message = source
        else:
            message = trained_message(source, **settings)
        self.model = PlayerModel(message, bits=bits, node=node)

    def whole(self) -> FigureData:
        """Draw the main steps as one figure."""
        return draw_walk(self.model.walk)

    def export(self, path: str | Path) -> Path:
        """Write a page that goes through the steps without a kernel or a network, by mouse, touch or keyboard.

        It has all bit-widths and three rows of the message, with the noise shown.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The written path.

        Raises:
            ValueError: if the file name does not end in ``.html`` or ``.htm``.
        """
        from gnnqlab.kernels.codec.rows import WIDTHS

        shown, message = self.model.walk, self.model.message
        nodes = list(dict.fromkeys([shown.node, *message.ids.tolist()]))[:_PAGE_ROWS]

        def steps(bits: int, row: int) -> list[PageStep]:
            walk = MessageWalk.from_message(message, bits=WIDTHS[bits], node=nodes[row], draw=shown.draw)
            return page_steps(STEPS, walk)

        choices = [
            Choice(label="Bits", options=[human_bits(bits) for bits in WIDTHS], first=WIDTHS.index(shown.bits)),
            Choice(label="Row", options=[f"node {node}" for node in nodes]),
        ]
        return write_choice_page(path, title="One message, step by step", choices=choices, steps=steps)

    def __repr__(self) -> str:
        walk = self.model.walk
        return f"MessagePlayer({self.model.message!r}, row {walk.node} in {walk.width})"
