"""Counts how often verdicts of each certainty were right, over all suites: ``python -m benchmarks.certainty``.

Reads what the suites keep (``benchmarks/results/verdicts/``: ``benchmarks.suites``, ``benchmarks.recorder_accuracy``,
``benchmarks/frameworks/run.py``), writes the table that ``confidence`` in JSON is worked out from
(``hangtop/diagnosis/tables/borne_out.py``), and the section of ``docs/accuracy.md``.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from math import floor
from pathlib import Path

from benchmarks.verdicts import NOTHING, JudgedAnswer, kept, suites
from hangtop.diagnosis.certainty import succession

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "hangtop" / "diagnosis" / "tables" / "borne_out.py"
FRAMEWORKS = ROOT / "benchmarks" / "frameworks" / "results.json"
PAGE = ROOT / "docs" / "accuracy.md"
BEGIN, END = "<!-- certainty:begin -->", "<!-- certainty:end -->"
WORDS = ("proven", "likely", "possible")
TOLD: Mapping[str, str] = {
    "device": "jobs that wait below Python, by triage, live and by replay",
    "frameworks": "real frameworks",
    "gloo": "jobs over gloo on two nodes",
    "verdict": "the hangs of `benchmarks/verdict.py`",
    "recorder": "flight recorder dumps of jobs on paper",
}
HEAD = '''\
"""How many verdicts of each certainty were right in the suites, of how many; written by ``benchmarks/certainty.py``."""

from __future__ import annotations

from typing import Final

'''


def counts(rows: Sequence[JudgedAnswer]) -> dict[str, tuple[int, int]]:
    """Right ones and all, by certainty. A healthy job that is accused is a wrong one."""
    every, right = Counter(row.certainty for row in rows), Counter(row.certainty for row in rows if row.right)
    return {word: (right[word], every[word]) for word in WORDS}


def module(found: Mapping[str, tuple[int, int]]) -> str:
    """The text of the table."""
    lines = [f'    "{word}": ({right}, {every}),' for word, (right, every) in found.items()]
    return HEAD + "RIGHT_OF: Final = {\n" + "\n".join(lines) + "\n}\n"


def page(rows: Mapping[str, Sequence[JudgedAnswer]]) -> str:
    """The section's table."""
    lines = ["| suite | " + " | ".join(WORDS) + " | healthy, accused | faults on which nothing was raised |"]
    lines += ["|---" * (len(WORDS) + 3) + "|"]
    every = [row for own in rows.values() for row in own]
    for suite, own in [*rows.items(), ("all", every)]:
        told = [f"{right} of {number}" if number else "" for right, number in counts(own).values()]
        healthy = [row for row in own if row.healthy]
        wronged = sum(not row.right and row.certainty != NOTHING for row in healthy)
        accused = f"{wronged} of {len(healthy)}" if healthy else ""
        silent = sum(row.certainty == NOTHING for row in own if not row.healthy)
        missed = f"{silent} of {len(own) - len(healthy)}"
        lines.append(f"| {TOLD.get(suite, suite)} | {' | '.join(told)} | {accused} | {missed} |")
    number = [floor(100 * succession(*known)) / 100 for known in counts(every).values()]
    lines.append(f"| `confidence` | {' | '.join(f'{each:.2f}' for each in number)} | | |")
    wrong = [f"{suite}: {row.case} by {row.way}: {row.said}" for suite, own in rows.items() for row in own if _bad(row)]
    if wrong:
        lines += ["", "Wrong ones that were called proven or likely:", "", *(f"- {line}" for line in wrong)]
    return "\n".join(lines)


def _bad(row: JudgedAnswer) -> bool:
    return not row.right and row.certainty in ("proven", "likely")


def frameworks() -> list[JudgedAnswer]:
    """Rows of the frameworks' own table, of those that say how sure they were."""
    known = json.loads(FRAMEWORKS.read_text(encoding="utf-8")) if FRAMEWORKS.exists() else []
    return [
        JudgedAnswer(
            one["case"], "triage", one["culprit"] is None, one["said"], one["certainty"], one["right"], one["took_s"]
        )
        for one in known
        if "certainty" in one
    ]


def main() -> None:
    """Write both."""
    rows = {suite: kept(suite) for suite in suites()}
    if known := frameworks():
        rows["frameworks"] = known
    TABLE.write_text(module(counts([row for own in rows.values() for row in own])), encoding="utf-8")
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    PAGE.write_text(f"{before}{BEGIN}\n{page(rows)}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
