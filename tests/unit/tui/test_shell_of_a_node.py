"""Handing the terminal to a shell on a node, and taking it back."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from hangtop.session.options import SessionOptions
from tui.handlers.own import open_shell
from tui.host import Host


class Terminal:
    """What a shell's command sees of the application. ``given_back`` is set as Textual would take the terminal back."""

    def __init__(self) -> None:
        self.session = SimpleNamespace(options=SessionOptions(targets=("node0",)))
        self.panel = SimpleNamespace(node=lambda: "node0")
        self.told: list[tuple[str, str]] = []
        self.given_back = False

    @contextmanager
    def suspend(self) -> Iterator[None]:
        """As Textual's: an exception within it leaves the terminal as it is."""
        yield
        self.given_back = True

    def say(self, text: str, severity: str = "information") -> None:
        self.told.append((text, severity))

    def tick(self) -> None:
        pass


@pytest.mark.parametrize(
    ("program", "said"),
    [("", "ssh cannot be run here: No such file or directory"), ("#!/bin/sh\nexit 255\n", "ssh could not reach node0")],
)
def test_the_screen_comes_back_where_ssh_is_missing_or_fails(
    program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if program:
        ssh = tmp_path / "ssh"
        ssh.write_text(program)
        ssh.chmod(0o755)
    terminal = Terminal()
    open_shell(cast("Host", terminal))
    assert terminal.given_back
    assert [(text[: len(said)], severity) for text, severity in terminal.told] == [(said, "error")]
