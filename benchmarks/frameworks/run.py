"""Plants faults in jobs of real frameworks and compares what hangtop says of them.

    python benchmarks/frameworks/run.py                         # all cases; writes docs/accuracy.md
    python benchmarks/frameworks/run.py --only Lightning --only JAX/reader
    python benchmarks/frameworks/run.py --table                 # only write the page from what is kept

The frameworks are installed once, into a virtual environment below ``--cache``; some 3 GB. What was said is kept beside
this file (``results.json``): a case that is played again replaces its row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.frameworks import setup, table
from benchmarks.frameworks.cases import Case, plan
from benchmarks.frameworks.play import play

RESULTS = Path(__file__).with_name("results.json")


def _wanted(only: list[str]) -> list[Case]:
    cases = plan()
    if not only:
        return cases
    chosen = [case for case in cases if case.name in only or case.framework.name in only or case.mishap.name in only]
    if not chosen:
        sys.exit(f"no such case; there are {', '.join(case.name for case in cases)}")
    return chosen


def _kept() -> dict[str, dict[str, Any]]:
    if not RESULTS.exists():
        return {}
    return {row["case"]: row for row in json.loads(RESULTS.read_text(encoding="utf-8"))}


def _keep(row: dict[str, Any]) -> None:
    """Put a row in its place among those that are there: other runs may have written meanwhile."""
    kept = {**_kept(), row["case"]: row}
    rows = [kept[case.name] for case in plan() if case.name in kept]
    partial = RESULTS.with_suffix(".partial")
    partial.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    partial.replace(RESULTS)


def _commit() -> str:
    """The commit that is played, which each row keeps."""
    words = ["git", "-C", str(RESULTS.parent), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()


def main() -> None:
    """Play cases, print what was said, write the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="framework, fault or both: A/b")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "hangtop-frameworks")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the whole answers there")
    parser.add_argument("--record", type=Path, metavar="DIR", help="keep what was seen there, for hangtop replay")
    parser.add_argument("--lock", type=Path, metavar="FILE", help="hold this lock while a case is asked about")
    parser.add_argument("--new", action="store_true", help="only cases that were not right yet")
    parser.add_argument("--table", action="store_true", help="play nothing, write the page")
    options = parser.parse_args()
    answers: list[dict[str, Any]] = []
    if not options.table:
        python = setup.environment(options.cache)
        versions, commit = setup.versions(python), _commit()
        for case in _wanted(options.only):
            version = versions[case.framework.package]
            if not version:
                continue
            if options.new and _kept().get(case.name, {}).get("right"):
                continue
            outcome = play(case, python, version, options.cache, options.record, options.lock)
            row = {**asdict(outcome), "commit": commit}
            answers.append(dict(row))
            del row["answer"], row["summary"]
            _keep(row)
            print(f"{'right' if outcome.right else 'WRONG'} {case.name}: {outcome.said}; {outcome.summary}", flush=True)
            if not outcome.right:
                print(f"      {outcome.why}", flush=True)
            if options.json:
                options.json.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    table.write(list(_kept().values()), ())


if __name__ == "__main__":
    main()
