"""What ``import gnnqlab as gq`` shows: names, signatures, help; the same for readers, completion and type checkers."""

from __future__ import annotations

import ast
import inspect
import pydoc
from pathlib import Path

import pytest

import gnnqlab as gq
from gnnqlab.launch.start import launch
from gnnqlab.partition.parts import partition

pytestmark = pytest.mark.core

SOURCE = Path(gq.__file__)


def typed_names() -> set[str]:
    """Names that type checkers see: imports under ``if TYPE_CHECKING``."""
    block = next(node for node in ast.parse(SOURCE.read_text()).body if isinstance(node, ast.If))
    return {alias.asname or alias.name for node in block.body for alias in node.names}  # type: ignore[attr-defined]


def test_every_name_is_offered_typed_and_there() -> None:
    assert set(gq.__all__) == set(gq._HOMES)
    assert typed_names() == set(gq.__all__)
    assert all(getattr(gq, name) is not None for name in gq.__all__)
    assert set(dir(gq)) == {*gq.__all__, "__version__", "__doc__", "__name__"}
    assert SOURCE.with_name("py.typed").exists()


@pytest.mark.parametrize(("room", "verb"), [(gq.launch, launch), (gq.partition, partition)])
def test_a_room_with_a_verb_shows_what_the_verb_takes(room: object, verb: object) -> None:
    assert inspect.signature(room) == inspect.signature(verb)  # type: ignore[arg-type]
    text = pydoc.plain(pydoc.render_doc(room))
    assert inspect.getdoc(verb).splitlines()[0] in text  # type: ignore[union-attr]
    assert str(inspect.signature(verb)) in text  # type: ignore[arg-type]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'gnnqlab' has no attribute 'lunch'; did you mean launch"):
        gq.lunch  # noqa: B018


def test_launch_trains_on_two_workers(tmp_path: Path) -> None:
    run = gq.launch("sbm:60,3,6", system="adaqp", workers=2, epochs=2, layers=2, hidden=8, out=tmp_path, wait=True)
    assert run.status == "finished", run.errors
    assert sorted(zip(run.records["epoch"], run.records["rank"])) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (run.records["bytes_payload"] > 0).all()
