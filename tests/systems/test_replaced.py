"""Parts of axes as words: every part with a name is written and read again, and made by the command line."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gnnqlab.bits.exact_at import ExactAt
from gnnqlab.bits.policy import Fixed
from gnnqlab.cli import main
from gnnqlab.compute import BFloat16Rows
from gnnqlab.message.caches.cache import Unchanged
from gnnqlab.message.codecs.codec import Stochastic
from gnnqlab.systems import make_system
from gnnqlab.systems.parts import PARTS
from gnnqlab.systems.recipe_call import RecipeCall
from gnnqlab.systems.replaced import parts_in, words_of
from gnnqlab.train.config.command import command_of
from gnnqlab.train.config.configure import configure
from gnnqlab.train.config.run_config import RunConfig
from tests.cases import each


@each(("axis", "name"), [(axis, name) for axis, parts in PARTS.items() for name in parts])
def test_every_part_survives_conversion_to_words_and_back(axis: str, name: str) -> None:
    part = PARTS[axis][name]()
    said = words_of(axis, part)
    assert said is not None and said.startswith(f"{axis}={name}")
    assert parts_in(said) == {axis: part}


def test_settings_of_a_part_are_read_by_their_types() -> None:
    parts = parts_in("cache=unchanged:tolerance=0.25:differences=true, bits=uniform-random:bit_widths=2+8:period=7")
    assert parts["cache"] == Unchanged(tolerance=0.25, differences=True)
    assert (parts["bits"].bit_widths, parts["bits"].period) == ((2, 8), 7)
    assert parts_in(",".join(words_of(axis, part) for axis, part in parts.items())) == parts


@each(
    ("text", "why"),
    [
        ("cash=none", r"AXIS one of \['partition', .*\], got 'cash=none'"),
        ("cache", "an axis to replace must be written AXIS=PART"),
        (
            "cache=some",
            r"cache must be one of \['adaptive', .*'unchanged'\] or module:Class, got 'some'",
        ),
        (
            "cache=unchanged:tol=0.1",
            r"takes the settings \['differences', 'tolerance'\].*got 'tol=0.1'",
        ),
        ("codec=no_such_module:Half", r"codec of your own must be module:Class.*got 'no_such_module:Half': No module"),
        ("codec=math:sqrt", r"codec of your own must be a dataclass, written module:Class, got 'math:sqrt'"),
        ("cache=none:tolerance=1", "cache none takes no settings"),
        ("cache=unchanged:tolerance=much", "tolerance of unchanged must be a number, got 'much'"),
        ("cache=none,cache=unchanged", "cache must be given once"),
    ],
)
def test_mistakes_are_named(text: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parts_in(text)


def test_a_command_repeats_a_run_with_other_parts() -> None:
    system = make_system("fixed-bits", bits=2)
    other = system.replace(cache=Unchanged(tolerance=0.1), compute=BFloat16Rows())
    config = replace(configure("digits", system="fixed-bits", bits=2), system=other)
    line = command_of(config)
    assert line is not None and line.endswith("--bits 2 --replace cache=unchanged:tolerance=0.1,compute=bfloat16")
    assert command_of(replace(config, system=replace(system, bits=Fixed(bits=4)))) is None  # its recipe is not known


def test_a_replaced_system_keeps_only_the_settings_that_hold(made_by) -> None:
    system = make_system("adaqp", lam=0.3, period=20, parameters="bfloat16")
    fixed = system.replace(bits=Fixed(bits=4))
    assert fixed.recipe == RecipeCall("adaqp", {"parameters": "bfloat16"}, ("bits",))
    assigned = system.replace(bits=replace(system.bits, lam=0.7))
    assert assigned.recipe == RecipeCall("adaqp", {"period": 20, "parameters": "bfloat16"}, ("bits",))
    wrapped = system.replace(bits=ExactAt(points=("forward",)))
    assert wrapped.recipe == RecipeCall("adaqp", dict(system.recipe.settings), ("bits",)), "the former part is inside"
    again = fixed.replace(cache=Unchanged()).replace(bits=Fixed(bits=2))
    assert again.recipe.replaced == ("bits", "cache") and system.replace(bits=system.bits).recipe == system.recipe
    assert system.on_hosts(2).recipe == system.recipe
    for changed in (fixed, assigned, wrapped, again):
        config = configure("digits", system=changed)
        line = command_of(config)
        assert line is not None and (" --lam" in line) == ("lam" in changed.recipe.settings)
        assert made_by(line) == config
        assert RunConfig.from_json(json.loads(json.dumps(config.to_json()))).system.recipe == changed.recipe


def test_the_command_line_trains_with_other_parts(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parts = "codec=stochastic:parameters=bfloat16,bits=fixed:bits=4,compute=bfloat16"
    asked = ["train", "--graph", "sbm:60,3,6", "--epochs", "2", "--hidden", "8", "--out", str(tmp_path), "--json"]
    main([*asked, "--replace", parts])
    run = tmp_path / json.loads(capsys.readouterr().out.splitlines()[-1])["run"]
    system = json.loads((run / "config.json").read_text())["system"]
    codec = {"name": "stochastic", "parameters": "bfloat16", "noise": "receiver"}
    assert (system["codec"], system["bits"]["bits"]) == (codec, 4)
    assert system["compute"] == {"name": "bfloat16"}
    with pytest.raises(SystemExit) as end:
        main([*asked, "--replace", "bits=fixed:bits=4"])  # together with a codec that writes float32 alone
    assert end.value.code == 2
    assert "bits must be widths that the codec can write" in capsys.readouterr().err
    assert parts_in(parts)["codec"] == Stochastic(parameters="bfloat16")


OWN = '''
from dataclasses import dataclass
import torch
from gnnqlab.message import Codec

@dataclass(frozen=True)
class Short(Codec):
    """Rows in a type of two bytes."""
    kind: str = "float16"
    """Name of the type."""

    def encode_rows(self, rows, bits, noise):
        return rows.to(getattr(torch, self.kind))

    def decode_rows(self, encoded, bits, noise):
        return encoded.view(getattr(torch, self.kind))
'''


def test_a_part_of_ones_own_is_named_by_module_and_class(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_short.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    line = ["train", "--graph", "sbm:60,3,6", "--epochs", "2", "--hidden", "8", "--out", str(tmp_path), "--json"]
    losses = []
    for codec in ("codec=own_short:Short", "codec=own_short:Short:kind=bfloat16"):
        main([*line, "--replace", f"{codec},bits=fixed:bits=16"])
        run = tmp_path / json.loads(capsys.readouterr().out.splitlines()[-1])["run"]
        losses.append([json.loads(each)["loss"] for each in (run / "records-rank0.jsonl").read_text().splitlines()])
    assert losses[0] != losses[1] and losses[0] == pytest.approx(losses[1], rel=0.05)
    (part,) = parts_in(codec).values()
    assert part.kind == "bfloat16" and words_of("codec", part) == codec
    sys.modules.pop("own_short")
