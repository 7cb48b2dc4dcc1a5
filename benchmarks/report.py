"""The report of a benchmark: a printed table and a JSON file, with the machine."""

from __future__ import annotations

import json
import os
import platform
import statistics
from dataclasses import asdict, dataclass
from pathlib import Path

RESULTS = Path(__file__).parent / "results"


@dataclass(frozen=True, slots=True)
class FigureRow:
    """One measured figure: samples, with the budget of the design and the floor, if there are any."""

    name: str
    unit: str
    samples: tuple[float, ...]
    budget: float | None = None
    floor: str = ""

    @property
    def median(self) -> float:
        """Median of the samples."""
        return statistics.median(self.samples)


def machine() -> str:
    """One line on this machine: processor, cores, system, Python."""
    model = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return f"{model}, {os.cpu_count()} cores, Linux {platform.release()}, Python {platform.python_version()}"


def report(benchmark: str, rows: list[FigureRow]) -> None:
    """Print the rows as a Markdown table and write them to ``benchmarks/results/<benchmark>.json``."""
    print(f"\n{benchmark} on {machine()}\n")
    print("| what | median | min to max | floor | budget |\n|---|---|---|---|---|")
    for row in rows:
        spread = f"{min(row.samples):.4g} to {max(row.samples):.4g}"
        budget = "" if row.budget is None else f"{row.budget:g} {row.unit}"
        print(f"| {row.name} | {row.median:.4g} {row.unit} | {spread} | {row.floor} | {budget} |")
    RESULTS.mkdir(exist_ok=True)
    document = {
        "benchmark": benchmark,
        "machine": machine(),
        "rows": [asdict(row) | {"median": row.median} for row in rows],
    }
    (RESULTS / f"{benchmark}.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
