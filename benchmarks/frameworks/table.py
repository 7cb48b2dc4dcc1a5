"""Writes what was said into docs/accuracy.md, between the two marks of its section."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

PAGE = Path(__file__).parents[2] / "docs" / "accuracy.md"
BEGIN, END = "<!-- frameworks:begin -->", "<!-- frameworks:end -->"
TITLE = "# How often hangtop is right\n"
SECTION = f"""
## Real frameworks

Jobs as users write and start them, with faults planted in them, on one machine with CPUs and gloo;
`python benchmarks/frameworks/run.py` installs the frameworks, plays the cases and writes this table. A case is right
when the verdict, the kind of the first finding and the rank (or the process, where no rank is told) are; a healthy job
is right when nobody is accused. Of two ranks in different collectives neither is the odd one: both are to be named. Of
a rank that ended without a word nobody can tell from outside whether it was killed or came to its end: either is right.

{BEGIN}
{END}
"""


def write(rows: Sequence[dict[str, Any]], remarks: Sequence[str]) -> None:
    """Put the table into the page; the page and its section are made where they are not there."""
    page = PAGE.read_text(encoding="utf-8") if PAGE.exists() else TITLE
    if BEGIN not in page:
        page = page.rstrip("\n") + "\n" + SECTION
    before, _, rest = page.partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{_inside(rows, remarks)}\n{END}{after}", encoding="utf-8")


def _inside(rows: Sequence[dict[str, Any]], remarks: Sequence[str]) -> str:
    faults = [row for row in rows if row["culprit"] is not None]
    healthy = [row for row in rows if row["culprit"] is None]
    named = sum(row["right"] for row in faults)
    accused = sum(not row["right"] for row in healthy)
    share = f" ({100 * named / len(faults):.0f} %)" if faults else ""
    told = f"{len(rows)} cases: {named} of {len(faults)} faults named right{share}"
    told += f", {accused} of {len(healthy)} healthy jobs accused."
    of_commit = Counter(str(row.get("commit", "one before they were kept")) for row in rows)
    told += f" Played at {', '.join(f'{commit} ({count})' for commit, count in of_commit.most_common())}."
    lines = [
        told,
        *remarks,
        "",
        "| framework | version | what befell it | rank | hangtop said | |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        rank = "" if row["culprit"] is None else str(row["culprit"])
        mark = "right" if row["right"] else "**wrong**"
        lines.append(f"| {row['framework']} | {row['version']} | {row['mishap']} | {rank} | {row['said']} | {mark} |")
    return "\n".join(lines)
