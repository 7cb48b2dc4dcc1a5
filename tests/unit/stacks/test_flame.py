"""Flame graphs: from folded stacks to a tree and an SVG."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from collectors.probes.flame import DEEPEST, Flame, as_svg, profile

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
