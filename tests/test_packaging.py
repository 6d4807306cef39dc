"""Packaging: the pins agree with each other and with what is installed, and set-up refuses early."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
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
"""What the documentation alone is built with, which `make docs` installs."""
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
def test_what_is_installed_is_what_is_pinned() -> None:
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
def test_nothing_that_is_needed_is_left_unpinned(requirements: list[Requirement], pins: dict[str, str]) -> None:
    """The pins are transitive: whatever a requirement brings along is pinned too."""
    waiting, seen = list(requirements), set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        extras = list(requirement.extras) or [""]
        if not any(requirement.marker is None or requirement.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        if name in seen or name.startswith(("nvidia-", "cuda-")) or name in {"triton", "setuptools"}:
            continue  # torch pins its CUDA libraries itself, and which ones depends on its build
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


def test_the_licence_is_the_one_named() -> None:
    assert PROJECT["license"] == "Apache-2.0"
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "Version 2.0, January 2004" in text and len(text) > 10_000


@pytest.fixture
def empty_checkout(tmp_path: Path) -> Path:
    for name in ("Makefile", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["make", "--no-print-directory", *arguments]
    # These tests may themselves run under make, whose flags and depth are no part of what a user types.
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, env=environment)


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_another_python_gets_one_line_that_says_what_to_install(empty_checkout: Path) -> None:
    other = empty_checkout / "python3.9"
    other.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2" && exit 0\nexit 1\n')
    other.chmod(0o755)
    done = _make(empty_checkout, "demo", f"PYTHON={other}")
    assert done.returncode != 0
    first, *rest = done.stderr.splitlines()
    assert "need Python 3.11, found Python 3.9.2" in first
    assert "python3.11-venv" in first
    assert all(line.startswith("make: ***") for line in rest)
    assert not (empty_checkout / ".venv").exists()


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_a_second_set_up_has_nothing_to_do_until_a_pin_changes(empty_checkout: Path) -> None:
    (empty_checkout / ".venv").mkdir()
    for stamp in re.findall(r"touch (\S+)", _make(empty_checkout, "-n", "setup").stdout):
        (empty_checkout / stamp).touch()
    assert _make(empty_checkout, "-q", "setup").returncode == 0
    with (empty_checkout / "constraints.txt").open("a") as constraints:
        constraints.write("another==1.0\n")
    assert _make(empty_checkout, "-q", "setup").returncode == 1


@pytest.mark.skipif(shutil.which("make") is None, reason="needs make")
def test_only_the_documentation_installs_what_it_is_built_with(empty_checkout: Path) -> None:
    docs, others = (_make(empty_checkout, "-n", goal).stdout for goal in ("docs", "setup"))
    assert "-c docs/constraints.txt" in docs and ".docs-" in docs and others and others in docs
    assert "docs" not in others.replace('if name != "docs"', "")
