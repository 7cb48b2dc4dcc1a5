"""Patterns match what the standard library matches with them, and no folder that others made holds the search."""

from __future__ import annotations

import glob
import os
import subprocess
import time
from pathlib import Path

import pytest

from collectors.node.globbing import matches

PATTERNS = (
    "{}/*.log", "{}/**/*.log", "{}/**", "{}/run?/*.log", "{}/run[12]/rank0.log", "{}/run1/rank0.log", "{}/none/*.log",
    "{}/.*", "{}/.hidden/*.log", "{}/*/*/*", "{}/link/*.log", "{}/gone", "{}/run1/rank0.log/*",
)  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in (
        "a.log", "run1/rank0.log", "run1/rank1.log", "run2/rank0.log", "run1/deep/er/x.log", ".hidden/b.log",
        "run1/.c.log", "run[3]/d.log",
    ):  # fmt: skip
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    (tmp_path / "link").symlink_to("run2")
    (tmp_path / "gone").symlink_to("nowhere")
    return tmp_path


@pytest.mark.parametrize("pattern", PATTERNS)
def test_as_the_standard_library_has_it(tree: Path, pattern: str) -> None:
    asked = pattern.format(tree)
    usual = {os.path.normpath(path) for path in glob.glob(asked, recursive=True)}  # noqa: PTH207 (what it is compared with)
    if "**" in pattern:  # which goes into links there
        usual = {path for path in usual if f"{tree}/link/" not in path} - {str(tree)}
    assert matches(asked) == sorted(usual)


def test_links_in_circles_and_folders_without_a_bottom_hold_nobody(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "x.log").write_text("x")
    for name in ("a", "b", "c"):
        (tmp_path / "run" / name).symlink_to(".")
    here = os.open(tmp_path / "run", os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    began = time.thread_time()
    assert matches(f"{tmp_path}/**/*.log") == [f"{tmp_path}/run/x.log"]
    assert time.thread_time() - began < 2.0
    subprocess.run(["rm", "-rf", str(tmp_path / "run")], check=True)  # pytest would go down by recursion


def test_only_so_many_names_are_looked_at(tmp_path: Path) -> None:
    for number in range(50):
        (tmp_path / f"{number}").mkdir()
        (tmp_path / f"{number}" / "x.log").write_text("x")
    assert len(matches(f"{tmp_path}/**/*.log", names=60)) == 10
    assert len(matches(f"{tmp_path}/**/*.log")) == 50
