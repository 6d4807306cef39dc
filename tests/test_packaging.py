"""Packaging: the pinned versions agree with each other and with the installed packages."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.cases import each

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
DOCS = [Requirement(line) for line in EXTRAS["docs"]]
"""Packages that only the documentation needs, which `make docs` installs."""
REQUIREMENTS = [
    Requirement(line)
    for group in [PROJECT["dependencies"], *(lines for name, lines in EXTRAS.items() if name != "docs")]
    for line in group
]


def _pins(lines: list[str]) -> dict[str, str]:
    found = (re.fullmatch(r"([\w.-]+)==(\S+)", line.strip()) for line in lines)
    return {canonicalize_name(match[1]): match[2] for match in found if match}


CONSTRAINTS = _pins((ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines())
DOCS_CONSTRAINTS = _pins((ROOT / "docs" / "constraints.txt").read_text(encoding="utf-8").splitlines())
ALL_CONSTRAINTS = CONSTRAINTS | DOCS_CONSTRAINTS


@each("requirement", REQUIREMENTS + DOCS)
def test_every_requirement_is_pinned_to_a_version_that_meets_it(requirement: Requirement) -> None:
    pinned = ALL_CONSTRAINTS[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned), f"constraints.txt has {pinned}, pyproject.toml wants {requirement}"


def test_the_documentation_adds_versions_and_changes_none() -> None:
    assert not set(CONSTRAINTS) & set(DOCS_CONSTRAINTS)


def test_the_conda_environment_has_the_same_pins() -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text(encoding="utf-8"))
    (pip,) = [entry["pip"] for entry in environment["dependencies"] if isinstance(entry, dict)]
    assert "--constraint constraints.txt" in pip
    pins = _pins(pip)
    assert len(pins) == len(pip) - 1, "every package of environment.yml is pinned with =="
    assert pins == {name: CONSTRAINTS[name] for name in pins}
    wanted = {canonicalize_name(requirement.name) for requirement in REQUIREMENTS}
    assert set(pins) == wanted, "environment.yml lists what pyproject.toml requires, extras included"
    assert "python=3.11" in environment["dependencies"]


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pins are those of Python 3.11")
def test_installed_versions_equal_the_pinned_versions() -> None:
    wrong = {}
    for name, pinned in ALL_CONSTRAINTS.items():
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue  # a smaller installation, without some of the extras
        if Version(installed).public != pinned:
            wrong[name] = f"{installed} is installed, {pinned} is pinned"
    assert not wrong


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="the pins are those of Python 3.11")
@each(("requirements", "pins"), [(REQUIREMENTS, CONSTRAINTS), (DOCS, ALL_CONSTRAINTS)])
def test_all_transitive_requirements_are_pinned(requirements: list[Requirement], pins: dict[str, str]) -> None:
    """Pins include the requirements of requirements."""
    waiting, seen = list(requirements), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = list(requirement.extras) or [""]
        if not any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        if name in seen or name.startswith(("nvidia-", "cuda-")) or name in {"triton", "setuptools"}:
            continue  # torch pins its CUDA libraries itself, and the list depends on its build
        seen.add(name)
        assert name in pins, f"{name} is required but not pinned"
        try:
            inner = metadata.requires(requirement.name) or []
        except metadata.PackageNotFoundError:
            continue
        for line in inner:
            further = Requirement(line)
            if further.marker is None or any(further.marker.evaluate({"extra": extra}) for extra in extras):
                waiting.append(further)


def test_one_version() -> None:
    import gnnqlab

    assert gnnqlab.__version__ == PROJECT["version"]


def test_changelog_has_short_dated_versions_newest_first() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    before, *sections = re.split(r"^## ", text, flags=re.M)
    heads, bodies = zip(*(section.split("\n", 1) for section in sections), strict=True)
    assert heads[0] == "Unreleased" and "Keep a Changelog" in before
    found = [re.fullmatch(r"(\d+\.\d+\.\d+) - (\d{4}-\d{2}-\d{2})", head) for head in heads[1:]]
    assert all(found), "a version is its number and its date: ## 1.2.3 - 2026-01-31"
    versions = [(Version(match[1]), match[2]) for match in found if match]
    assert versions == sorted(versions, reverse=True) and versions[0][0] == Version(PROJECT["version"])
    kinds = re.findall(r"^### (.*)$", text, flags=re.M)
    assert set(kinds) <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}
    assert [head for head, body in zip(heads, bodies, strict=True) if body.count("\n") > 150] == []


def test_the_licence_is_the_one_named() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text and len(text) > 10_000
