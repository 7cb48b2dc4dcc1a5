"""Writes the table of costs into README.md and docs/benchmarks.md: ``python -m benchmarks.readme``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS

ROOT = Path(__file__).parents[1]
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"
HEAD = """\
# What hangtop costs

Measured on {machines}.

Every figure of `benchmarks/`: medians of the samples in `benchmarks/results/`. A floor is what the operation costs at
the least there, a budget what the design allows. `python -m benchmarks.NAME` measures again,
`python -m benchmarks.readme` writes this page and the README's table.
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


def _table(documents: list[dict[str, Any]], *, all_rows: bool) -> str:
    lines = ["| benchmark | what | measured | floor | budget | |", "|---|---|---|---|---|---|"]
    for document in documents:
        rows = [row for row in document["rows"] if all_rows or row["budget"] is not None]
        lines += [_line(f"`{document['benchmark']}`", row) for row in rows]
    return "\n".join(lines)


def main() -> None:
    """Put the figures that have a budget between the README's two marks, and all of them into the page."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    documents = [document for document in kept if "rows" in document]  # suites and faults have tables of their own
    machines = "; ".join(sorted({document["machine"] for document in documents}))
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    head = f"Medians, measured on {machines}. All figures: [docs/benchmarks.md](docs/benchmarks.md)."
    inside = f"{head}\n\n{_table(documents, all_rows=False)}"
    readme.write_text(f"{before}{BEGIN}\n{inside}\n{END}{after}", encoding="utf-8")
    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(f"{HEAD.format(machines=machines)}\n{_table(documents, all_rows=True)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
