"""Flame graphs: from folded stacks to a tree and an SVG."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import strategies as st

from collectors.probes.flame import DEEPEST, Flame, as_svg, profile, save, shown_command

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


def test_the_file_is_saved_where_it_is_wanted(tmp_path: Path) -> None:
    save(tree(), tmp_path / "new" / "flame-1.svg")
    assert (tmp_path / "new" / "flame-1.svg").read_text().startswith("<svg")


def test_the_command_that_is_shown() -> None:
    text = shown_command([7, 8, 9], 10)
    assert text.startswith("py-spy record --nonblocking --idle")
    assert text.endswith("--pid 7 --output (memory)  # and 2 more")


NAMES = st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters=";"), min_size=1, max_size=12)


@given(st.lists(st.tuples(st.lists(NAMES, min_size=1, max_size=5), st.integers(1, 50)), max_size=12))
def test_no_sample_is_lost(stacks: list[tuple[list[str], int]]) -> None:
    root = Flame("all")
    for path, count in stacks:
        root.add(("rank 0", *path), count)
    assert root.samples == sum(count for _, count in stacks)
    inner = [frame.samples - sum(child.samples for child in frame.ordered()) for _, frame in root.walk()]
    assert (min(inner), sum(inner)) == (0, root.samples)
    ET.fromstring(as_svg(root))
