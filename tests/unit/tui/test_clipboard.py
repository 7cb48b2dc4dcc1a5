"""What is copied within tmux is in tmux's buffer, by the words that its version knows; without tmux nothing is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from tui.clipboard import load_buffer

PROGRAM = """#!/bin/sh
[ "$2" = "%s" ] && exit 1
echo "$@" > "%s/words"
cat > "%s/buffer"
"""


@pytest.mark.parametrize(("unknown", "words"), [("none", "load-buffer -w -"), ("-w", "load-buffer -")])
async def test_a_text_is_put_into_the_buffer(
    unknown: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "tmux"
    program.write_text(PROGRAM % (unknown, tmp_path, tmp_path))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert await load_buffer("rank 1 \N{SNOWMAN}\nholds up 2")
    assert (tmp_path / "buffer").read_text() == "rank 1 \N{SNOWMAN}\nholds up 2"
    assert (tmp_path / "words").read_text().strip() == words


async def test_without_the_program_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not await load_buffer("x")
