"""Asks about each job that waits below Python twice: as root, and as its own user on a node of many.

    python -m benchmarks.own_user [--only data_reader …] [--way triage --way live --way replay] [--lock FILE]
    python -m benchmarks.own_user --table          # only write the page from what is kept

The ranks belong to a user who is not root, and the nodes show nobody the processes of others (``hidepid=2``). Keeps
what was said in ``benchmarks/results/own_user.json`` (a case that is played again replaces its row) and writes the
section of ``docs/accuracy.md``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.held import held
from benchmarks.report import RESULTS, machine
from tests.support.device_cases import CASES
from tests.support.device_jobs import WAYS, DeviceJobs, device_jobs, line, replayed, say, wrong
from tests.support.faulty import Answer

KEPT = RESULTS / "own_user.json"
PAGE = Path(__file__).parents[1] / "docs" / "accuracy.md"
BEGIN, END = "<!-- own user:begin -->", "<!-- own user:end -->"


class AskedTwice(NamedTuple):
    """What was said about one job, as root and as its own user."""

    case: str
    way: str
    by_root: str
    """``hung: rank_stuck_in_data [2]``."""
    by_owner: str
    root_right: bool
    owner_right: bool


def play(jobs: DeviceJobs, name: str, ways: Sequence[str]) -> Iterator[AskedTwice]:
    """Ask about one job, first as its user."""
    case, login = CASES[name], jobs.login
    by_owner: dict[str, Answer] = {}
    by_root: dict[str, Answer] = {}
    with jobs.running(name) as job:
        for who, answers, config in (("user", by_owner, login), ("root", by_root, None)):
            jobs.login = config
            file = job.folder / f"{who}.hangtop"
            if "triage" in ways:
                answers["triage"] = jobs.triage(job)
            if "live" in ways or "replay" in ways:
                answers["live"] = jobs.live(job, file, case)
                answers["replay"] = replayed(file)
            for way in WAYS:
                if way in answers:
                    say(f"{who} {line(name, way, case, answers[way])}")
    jobs.login = login
    for way in ways:
        root, owner = by_root[way], by_owner[way]
        yield AskedTwice(name, way, _said(root), _said(owner), not wrong(case, root), not wrong(case, owner))


def _said(answer: Answer) -> str:
    first = next((finding for finding in answer.findings if finding["severity"] != "info"), None)
    return f"{answer.verdict}: {first['kind']} {first['ranks']}" if first else answer.verdict


def kept() -> list[AskedTwice]:
    """Rows that are kept."""
    if not KEPT.exists():
        return []
    return [AskedTwice(**row) for row in json.loads(KEPT.read_text(encoding="utf-8"))["asked"]]


def keep(rows: Iterable[AskedTwice]) -> None:
    """Put rows into their places."""
    known = {(row.case, row.way): row for row in (*kept(), *rows)}
    document = {
        "benchmark": "own_user", "machine": machine(), "rows": [],
        "asked": [row._asdict() for _, row in sorted(known.items())],
    }  # fmt: skip
    KEPT.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


def page(rows: Sequence[AskedTwice]) -> str:
    """The section's text."""
    same = sum(row.by_root == row.by_owner for row in rows)
    root, owner = sum(row.root_right for row in rows), sum(row.owner_right for row in rows)
    asked = f"{len(rows)} questions about {len({row.case for row in rows})} jobs: the same answer to {same}"
    lines = [
        f"{asked}; right are {root} of root's answers and {owner} of the user's.",
        "",
        "| job | asked by | root is told | its own user is told | right |",
        "|---|---|---|---|---|",
    ]
    for row in rows:
        told = "the same" if row.by_owner == row.by_root else row.by_owner
        right = {(True, True): "both", (True, False): "**root**", (False, True): "**user**", (False, False): "**none**"}
        lines.append(f"| {row.case} | {row.way} | {row.by_root} | {told} | {right[row.root_right, row.owner_right]} |")
    return "\n".join(lines)


def write() -> None:
    """Put the section between the page's two marks."""
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{page(kept())}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> None:
    """Ask, keep, write the page."""
    reads = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reads.add_argument("--only", action="append", default=[], choices=[*CASES], metavar="NAME")
    reads.add_argument("--way", action="append", choices=WAYS, help="only these (default: triage)")
    reads.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock during each case")
    reads.add_argument("--table", action="store_true", help="ask nothing: write the page from what is kept")
    given = reads.parse_args()
    if not given.table:
        with device_jobs("own_user") as jobs:
            for name in [name for name in CASES if not given.only or name in given.only]:
                with held(given.lock):
                    try:
                        keep(play(jobs, name, given.way or ("triage",)))
                    except TimeoutError as error:  # the job did not come up: nothing was asked
                        say(f"{name:26} {error}")
    write()


if __name__ == "__main__":
    main()
