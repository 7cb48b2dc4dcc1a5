"""Flame graphs: from folded stacks to a tree and an SVG."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from collectors.node.stacks.flamerecord import LIMIT
from collectors.probes.flame import DEEPEST, Flame, as_svg, profile, record
from collectors.probes.stacks import DumpRequest, dump
from tests.support.here import here

STACKS = """\
thread (7): MainThread;<module> (/home/ada/train/train.py:90);step (/home/ada/train/train.py:44) 30
thread (7): MainThread;<module> (/home/ada/train/train.py:90);load (/home/ada/train/data.py:8) 70
no stack at all
thread (8): loader;wait (/usr/lib/python3.11/threading.py:327) x
"""


def tree() -> Flame:
    return profile([("rank 0", STACKS), ("rank 1", STACKS.replace("70", "10"))], "two ranks")


def test_processes_stay_apart_and_counts_add_up() -> None:
    root = tree()
    assert (root.samples, [child.name for child in root.ordered()]) == (140, ["rank 0", "rank 1"])
    names = [(depth, frame.name, frame.samples) for depth, frame in root.walk()]
    assert names[3:6] == [
        (3, "<module> (ada/train/train.py:90)", 100),
        (4, "load (ada/train/data.py:8)", 70),
        (4, "step (ada/train/train.py:44)", 30),
    ]


def test_recursion_is_cut() -> None:
    root = profile([("rank 0", ";".join(["f (a.py:1)"] * 5000) + " 1")])
    assert max(depth for depth, _ in root.walk()) == DEEPEST + 1
    assert ET.fromstring(as_svg(root)) is not None


def test_the_svg_is_well_formed_whatever_names_hold() -> None:
    root = profile([("rank 0", '<lambda> (<string>:1);operator& (a"b.py:2) 3')])
    elements = ET.fromstring(as_svg(root)).iter()
    titles = [element.text or "" for element in elements if element.tag.endswith("title")]
    assert any(title.startswith('operator& (a"b.py:2): 3 samples, 100.0 %') for title in titles)


# --- a py-spy that does not stop talking or writing ---------------------------------------------------------------


def install(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """Put a py-spy before all others."""
    path = folder / "py-spy"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")


@pytest.mark.parametrize(
    ("script", "deadline", "said"),
    [
        ("exec yes $(printf %4000d 0)", 50.0, "py-spy says more than 32 MB of it"),
        ("while :; do echo x; sleep 0.05; done", 1.0, "timeout: py-spy did not come back"),
    ],
)
async def test_one_that_says_too_much_or_for_too_long_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, deadline: float, said: str
) -> None:
    install(tmp_path, monkeypatch, script)
    (found,) = await dump(here(), [os.getpid()], DumpRequest(deadline=deadline))
    assert found.threads == []
    assert said in found.error


async def test_one_that_writes_too_much_into_our_memory_is_stopped_by_the_kernel(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = 'for last; do :; done\nyes "main (t.py:1);work (t.py:2) 1" > "$last"'  # --output comes last
    install(tmp_path, monkeypatch, script)
    (found,) = await record(here(), [os.getpid()], seconds=3.0)
    assert found.error == "cut: only the first 16 MB of its stacks"
    assert LIMIT - 100 < len(found.stacks) <= LIMIT
    assert found.stacks.endswith(" 1\n"), "no line is cut"
