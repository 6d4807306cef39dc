"""Stepped player of a bit assignment: the assigner's six steps, with λ, group size and bit-widths to change.

``AssignerModel`` is the state of the player; ``AssignerPlayer`` adds controls and figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from gnnqlab.course.players.assigner_views import ASSIGNER_STEPS, draw_assignment
from gnnqlab.course.players.assigner_walk import AssignerWalk, trace_parts
from gnnqlab.course.players.stepped import Player, StepControls, WalkModel, page_steps
from gnnqlab.former_names import accepts_former_names
from gnnqlab.lab.figures.bundle import FigureData
from gnnqlab.lab.figures.controls import KNOBS, row_with_tip
from gnnqlab.lab.figures.light.choice_page import Choice, PageStep, write_choice_page
from gnnqlab.settings import Former
from gnnqlab.tune.probe import LAMS, Probe
from gnnqlab.tune.wire import Wire

if TYPE_CHECKING:
    from gnnqlab.partition.parts import Parts

__all__ = ["AssignerModel", "AssignerPlayer"]

_CHOICES = ((2, 4, 8), (2, 8), (2, 4), (4, 8), (1, 2, 4, 8))
"""Sets of bit-widths offered by the control."""
_GROUPS = (1, 5, 10, 20, 50, 100, 200, 500, 1000)
"""Group sizes offered by the control."""
_PAGE_LAMS, _PAGE_GROUPS = LAMS[::2], (10, 100)
"""Values of λ of an exported page, and group sizes besides the one shown."""


class AssignerModel(WalkModel):
    """State of the player: the assignment, message and step shown.

    Example:
        >>> from gnnqlab import course
        >>> from gnnqlab.partition.parts import partition
        >>> seen = trace_parts(partition(course.ten_nodes(), course.Halves(), workers=2), hidden=8, layers=2)
        >>> model = AssignerModel(AssignerWalk.from_trace(seen, Wire.from_rate("1mbit", workers=2), group_size=1))
        >>> model.step, model.next_step(), model.step
        ('trace', True, 'beta')
    """

    def __init__(self, walk: AssignerWalk) -> None:
        super().__init__(ASSIGNER_STEPS, walk)

    @property
    def messages(self) -> list[tuple[int, str, int, int]]:
        """Messages that can be followed: (layer, direction, sender, receiver)."""
        return [
            (message.layer, message.direction, message.sender, message.receiver)
            for message in self.walk.assigner.trace.messages
        ]

    def change(self, **changes: Any) -> None:
        """Change ``lam``, ``group_size``, ``bit_widths``, or the message by ``layer, direction, sender, receiver``.

        Raises:
            ValueError: if a value is out of range, or there is no such message.
        """
        self.walk = self.walk.with_changes(**changes)

    def to_code(self) -> str:
        """Return the line of Python that shows the same assignment."""
        walk = self.walk
        return (
            f"gq.course.AssignerPlayer(source, lam={walk.settings.lam:g}, group_size={walk.settings.group_size}, "
            f"bit_widths={walk.settings.bit_widths}, layer={walk.layer}, direction={walk.direction!r}, "
            f"sender={walk.sender}, receiver={walk.receiver})"
        )


class _AssignerControls(StepControls):
    def __init__(self, model: AssignerModel) -> None:
        super().__init__(model, order="bit-widths are assigned")
        import ipywidgets as widgets

        self.model = model
        walk = model.walk
        self.lam = widgets.FloatSlider(
            walk.settings.lam, min=0, max=1, step=0.05, description="λ", continuous_update=False,
            tooltip="0 to 1: 0 minimizes only time, 1 only variance",
        )  # fmt: skip
        # An unusual group size of the caller becomes an option too.
        self.group_size = widgets.SelectionSlider(
            options=sorted({*_GROUPS, walk.settings.group_size}), value=walk.settings.group_size,
            description="Group size", continuous_update=False, tooltip="Rows that share a bit-width",
        )  # fmt: skip
        choices = sorted({*_CHOICES, walk.settings.bit_widths})  # a set that the caller passed is offered as well
        self.bit_widths = widgets.Dropdown(
            options=[(", ".join(map(str, widths)), widths) for widths in choices], value=walk.settings.bit_widths,
            description="Bit-widths", tooltip="Bits per element to choose from",
        )  # fmt: skip
        self.message = widgets.Dropdown(
            options=[(f"layer {key[0] + 1}, {key[1]}, {key[2]} → {key[3]}", key) for key in model.messages],
            value=(*walk.place, walk.sender, walk.receiver), description="Message",
            tooltip="Message to follow; all messages of its layer and direction are assigned together",
        )  # fmt: skip
        knobs = widgets.HBox(
            [self.lam, self.group_size, row_with_tip(self.bit_widths), row_with_tip(self.message)], layout=KNOBS
        )
        # redraw on a change of any of them
        self.lay_out(knobs, follows=[self.lam, self.group_size, self.bit_widths, self.message])

    def apply(self) -> None:
        layer, direction, sender, receiver = self.message.value
        self.model.change(
            lam=self.lam.value, group_size=self.group_size.value, bit_widths=self.bit_widths.value,
            layer=layer, direction=direction, sender=sender, receiver=receiver,
        )  # fmt: skip


class AssignerPlayer(Player):
    """Interactive player of one bit assignment: its six steps, on value ranges traced in real epochs.

    At the end of a notebook cell it shows the player; without a kernel, all six steps as one figure.

    Args:
        source: a probe, or a partition, on which a small model is traced first, in this process.
        lam: λ in [0, 1]: 1 minimizes only variance, 0 only time.
        group_size: rows that share a bit-width.
        bit_widths: bit-widths to choose from.
        layer: layer of the messages, from 0; by default the second.
        direction: ``forward`` or ``backward``.
        sender: sender of the message to follow.
        receiver: receiver of that message.
        link: rate of the link between the workers, for a partition; a probe has its own.
        **settings: see `trace_parts`, for a partition.

    Raises:
        ValueError: if a value is out of range, there is no such message, or a link or settings come with a probe.
    """

    controls = _AssignerControls

    @accepts_former_names
    def __init__(
        self,
        source: Probe | Parts,
        *,
        lam: float = 0.5,
        group_size: int = 100,
        bit_widths: Annotated[tuple[int, ...], Former("widths")] = (2, 4, 8),
        layer: int | None = None,
        direction: str = "forward",
        sender: int = 0,
        receiver: int = 1,
        link: str | None = None,
        **settings: Any,
    ) -> None:
        if isinstance(source, Probe):
            # A probe has its own trace and link, so arguments for them would have no effect.
            if settings or link is not None:
                extra = sorted({*settings, *(() if link is None else ("link",))})
                raise ValueError(f"a probe has its trace and its link already, got {extra}; pass a partition instead")
            trace, wire = source.trace, source.wire
        else:
            trace = trace_parts(source, **settings)
            rate = "100mbit" if link is None else link
            # every worker on a host of its own, so all messages use the link
            wire = Wire.from_rate(rate, workers=source.workers, hosts=source.workers)
        walk = AssignerWalk.from_trace(
            trace,
            wire,
            lam=lam,
            group_size=group_size,
            bit_widths=bit_widths,
            layer=layer,
            direction=direction,
            sender=sender,
            receiver=receiver,
        )
        self.model = AssignerModel(walk)

    def export(self, path: str | Path) -> Path:
        """Write a page that goes through the steps without a kernel or a network, by mouse, touch or keyboard.

        It has six values of λ, up to three group sizes, and the message shown.

        Args:
            path: the file to write, ``.html``.

        Returns:
            The written path.

        Raises:
            ValueError: if the file name does not end in ``.html`` or ``.htm``.
        """
        walk = self.model.walk
        sizes = sorted({*_PAGE_GROUPS, walk.settings.group_size})

        def steps(lam: int, size: int) -> list[PageStep]:
            return page_steps(ASSIGNER_STEPS, walk.with_changes(lam=_PAGE_LAMS[lam], group_size=sizes[size]))

        choices = [
            Choice(
                label="λ", options=[f"{lam:g}" for lam in _PAGE_LAMS], kind="slider",
                ends=("0: fastest", "1: least noise"),
                first=min(range(len(_PAGE_LAMS)), key=lambda index: abs(_PAGE_LAMS[index] - walk.settings.lam)),
            ),
            Choice(
                label="Group size", options=[str(size) for size in sizes], first=sizes.index(walk.settings.group_size)
            ),
        ]  # fmt: skip
        return write_choice_page(path, title="Bit-widths are assigned, step by step", choices=choices, steps=steps)

    def whole(self) -> FigureData:
        """Return all six steps as one figure."""
        return draw_assignment(self.model.walk)

    def __repr__(self) -> str:
        walk = self.model.walk
        return (
            f"AssignerPlayer(layer {walk.layer + 1}, {walk.direction}, worker {walk.sender} to worker "
            f"{walk.receiver}: {walk.message.num_rows} rows, λ {walk.settings.lam:g})"
        )
