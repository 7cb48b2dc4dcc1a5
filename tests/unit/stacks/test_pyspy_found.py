"""Which py-spy of a node may be run, and that it is the one that was looked at."""

from __future__ import annotations

import os
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from collectors.node import child
from collectors.node.stacks import pyspy

ME = os.geteuid()
SOMEBODY = 65534
as_root = pytest.mark.skipif(ME != 0, reason="only root can give files away")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder of this user's in the sticky /tmp."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def nowhere_else(monkeypatch: pytest.MonkeyPatch, place: Path) -> None:
    monkeypatch.setenv("PATH", f"{place}/bin")
    monkeypatch.setenv("HOME", str(place))
    monkeypatch.setattr(pyspy, "PLACES", ())
    monkeypatch.setattr(child, "PLACES", ())


def program(folder: Path, says: str = "the real one") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\necho {says}\n")
    path.chmod(0o755)
    return path


def run(found: str | None) -> str:
    assert found is not None
    return subprocess.run([found], capture_output=True, text=True, check=True).stdout.strip()


@as_root
@pytest.mark.parametrize("whose", ["bin/py-spy", "bin", "."])
def test_one_in_a_folder_of_somebody_else_s_is_not_run(place: Path, whose: str) -> None:
    program(place / "bin")
    os.chown(place / whose, SOMEBODY, SOMEBODY)
    assert pyspy.find() is None


@as_root
@pytest.mark.parametrize("open_to_all", ["bin/py-spy", "bin", "."])
def test_one_that_others_can_replace_is_not_run(place: Path, open_to_all: str) -> None:
    program(place / "bin")
    (place / open_to_all).chmod(0o777)
    assert pyspy.find() is None
    if open_to_all == "bin":
        (place / "bin").chmod(0o1777)
        assert run(pyspy.find()) == "the real one", "in a sticky folder it cannot be taken away"


@as_root
def test_a_link_of_ours_into_a_folder_of_everybody_s_is_not(place: Path) -> None:
    program(place / "there")
    (place / "there").chmod(0o777)
    (place / "bin").symlink_to(place / "there")
    assert pyspy.find() is None


def test_what_the_user_names_is_run_wherever_it_lies(place: Path) -> None:
    path = program(place / "open")
    (place / "open").chmod(0o777)
    assert run(pyspy.find(str(path))) == "the real one"
    assert pyspy.find(str(place / "none")) is None
    path.chmod(0o600)
    assert pyspy.find(str(path)) is None


def test_a_lent_one_is_ours_and_cannot_be_changed(place: Path) -> None:
    lent = pyspy.borrow(zlib.compress(b"#!/bin/sh\necho lent\n"))
    with pytest.raises(PermissionError), Path(lent).open("wb") as file:
        file.write(b"#!/bin/sh\necho evil\n")
    assert run(lent) == "lent"
