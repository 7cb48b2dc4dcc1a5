"""The simulated NCCL of the tests: its library, and its groups, which are made as Megatron makes them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.simulated_nccl import library
from tests.support.simulated_nccl.groups import GroupSizes
from tests.support.simulated_nccl.library import NAME, NoCompilerError, build


def test_the_library_is_not_made_without_a_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(NoCompilerError, match="no C compiler is here"):
        build(tmp_path)


@pytest.mark.skipif(not library.compiler(), reason="no C compiler is here")
def test_the_library_has_the_names_that_a_stack_shows(tmp_path: Path) -> None:
    path = build(tmp_path / "made")
    assert path.name == NAME == "libcudart.so.12"
    names = path.read_bytes()
    assert b"cudaStreamSynchronize\0" in names
    assert b"cudaLaunchKernel\0" in names
    assert list(path.parent.iterdir()) == [path]


def test_a_compiler_that_fails_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failing = tmp_path / "cc"
    failing.write_text("#!/bin/sh\necho first >&2; echo 'fatal: no headers' >&2; exit 4\n")
    failing.chmod(0o755)
    monkeypatch.setenv("CC", str(failing))
    assert library.compiler() == shutil.which(str(failing))
    with pytest.raises(NoCompilerError, match="ends with 4: fatal: no headers"):
        build(tmp_path / "made")


def test_ranks_of_a_tensor_group_are_next_to_each_other() -> None:
    sizes = GroupSizes(tensor=2, data=2, pipeline=2)
    assert sizes.lines("tensor") == [[0, 1], [2, 3], [4, 5], [6, 7]]
    assert sizes.lines("data") == [[0, 2], [1, 3], [4, 6], [5, 7]]
    assert sizes.lines("pipeline") == [[0, 4], [1, 5], [2, 6], [3, 7]]
    assert sizes.lines("tensor+pipeline") == [[0, 1, 4, 5], [2, 3, 6, 7]]
