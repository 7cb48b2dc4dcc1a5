"""Who is named by the same flight recorder dumps: hangtop's rule, and torch's own analyzer (``torchfrtrace``).

Run: ``python -m benchmarks.recorder_accuracy [CASES]`` (40 of each fault by default). The dumps are of jobs with
tensor, pipeline and data parallel groups, run on paper until they stand still (``tests/support/megatron.py``), written
as torch 2.13 writes them. An answer is right when the first ranks that are named are the ones at fault and no others,
unsure when nobody is named, or those at fault among others and the answer says that it is not sure (of torchfrtrace:
whenever they are among others), and wrong else. Where dumps are missing, torchfrtrace gets
``--allow-incomplete-ranks``; its tables, which need a package that torch does not, are left unprinted.
"""

from __future__ import annotations

import json
import logging
import random
import re
import signal
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Literal, NamedTuple

from benchmarks.report import RESULTS, machine
from benchmarks.verdicts import NOTHING, JudgedAnswer, keep
from collectors.formats import flight_recorder
from tests.support.jobs import after
from tests.support.megatron import Layout
from tests.support.megatron_faults import Fault
from tests.support.recorder_dumps import Style, dumps_of

SEED = 20_261_122
SECONDS = 30
"""Given to torchfrtrace for one case."""
LAYOUTS = ((2, 4, 1), (2, 2, 2), (1, 4, 1), (4, 2, 1), (2, 1, 2), (1, 4, 2), (2, 4, 2), (8, 1, 1))
FAULTS: Mapping[str, str] = {
    "stuck": "one rank stops launching",
    "absent": "one rank stops and leaves no dump",
    "lost": "one rank stops, another one's dump is lost",
    "skip": "one rank skips a collective",
    "other": "one rank calls another collective",
    "size": "one rank calls it with another size",
    "circle": "two stages receive before they send",
    "gpu": "a GPU hangs: no rank is at fault",
}
KINDS = {"collective_mismatch", "collective_size_mismatch", "p2p_deadlock"}
_NAMED = re.compile(r"missing ranks: \{([\d, ]+)\}")
_CULPRIT = re.compile(r"Culprit rank (\d+);")
Answer = Literal["right", "unsure", "wrong", "failed"]


class DumpCase(NamedTuple):
    """Dumps by rank, the size of the job, and whom a right answer names."""

    dumps: Mapping[int, bytes]
    world: int
    right: frozenset[int]
    lost: bool


def cases(kind: str, number: int) -> list[DumpCase]:
    """Jobs that stand still for one reason, the same ones each time."""
    chance = random.Random(f"{SEED} {kind}")
    made: list[DumpCase] = []
    while len(made) < number:
        tensor, pipeline, data = chance.choice(LAYOUTS)
        layout = Layout(tensor, pipeline, data, steps=chance.choice((1, 2, 3)), overlap=chance.random() < 0.3)
        fault = Fault(kind, chance.randrange(layout.world), chance.randrange(300))  # type: ignore[arg-type]
        if kind == "circle" and pipeline == 1:
            continue
        run, right, lost = fault.run(layout, ahead=chance.choice((1, 8, 64)))
        if run.hung:
            made.append(DumpCase(dumps_of(run, Style(), lost), layout.world, right, bool(lost)))
    return made


def ours(case: DumpCase) -> tuple[Answer, str, str]:
    """What the rule of hangtop says: how right, how sure, and in words."""
    job = after(case.world)
    job.recorders.extend(flight_recorder.read(data, f"/tmp/fr_{rank}", rank) for rank, data in case.dumps.items())
    found = [finding for finding in job.verdict().findings if finding.kind in KINDS]
    if not found:
        return "unsure" if case.right else "right", NOTHING, "nobody is named"
    first = found[0]
    answer = judged(set(first.ranks), case.right, doubts=first.certainty == "possible")
    return answer, first.certainty, f"{first.kind} {list(first.ranks)}"


