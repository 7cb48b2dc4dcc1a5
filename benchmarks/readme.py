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
HEADLINES = {
    "verdict": ("from asking to the verdict", "the same", "the slowest of all", "gloo: ", "device: "),
    "stacks": ("stacks of 64 ranks",),
    "first_frame": ("hangtop, this machine", "hangtop, 64 nodes, all seen live"),
    "app_64": ("whole application, 64 nodes × 8 GPUs: CPU", "whole application, 64 nodes × 8 GPUs: memory"),
    "app_2048": ("whole application, 2,048 nodes × 8 GPUs: CPU", "whole application, 2,048 nodes × 8 GPUs: memory"),
    "node_side": ("CPU of a minute", "memory"),
    "inside": ("a step by hooks", "memory"),
    "analyze": ("hangtop analyze, wall clock",),
}
"""What a reader of the README asks first, by benchmark and how the figure's name begins."""


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


def _headline(row: dict[str, Any], begins: tuple[str, ...]) -> bool:
    return row["budget"] is not None and row["name"].startswith(begins)


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
    """Put the headlines between the README's two marks, and all figures into the page."""
    kept = [json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))]
    machines = "; ".join(sorted({document["machine"] for document in kept}))
    rows = {document["benchmark"]: document["rows"] for document in kept}
    every = [(benchmark, row) for benchmark in rows for row in rows[benchmark]]
    first = [(name, row) for name, begins in HEADLINES.items() for row in rows[name] if _headline(row, begins)]
    readme = ROOT / "README.md"
    before, _, rest = readme.read_text(encoding="utf-8").partition(BEGIN)
    after = rest.partition(END)[2]
    inside = (
        f"{_table(first)}\n\n{_kept(every)} All of them, and the machines: [docs/benchmarks.md](docs/benchmarks.md)."
    )
    readme.write_text(f"{before}{BEGIN}\n{inside}\n{END}{after}", encoding="utf-8")
    page = ROOT / "docs" / "benchmarks.md"
    page.write_text(f"{HEAD.format(machines=machines)}\n{_table(every)}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
