"""Contents of ``import gnnqlab as gq``: names, signatures, help; the same for readers, completion and type checkers."""

from __future__ import annotations

import ast
import importlib
import inspect
import operator
import pydoc
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import gnnqlab as gq
from gnnqlab.launch.start import launch
from gnnqlab.launch.stub import STUB, stub_text
from gnnqlab.partition.parts import partition
from gnnqlab.systems.parts import BASES, PARTS
from gnnqlab.train.config import keywords
from tests.slow_down import HANG_S

pytestmark = pytest.mark.core

SOURCE = Path(gq.__file__)


def typed_names() -> dict[str, str]:
    """Public names that type checkers see, and the module from which ``__init__.pyi`` imports each."""
    stub = ast.parse(SOURCE.with_suffix(".pyi").read_text())
    found = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom):  # In a stub only an import `as` the same name is an export.
            module = str(node.module)
            found |= {
                name.asname: f"{module}.{name.name}" if name.asname in gq._MODULES else module
                for name in node.names
                if name.asname and not name.asname.startswith("_")
            }
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.target.id in gq._MODULES:
            found[node.target.id] = f"gnnqlab.{node.target.id}"  # callable modules
    return found


def defining_module(name: str) -> str:
    value = getattr(gq, name)
    return str(value.__name__ if inspect.ismodule(value) else value.__module__)


def test_every_name_is_offered_typed_and_there() -> None:
    assert typed_names() == {name: defining_module(name) for name in gq.__all__}
    assert gq.__all__ == sorted({**gq._HOMES, **gq._MODULES})
    assert set(dir(gq)) == {*gq.__all__, "__version__", "__doc__", "__name__"}
    assert len(gq.__all__) <= 45, "parts belong to their axis, exports to Run"
    assert SOURCE.with_name("py.typed").exists()


@pytest.mark.parametrize(
    ("namespace", "axis"),
    [
        (gq.partitioners, "partition"),
        (gq.exchanges, "exchange"),
        (gq.samplers, "sampler"),
        (gq.caches, "cache"),
        (gq.codecs, "codec"),
        (gq.bits, "bits"),
        (gq.schedules, "schedule"),
        (gq.compute, "compute"),
    ],
)
def test_completion_shows_every_part_of_an_axis(namespace: ModuleType, axis: str) -> None:
    parts = {kind.__name__ for kind in PARTS[axis].values()}
    assert parts | {BASES[axis].__name__} <= set(dir(namespace))
    assert all(inspect.isclass(getattr(namespace, name)) for name in dir(namespace)), "no module or helper is public"


@pytest.mark.parametrize("former", [name for names in gq._FORMER.values() for name in names])
def test_a_name_that_was_at_the_top_works_with_a_warning(former: str) -> None:
    (home,) = [home for home, names in gq._FORMER.items() if former in names]
    with pytest.warns(DeprecationWarning, match=re.escape(f"gnnqlab.{former} is gnnqlab.{home}.{former} now")) as seen:
        value = getattr(gq, former)
    assert value is operator.attrgetter(f"{home}.{former}")(gq) and seen[0].filename == __file__
    assert former not in dir(gq)


@pytest.mark.parametrize(("module", "function"), [(gq.launch, launch), (gq.partition, partition)])
def test_a_callable_module_shows_the_parameters_of_its_function(module: object, function: object) -> None:
    parameters = inspect.signature(function).parameters  # type: ignore[arg-type]
    shown = inspect.signature(module).parameters  # type: ignore[arg-type]
    assert {name: shown[name] for name in parameters if name != "settings"} == {
        name: each for name, each in parameters.items() if name != "settings"
    }
    text = pydoc.plain(pydoc.render_doc(module))
    assert inspect.getdoc(function).splitlines()[0] in text  # type: ignore[union-attr]
    assert str(inspect.signature(function)) in text  # type: ignore[arg-type]


def test_help_and_editors_show_every_setting_of_a_run() -> None:
    shown, text = inspect.signature(gq.launch).parameters, pydoc.plain(pydoc.render_doc(gq.launch))
    settings = keywords.keywords()
    assert set(shown) == {*inspect.signature(launch).parameters, *settings} - {"settings"}
    assert {"epochs", "hidden", "lam", "bits", "hosts", "num_negatives", "heads", "partition"} <= set(shown)
    assert shown["epochs"].default == 60 and repr(shown["bits"].default) == "8 or 32 or 1 or 2", "they differ"
    assert all(re.search(rf"^ +{name}( \(|:)", text, re.MULTILINE) for name in settings.keys() - keywords.PASSED_ON)
    assert STUB.read_text(encoding="utf-8") == stub_text(), (
        'write it again: python -c "from gnnqlab.launch.stub import write_stub; write_stub()"'
    )


