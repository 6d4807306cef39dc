"""Names on a command line: systems with settings of their own, models, graphs."""

from __future__ import annotations

import pytest

from gnnqlab.cli.grid import SystemChoice, graphs_in, models_in, systems_in
from gnnqlab.systems.registry import make_system
from tests.cases import each


def test_the_systems_of_a_grid():
    line = "vanilla, fixed-bits:bits=1,fixed-bits:bits=8:parameters=bfloat16,"
    choices = systems_in(line + "adaqp:lam=0.3:bit_widths=2+4:as-released=true,sylvie,pipegcn,bns-gcn:p=0.1")
    assert [(each.name, each.settings) for each in choices] == [
        ("vanilla", {}),
        ("fixed-bits", {"bits": 1}),
        ("fixed-bits", {"bits": 8, "parameters": "bfloat16"}),
        ("adaqp", {"lam": 0.3, "bit_widths": (2, 4), "as_released": True}),
        ("sylvie", {}),
        ("pipegcn", {}),
        ("bns-gcn", {"p": 0.1}),
    ]
    for choice in choices:
        assert make_system(choice.name, **choice.settings).name == choice.name
        assert systems_in(str(choice)) == [choice]  # a name in the progress output is valid input


@each(
    ("line", "text"),
    [
        ("fixed-bits:bit=1", r"system 'fixed-bits' takes \['bits', 'parameters'\], got \['bit'\]"),
        ("vanilla:bits=1", r"system 'vanilla' takes no settings, got \['bits'\]"),
        ("vanila:bits=1", "system must be one of"),
        ("fixed-bits:bits", "a setting must be written NAME=VALUE, got 'bits' in 'fixed-bits:bits'; for instance"),
        ("fixed-bits:bits=two", "bits of fixed-bits must be a whole number, got 'two'"),
        ("fixed-bits:bits=5", r"bits must be one of \(1, 2, 3, 4, 8, 16, 32\), got 5"),
        ("fixed-bits:bits=3", r"Stochastic writes \[1, 2, 4, 8, 16, 32\], got \[3\]; choose codec Rotated\(\)"),
        ("fixed-bits:bits=2:bits=4", "bits must be given once, got 'fixed-bits:bits=2:bits=4'"),
        ("bns-gcn:p=few", "p of bns-gcn must be a number, got 'few'"),
        ("adaqp:as_released=yes", "as_released of adaqp must be true or false, got 'yes'"),
        (
            "sylvie:bit_widths=1,2,4",
            r"commas separate systems, got '2'; join the numbers of a list by \+: bit_widths=1\+2",
        ),
        (
            "sylvie:bit_widths=1+x",
            r"bit_widths of sylvie must be numbers separated by plus signs, got '1\+x'; write 2\+4\+8",
        ),
        (" , ", "systems must name at least one system, got none"),
    ],
)
def test_error_for_invalid_system_spec_lists_the_valid_choices(line, text):
    with pytest.raises(ValueError, match=text):
        systems_in(line)


def test_commas_in_the_names_of_graphs(tmp_path):
    assert graphs_in("sbm:400,4,8,digits,rmat:10,8") == ["sbm:400,4,8", "digits", "rmat:10,8"]
    folder = tmp_path / "a,b"
    folder.mkdir()
    assert graphs_in(str(folder)) == [str(folder)]
    with pytest.raises(ValueError, match=r"graph must name each graph once, got \['cora'\] more than once"):
        graphs_in("cora,digits,cora")
    with pytest.raises(ValueError, match="model must name at least one model, got none"):
        models_in(",")


def test_a_choice_is_written_as_it_is_read():
    assert str(SystemChoice("adaqp", {"lam": 0.3, "bit_widths": (2, 8)})) == "adaqp:lam=0.3:bit_widths=2+8"
