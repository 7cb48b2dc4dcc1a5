"""Write docs/benchmarks.md from the samples in ``benchmarks/results/``: ``python -m benchmarks.page``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS

ROOT = Path(__file__).parents[1]
HEAD = """\
# What hangtop costs

Measured on {machines}.

Every figure of `benchmarks/`: medians of the samples in `benchmarks/results/`. A floor is what the operation costs at
the least there, a budget what the design allows. `python -m benchmarks.NAME` measures again,
`python -m benchmarks.page` writes this page.

{kept}
"""


def _within(row: dict[str, Any]) -> str:
    """Tell a budget that is kept from one that is not: of rates more is better, of all else less."""
    if row["budget"] is None:
        return ""
    kept = row["median"] >= row["budget"] if row["unit"] == "MB/s" else row["median"] <= row["budget"]
    return "kept" if kept else "**over**"


def _line(name: str, row: dict[str, Any]) -> str:
    budget = "" if row["budget"] is None else f"{row['budget']:g} {row['unit']}"
    measured = f"{row['median']:.3g} {row['unit']}"
    return f"| {name} | {row['name']} | {measured} | {row['floor']} | {budget} | {_within(row)} |"


def _table(rows: list[tuple[str, dict[str, Any]]]) -> str:
    lines = ["| benchmark | what | measured | floor | budget | |", "|---|---|---|---|---|---|"]
    return "\n".join([*lines, *(_line(f"`{benchmark}`", row) for benchmark, row in rows)])


def _kept(rows: list[tuple[str, dict[str, Any]]]) -> str:
    """How many of the figures that have a budget keep it, and which benchmarks have some that do not."""
    within = [(benchmark, _within(row)) for benchmark, row in rows if row["budget"] is not None]
    over = [benchmark for benchmark, answer in within if answer != "kept"]
    named = ", ".join(f"`{name}` ({over.count(name)})" for name in dict.fromkeys(over)) or "none"
    return f"{len(within) - len(over)} of {len(within)} figures that have a budget keep it; over: {named}."


def main() -> None:
    """Write the page."""
    measured = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    machines = "; ".join(sorted({document["machine"] for document in measured}))
    rows = [(document["benchmark"], row) for document in measured for row in document["rows"]]
    text = f"{HEAD.format(machines=machines, kept=_kept(rows))}\n{_table(rows)}\n"
    (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