def torchs(case: DumpCase) -> Answer:
    """What torch's analyzer says; an exception, or no end in time, is a failure."""
    from torch.distributed.flight_recorder import fr_trace
    from torch.distributed.flight_recorder.components import utils

    utils.tabulate = _no_table

    told = _AnalyzerLines()
    logger = logging.getLogger("Flight Recorder")
    logger.handlers[:] = [told]
    with tempfile.TemporaryDirectory() as folder:
        for rank, data in case.dumps.items():
            Path(folder, f"fr_{rank}").write_bytes(data)
        signal.signal(signal.SIGALRM, _late)
        signal.alarm(SECONDS)
        try:
            fr_trace.main([folder, "--prefix", "fr_", *(["--allow-incomplete-ranks"] if case.lost else [])])
        except Exception as error:  # noqa: BLE001 - whatever it fails with is its answer
            told.lines.append(f"failed: {type(error).__name__}")
            if not told.named():
                return "failed"
        finally:
            signal.alarm(0)
    named = told.named()
    if not named:
        return "unsure" if case.right else "right"
    return judged(named, case.right, doubts=True)


def judged(named: set[int], right: frozenset[int], *, doubts: bool) -> Answer:
    """An answer that names these ranks."""
    if named == right:
        return "right"
    return "unsure" if doubts and right and right < named else "wrong"


class _AnalyzerLines(logging.Handler):
    """The lines that the analyzer writes."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())

    def named(self) -> set[int]:
        """Ranks in the first line that names some."""
        for line in self.lines:
            missing = _NAMED.search(line)
            if missing is not None:
                return {int(word) for word in missing.group(1).split(",")}
            if culprits := _CULPRIT.findall(line):
                return set(map(int, culprits))
        return set()


def _no_table(*_: object, **__: object) -> str:
    return ""


def _late(*_: object) -> None:
    raise TimeoutError(f"no answer in {SECONDS} s")


def main(number: int) -> None:
    """Print the table and write the JSON."""
    import torch

    counts: dict[str, dict[str, Counter[str]]] = defaultdict(lambda: {"hangtop": Counter(), "torchfrtrace": Counter()})
    rows: list[JudgedAnswer] = []
    for kind in FAULTS:
        for place, case in enumerate(cases(kind, number)):
            answer, certainty, said = ours(case)
            right = answer == "right"  # whoever names others beside the culprit is not
            rows.append(JudgedAnswer(f"{kind} {place}", "dumps", not case.right, said, certainty, right, 0.0))
            counts[kind]["hangtop"][answer] += 1
            counts[kind]["torchfrtrace"][torchs(case)] += 1
    print(f"\nrecorder_accuracy, torchfrtrace of torch {torch.__version__}\n")
    print("| fault | cases | hangtop: right | unsure | wrong | torchfrtrace: right | unsure | wrong | failed |")
    print("|---|---|---|---|---|---|---|---|---|")
    every = {name: sum((counts[kind][name] for kind in FAULTS), Counter()) for name in ("hangtop", "torchfrtrace")}
    for name, row in [*((FAULTS[kind], counts[kind]) for kind in FAULTS), ("all", every)]:
        we, they = row["hangtop"], row["torchfrtrace"]
        cells = [we.total(), *(we[word] for word in ("right", "unsure", "wrong"))]
        cells += [they[word] for word in ("right", "unsure", "wrong", "failed")]
        print(f"| {name} | {' | '.join(map(str, cells))} |")
    keep("recorder", rows)
    document = {
        "benchmark": "recorder_accuracy",
        "machine": machine(),
        "torch": torch.__version__,
        "rows": [],
        "cases": {
            kind: {"fault": FAULTS[kind]} | {name: dict(own) for name, own in counts[kind].items()} for kind in FAULTS
        },
    }
    (RESULTS / "recorder_accuracy.json").write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 40)