@pytest.mark.parametrize(
    ("call", "types"),
    [
        (
            'launch("digits", ',
            {
                "system": "str | System",
                "tags": "Sequence[str]",
                "epochs": "int",
                "lr": "float",
                "transport": 'Literal["direct", "ring", "all-to-all"]',
            },
        ),
        ("compare(", {"runs": "Sequence[RunLike]", "baseline": "str | int | None"}),
        ('recommend("digits", ', {"link": "str | None", "objective": "str"}),
        ("Study(", {"seeds": "Iterable[int]", "workers": "int | Sequence[int]"}),
        ("partition(", {"graph": "GraphLike", "workers": "int | None"}),
    ],
)
def test_an_editor_completes_settings_with_their_types(
    call: str, types: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    jedi = pytest.importorskip("jedi")
    # jedi ignores the finder of scikit-build-core's editable installation, and all packages that it finds.
    monkeypatch.setattr(sys, "meta_path", [each for each in sys.meta_path if "editable" not in type(each).__module__])
    script = jedi.Script(
        f"import gnnqlab as gq\ngq.{call}",
        environment=jedi.api.environment.InterpreterEnvironment(),
        project=jedi.Project(SOURCE.parents[1]),
    )
    proposed = {each.name for each in script.complete()}
    assert {f"{name}=" for name in types} <= proposed
    (signature, *_) = script.get_signatures()
    shown = {each.name: each.to_string() for each in signature.params}
    for name, kind in types.items():
        assert re.fullmatch(rf"{name}: _?{re.escape(kind)}(=.*)?", shown[name]), shown[name]


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(AttributeError, match="module 'gnnqlab' has no attribute 'lunch'; did you mean launch"):
        gq.lunch  # noqa: B018


def test_launch_trains_on_two_workers(tmp_path: Path) -> None:
    run = gq.launch("sbm:60,3,6", system="adaqp", workers=2, epochs=2, layers=2, hidden=8, out=tmp_path, wait=True)
    assert run.status == "finished", run.errors
    assert sorted(zip(run.records["epoch"], run.records["rank"])) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    assert (run.records["bytes_payload"] > 0).all()


@pytest.mark.parametrize(
    ("package", "former", "present"),
    [
        ("gnnqlab.launch", "written", "gnnqlab.run.run_data"),
        ("gnnqlab.launch", "folder", "gnnqlab.run.folder"),
        ("gnnqlab.lab", "players", "gnnqlab.course.players"),
        ("gnnqlab.lab", "Bundle", "gnnqlab.lab.FigureData"),
    ],
)
def test_a_former_name_leads_to_the_present_one_with_a_warning(package: str, former: str, present: str) -> None:
    with pytest.warns(DeprecationWarning, match=f"{package}.{former} is {present} now"):
        assert getattr(importlib.import_module(package), former).__name__ == present.removeprefix("gnnqlab.lab.")


def test_a_codec_of_ones_own_may_import_the_former_module_of_layouts() -> None:
    with pytest.warns(DeprecationWarning, match="gnnqlab.message.wire is gnnqlab.message.layout now"):
        assert (
            importlib.import_module("gnnqlab.message.wire").lay_out
            is importlib.import_module("gnnqlab.message.layout").make_layout
        )


def test_the_parts_of_the_course_that_need_no_tensors_import_without_torch() -> None:
    modules = [
        "gnnqlab.course.exercises",
        "gnnqlab.course.numeric.on_messages",
        "gnnqlab.course.numeric.on_systems",
        "gnnqlab.course.student.guesses",
        "gnnqlab.course.student.progress",
        "gnnqlab.lab.figures.charts",
        "gnnqlab.lab.figures.graph_drawing",
        "gnnqlab.lab.figures.light.choice_page",
        "gnnqlab.theory.cost",
    ]
    code = f"import sys; sys.modules['torch'] = None\nfrom gnnqlab import course\nimport {', '.join(modules)}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG_S)
    assert done.returncode == 0, done.stderr
