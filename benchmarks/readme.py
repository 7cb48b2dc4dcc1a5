"""Writes the README's table of costs from ``benchmarks/results``: ``python -m benchmarks.readme``."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks.report import RESULTS

README = Path(__file__).parents[1] / "README.md"
BEGIN, END = "<!-- benchmarks:begin -->", "<!-- benchmarks:end -->"


def table() -> str:
    """All results as one Markdown table, the machine named above it."""
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    machines = sorted({document["machine"] for document in documents})
    lines = [
        f"Medians, measured on {'; '.join(machines)}.",
        "",
        "| what | measured | floor | budget |",
        "|---|---|---|---|",
    ]
    for document in documents:
        for row in document["rows"]:
            budget = "" if row["budget"] is None else f"{row['budget']:g} {row['unit']}"
            lines.append(f"| {row['name']} | {row['median']:.3g} {row['unit']} | {row['floor']} | {budget} |")
    return "\n".join(lines)


def main() -> None:
    """Replace what stands between the two marks."""
    text = README.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    README.write_text(f"{before}{BEGIN}\n{table()}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
