"""A loop over cases runs all of them, names the one that failed, and keeps their fixtures separate."""

from __future__ import annotations

import os

import pytest

from tests.cases import each


def test_every_combination_runs():
    seen = []

    @each("a", [1, 2, 3])
    @each(("b", "c"), [("x", "y"), ("z", "w")])
    def check(a, b, c):
        seen.append((a, b, c))

    check()
    assert seen == [(a, b, c) for a in (1, 2, 3) for b, c in (("x", "y"), ("z", "w"))]


def test_the_case_that_fails_is_named():
    @each("a", [1, 2])
    @each(("b", "c"), [(0, 0), (5, "long")])
    def check(a, b, c):
        assert (a, b) != (2, 5)

    with pytest.raises(AssertionError) as caught:
        check()
    assert caught.value.__notes__ == ["the case: b=5, c='long'", "the case: a=2"]


def test_no_case_and_no_such_argument_are_errors():
    with pytest.raises(ValueError, match="a loop over a needs at least one case, got none"):
        each("a", [])
    with pytest.raises(ValueError, match=r"cases fill arguments of check\(a\), got \('b',\)"):

        @each("b", [1])
        def check(a):
            pass


@each("name", ["one", "two"])
def test_a_case_has_its_own_folder_environment_and_output(tmp_path, monkeypatch, capsys, name):
    assert not list(tmp_path.iterdir()) and "GNNQLAB_A_CASE" not in os.environ
    (tmp_path / "file").write_text(name)
    monkeypatch.setenv("GNNQLAB_A_CASE", name)
    print(name)
    if name == "two":
        assert capsys.readouterr().out == "two\n"


def test_no_case_is_skipped_behind_the_back_of_others():
    @each("a", [1, 2])
    def check(a):
        if a == 2:
            pytest.skip("not here")

    with pytest.raises(AssertionError, match="in the middle of a loop cannot be skipped: not here"):
        check()
