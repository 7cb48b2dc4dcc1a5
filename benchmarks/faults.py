"""Strikes every fault of ``tests/faults`` at the running tool on real nodes, and tells what came of it.

    python -m benchmarks.faults                              # all; an hour, as root
    python -m benchmarks.faults --only network --only sshd/MaxSessions
    python -m benchmarks.faults --soak 1200 --only soak      # twenty minutes of it
    python -m benchmarks.faults --table                      # only write the page from what is kept

Prints the table, keeps what came in ``benchmarks/results/faults.json`` (a fault that is struck again replaces its row)
and writes it into ``docs/reliability.md``.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, machine
from tests.faults.fault import Fault, Outcome
from tests.faults.scene import Scene, played, scenes

KEPT = RESULTS / "faults.json"
PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"
BEGIN, END = "<!-- faults:begin -->", "<!-- faults:end -->"
HOLD = 120.0
"""Seconds after which a lock is let go of between two faults: others wait for it."""


class Turn:
    """A lock file, held while faults are struck; nothing without a path. No child inherits it."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._until = 0.0
        self._held = contextlib.ExitStack()

    def take(self) -> None:
        """Hold it for the next fault; after a while let others go first."""
        if self._path is None or time.monotonic() < self._until:
            return
        self._held.close()
        time.sleep(0.5)
        file = self._held.enter_context(self._path.open("a"))
        fcntl.flock(file, fcntl.LOCK_EX)
        self._until = time.monotonic() + HOLD


def main() -> None:
    """Strike, print, keep, write the page."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--only", action="append", default=[], metavar="TEXT", help="faults whose name begins so")
    options.add_argument("--table", action="store_true", help="strike none: write the page from what is kept")
    options.add_argument("--soak", type=float, default=60.0, metavar="S", help="seconds of running on")
    options.add_argument("--lock", type=Path, help="a lock file to be held while faults are struck")
    given = options.parse_args()
    os.environ["HX_SOAK"] = str(given.soak)
    from tests.faults.registry import faults  # reads how long to run on

    known = faults()
    chosen = [fault for fault in known.values() if not given.only or fault.title.startswith(tuple(given.only))]
    if not given.table:
        turn = Turn(given.lock)
        turn.take()
        with scenes() as scene:
            for fault in chosen:
                turn.take()
                _keep(known, fault, _struck(scene, fault))
    _write(_rows().values())


def _struck(scene: Scene, fault: Fault) -> dict[str, Any]:
    """Strike one; its row."""
    if fault.missing:
        return {"fault": fault.title, "short": [fault.missing], **asdict(Outcome(""))}
    try:
        outcome = played(scene, fault.play)
    except (AssertionError, subprocess.SubprocessError) as error:  # a shortcoming; the others are struck still
        row = {"fault": fault.title, "short": [str(error)], **asdict(Outcome(""))}
    else:
        row = {"fault": fault.title, "short": fault.shortcomings(outcome), **asdict(outcome)}
    print(_line(row), flush=True)
    for short in row["short"]:
        print(f"    {short}", flush=True)
    return row


def _rows() -> dict[str, dict[str, Any]]:
    """What is kept, by fault."""
    if not KEPT.exists():
        return {}
    return {row["fault"]: row for row in json.loads(KEPT.read_text(encoding="utf-8"))["faults"]}


def _keep(known: Mapping[str, Fault], fault: Fault, row: dict[str, Any]) -> None:
    """Put a row in its place; those of faults that there are no more go."""
    rows = {**_rows(), fault.title: row}
    document = {
        "benchmark": "faults", "machine": machine(), "rows": [],
        "faults": [rows[title] for title in known if title in rows],
    }  # fmt: skip
    KEPT.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.1f} s"


def _line(row: Mapping[str, Any]) -> str:
    said = " ".join(str(row["said"]).split()).replace("|", "\\|")
    left = "nothing" if not row["left"] else f"**{len(row['left'])}**"
    cells = [
        row["fault"].replace("|", "\\|"), said[:110] + "…" * (len(said) > 110), _seconds(row["after"]),
        _seconds(row["recovered"]), f"+{row['grown']:.0f} MB", _seconds(row["key"]), left,
        "yes" if not row["short"] else "**no**",
    ]  # fmt: skip
    return f"| {' | '.join(cells)} |"


def _write(rows: Iterator[Mapping[str, Any]] | Any) -> None:
    """Put the table between the page's two marks."""
    kept = list(rows)
    lines = [
        f"{sum(not row['short'] for row in kept)} of {len(kept)} survived, on {machine()}.", "",
        "| fault | what was said | after | recovered | memory | slowest key | left on a node | survived |",
        "|---|---|---|---|---|---|---|---|", *map(_line, kept),
    ]  # fmt: skip
    before, _, rest = PAGE.read_text(encoding="utf-8").partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{chr(10).join(lines)}\n{END}{rest.partition(END)[2]}", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
