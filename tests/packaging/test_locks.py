"""The pinned packages: complete, consistent, with hashes, and free of anything that belongs to one machine."""

import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import distribution
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from packaging.markers import default_environment
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
LOCKS = {path.stem: path for path in sorted((ROOT / "requirements").glob("*.lock"))}
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
MACHINES = ("x86_64", "aarch64")

PINNED = re.compile(r"(?P<name>[a-z0-9][a-z0-9-]*)==(?P<version>[^\s;\\]+)(?P<hashes>( --hash=sha256:[0-9a-f]{64})+)")


def entries(lock: Path) -> Iterator[str]:
    """Requirements of a lock, each on one line, without comments."""
    for line in lock.read_text().replace("\\\n", "").splitlines():
        if not line.lstrip().startswith("#"):
            yield " ".join(line.split())


def pins(*names: str) -> dict[str, str]:
    return {
        match["name"]: match["version"]
        for name in names
        for entry in entries(LOCKS[name])
        if (match := PINNED.fullmatch(entry))
    }


def project() -> dict[str, list[str]]:
    """What pyproject.toml asks for, by the lock that answers."""
    toml = tomllib.loads((ROOT / "pyproject.toml").read_text())
    return {
        "run": toml["project"]["dependencies"],
        "embedded": toml["project"]["optional-dependencies"]["embedded"],
        "test": toml["dependency-groups"]["test"],
        "docs": toml["dependency-groups"]["docs"],
        "build": [*toml["build-system"]["requires"], "editables"],
    }


def test_there_is_one_lock_for_each_purpose() -> None:
    assert sorted(LOCKS) == sorted(project())


@pytest.mark.parametrize("name", LOCKS)
def test_every_requirement_is_pinned_by_version_and_hash(name: str) -> None:
    loose = [entry for entry in entries(LOCKS[name]) if not PINNED.fullmatch(entry)]

    assert loose == []
    assert pins(name)


@pytest.mark.parametrize("name", LOCKS)
def test_no_address_host_or_path_is_in_a_lock(name: str) -> None:
    text = LOCKS[name].read_text()

    for trace in ("://", "@", "--index", "--extra-index", "--find-links", "--trusted-host", " /", "file:", "~"):
        assert trace not in text, trace


def test_locks_agree_on_the_version_of_a_package() -> None:
    for name in LOCKS:
        for package, version in pins(name).items():
            assert pins(*LOCKS)[package] == version, f"{package} in {name}.lock"


@pytest.mark.parametrize("name", LOCKS)
def test_pins_satisfy_what_the_project_asks_for(name: str) -> None:
    pinned = pins(name)

    for requirement in map(Requirement, project()[name]):
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("python", PYTHONS)
def test_pins_are_complete_for_every_supported_python(python: str, machine: str) -> None:
    assert needed_packages(python, machine) <= set(pins(*LOCKS))


def test_every_pin_is_needed_by_some_python() -> None:
    assert set().union(*(needed_packages(*one) for one in product(PYTHONS, MACHINES))) == set(pins(*LOCKS))


def needed_packages(python: str, machine: str) -> set[str]:
    """Names of all packages that an environment with everything has, whose pins satisfy whoever asks for them."""
    environment: dict[str, Any] = {
        **default_environment(),
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
    }
    pinned = pins(*LOCKS)
    waiting = [Requirement(text) for name in LOCKS for text in project()[name]]
    seen = set()
    while waiting:
        requirement = waiting.pop()
        key = (requirement.name, frozenset(requirement.extras))
        if key in seen:
            continue
        seen.add(key)
        assert requirement.specifier.contains(pinned[canonicalize_name(requirement.name)]), str(requirement)
        for needed in map(Requirement, distribution(requirement.name).requires or []):
            extras = requirement.extras or {""}
            if needed.marker is None or any(needed.marker.evaluate({**environment, "extra": one}) for one in extras):
                waiting.append(needed)

    return {canonicalize_name(name) for name, _ in seen}
