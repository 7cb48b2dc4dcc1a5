"""A node's Python is found where it is, and what is missing is said."""

from __future__ import annotations

import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collectors.fleet import interpreter
from collectors.fleet.local import Local

HOST = "host node gpu1\nhost kernel 6.1\nhost machine x86_64\nhost uid 1000\nhost boot abc\n"


def test_the_first_that_is_new_enough() -> None:
    pythons = "python 3.6 /usr/bin/python3\npython 3.11 /usr/bin/python3.11\npython 3.9 /x\n"
    found = interpreter.read(f"Welcome!\n{pythons}{HOST}")
    assert found.python == "/usr/bin/python3.11"
    assert found.host == {"node": "gpu1", "kernel": "6.1", "machine": "x86_64", "uid": "1000", "boot": "abc"}
    assert found.noise == "Welcome!"


def test_none_that_is_new_enough() -> None:
    found = interpreter.read(f"python 3.6 /usr/bin/python3\npython 2.7 /usr/bin/python\n{HOST}")
    assert found.python == ""
    assert found.why == "its Python is 3.6 (/usr/bin/python3): 3.8 or newer is needed"
    assert interpreter.read(HOST).why == "no Python there"


def test_no_shell_at_all() -> None:
    found = interpreter.read("This account is currently not available.\n")
    assert found.host == {}
    assert found.noise == "This account is currently not available."


@given(st.text())
def test_any_text_can_be_read(text: str) -> None:
    found = interpreter.read(text)
    assert found.python == "" or found.python.startswith("/")


def tools(folder: Path, *names: str) -> None:
    for name in names:
        (folder / name).symlink_to(shutil.which(name) or f"/bin/{name}")


def executables() -> set[str]:
    """Programs that run on this machine."""
    found = set()
    for link in Path("/proc").glob("[0-9]*/exe"):
        with suppress(OSError):
            found.add(str(link.readlink()))
    return found


async def test_on_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools(tmp_path, "sh", "ls", "sed", "sort", "uname", "id", "cat")
    (tmp_path / "python3").write_text("#!/bin/sh\necho 3.6\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    found = await interpreter.find(Local("here"))
    assert found.python in executables(), "that of a running process"
    assert found.older == f"3.6 ({tmp_path}/python3)"
    assert found.host["uid"] == str(os.getuid())

    (tmp_path / "python3.9").symlink_to(sys.executable)
    assert (await interpreter.find(Local("here"))).python == str(tmp_path / "python3.9")
