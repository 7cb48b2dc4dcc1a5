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

Each figure is the median of the samples in `benchmarks/results/`. A floor is the least that the operation can cost on
such a machine, a budget is the limit of the design. `python -m benchmarks.NAME` measures again,
`python -m benchmarks.page` rewrites this page.

{kept}
"""


def _within(row: dict[str, Any]) -> str:
    """``kept`` or ``**over**``, empty without a budget: a rate (MB/s) must reach it, other figures stay below it."""
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
    """The number of figures within their budget, and the benchmarks with figures over it."""
    within = [(benchmark, _within(row)) for benchmark, row in rows if row["budget"] is not None]
    over = [benchmark for benchmark, answer in within if answer != "kept"]
    named = ", ".join(f"`{name}` ({over.count(name)})" for name in dict.fromkeys(over)) or "none"
    return f"{len(within) - len(over)} of {len(within)} figures are within their budget; over: {named}."


def main() -> None:
    """Write the page."""
    measured = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    machines = "; ".join(sorted({document["machine"] for document in measured}))
    rows = [(document["benchmark"], row) for document in measured for row in document["rows"]]
    text = f"{HEAD.format(machines=machines, kept=_kept(rows))}\n{_table(rows)}\n"
    (ROOT / "docs" / "benchmarks.md").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
