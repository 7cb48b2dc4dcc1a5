"""Jobs whose ranks wait below Python on two real nodes, and hangtop's answers about them: one-shot, live, replayed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from hangtop.cli.answer import Answer as Said
from hangtop.cli.answer import as_json
from hangtop.demo.devices.bench import Bench, Hardware
from hangtop.demo.job import joining
from hangtop.session.live import live_session
from hangtop.session.options import SessionOptions
from tests.support.cluster_node import Node
from tests.support.device_cases import CASES, Case
from tests.support.device_variants import ContainedJob, contained, ptrace_refused
from tests.support.faulty import Answer, FaultyJob, Nurseries, Triage, nurseries
from tests.support.simulated_nccl.library import build

WAYS = ("triage", "live", "replay")
VARIANTS = ("ptrace_refused", "container")
"""Nodes on which less is to be seen."""
PATIENCE = 10.0
STILL = 3.0
"""Seconds without a line of the log after which a job is taken to stand."""
HELD = 3.0
"""Seconds that an alarm of the live session must last to be its answer."""
_MAIN = "from hangtop.cli.main import main; main()"


class DeviceJobs:
    """Starts such jobs, one at a time: they share the nodes' simulated GPUs and this machine's processors."""

    def __init__(self, nursery: Nurseries) -> None:
        self.nursery = nursery
        self.cluster = nursery.cluster
        self.library = build(self.cluster.root / "cuda")
        self._benches = {node.name: Bench(node.root / "gpus", Hardware(gpus=2, ports=0)) for node in self.cluster.nodes}
        for node in self.cluster.nodes:
            bench = self._benches[node.name]
            bench.install()
            (node.bin / "nvidia-smi").symlink_to(bench.bin / "nvidia-smi")

    def remove(self) -> None:
        """Leave the nodes as they were."""
        for node in self.cluster.nodes:
            (node.bin / "nvidia-smi").unlink()

    def devices(self, node: Node) -> Path:
        """Folder of a node's simulated GPUs."""
        return self._benches[node.name].folder

    def environment(self, case: Case) -> dict[str, str]:
        """What the ranks of a case find."""
        words = ["--library", str(self.library), "--folder", str(self.cluster.shared / "data"), *case.words]
        found = {"HX_LAYOUT": case.layout, "HX_ARGUMENTS": shlex.join(words)}
        if case.recorder:
            stem = str(self.cluster.shared / f"recorder-{time.monotonic_ns()}-")
            found |= {joining.PIPE: stem, joining.STEM: stem, "TORCH_FR_BUFFER_SIZE": "2000"}
        return found

    @contextlib.contextmanager
    def running(self, name: str, case: Case | None = None) -> Iterator[FaultyJob]:
        """The job of a case, from when its fault has struck (or what its word says is under way) to its end."""
        case = case or CASES[name]
        for node in self.cluster.nodes:
            for state in self.devices(node).glob("*.state"):
                state.unlink()
        own = {node.name: {"HANGTOP_DEMO_DEVICES": str(self.devices(node))} for node in self.cluster.nodes}
        job = self.nursery.launch("device.py", name, env=self.environment(case), per_node=own)
        try:
            wait_until_ready(job, case)
            self._number_as_nodes_do(job)
            yield job
        finally:
            job.end()

    def _number_as_nodes_do(self, job: FaultyJob) -> None:
        """Write into the GPUs' records the process ids that nodes know: in a container a rank knows its own alone."""
        for rank in range(len(job.nodes) * job.ranks_per_node):
            for node, process in job.processes(rank)[:1]:
                record = self.devices(node) / f"gpu{rank % job.ranks_per_node}.state"
                with record.open("r+b") as file:
                    file.write(struct.pack("<q", process.pid))

    # --- answers -------------------------------------------------------------------------------------------------

    def answers(self, name: str, ways: Sequence[str] = WAYS, case: Case | None = None) -> dict[str, Answer]:
        """Hangtop's answers about a case, by way."""
        case = case or CASES[name]
        found: dict[str, Answer] = {}
        with self.running(name, case) as job:
            if "triage" in ways:
                found["triage"] = self.triage(job)
            if "live" in ways or "replay" in ways:
                file = job.folder / "live.hangtop"
                found["live"] = self.live(job, file, case)
        if "replay" in ways:
            found["replay"] = replayed(file)
        return {way: answer for way, answer in found.items() if way in ways}

    def triage(self, job: FaultyJob) -> Answer:
        """What the one-shot command says."""
        return Triage(self.cluster, case=job.case).answer(150)

    def live(self, job: FaultyJob, file: Path, case: Case) -> Answer:
        """What the live session says: an alarm that it holds to, or what it says in the end; ``file`` records it."""
        options = SessionOptions(
            targets=tuple(self.cluster.names), ssh_config=self.cluster.ssh_config,
            job=("HX_CASE", job.case), patience=PATIENCE, batch=True,
        )  # fmt: skip
        return asyncio.run(_watched(options, file, case))


async def _watched(options: SessionOptions, file: Path, case: Case) -> Answer:
    session = live_session(options)
    session.recordings.record(file)
    began = time.monotonic()
    held: tuple[object, float] = (None, began)
    worst: set[str] = set()
    try:
        await session.start()
        while time.monotonic() - began < case.live_for:
            await asyncio.sleep(0.25)
            verdict = session.verdict
            found = verdict.findings if verdict else ()
            alarms = [f.kind for f in found if f.severity != "info" and f.kind != "waiting"]
            worst.update(alarms)
            if not alarms or alarms != held[0]:
                held = (alarms, time.monotonic())
            elif not case.healthy and time.monotonic() - held[1] > HELD:
                break
        assert session.verdict is not None
        said = Said(session.verdict, session.job(), time.monotonic() - began)
        data = {**as_json(said), "ever_raised": sorted(worst)}
        return Answer(said.exit_code, said.took, json.loads(json.dumps(data)), "")
    finally:
        await session.close()


def replayed(file: Path) -> Answer:
    """What ``hangtop replay --json`` says at the end of a recording."""
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", _MAIN, "replay", "--json", str(file)],
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout, done.stderr
    return Answer(done.returncode, time.monotonic() - began, json.loads(done.stdout), done.stderr)


def wait_until_ready(job: FaultyJob, case: Case) -> None:
    """Wait until the case's word is written, or until nothing is any more."""
    if case.word:
        job.wait_for(case.word, case.who, timeout=120)
        return
    ranks = range(len(job.nodes) * job.ranks_per_node)
    job.wait_for("loss" if case.layout == "data" else "| ", *ranks, timeout=120)
    lines, since = -1, time.monotonic()
    deadline = since + 90
    while time.monotonic() - since < STILL:
        said = sum(len(job.said(rank).splitlines()) for rank in ranks)
        if said != lines:
            lines, since = said, time.monotonic()
        if time.monotonic() > deadline:
            raise TimeoutError(f"{job.case}: the fault does not strike")
        time.sleep(0.1)


def wrong(case: Case, answer: Answer) -> str:
    """What is wrong with an answer; empty when it is right."""
    if case.healthy:
        raised = answer.alarms or answer.data.get("ever_raised", [])
        return f"raised {', '.join(raised)}" if raised else "" if answer.verdict == "healthy" else answer.verdict
    if answer.verdict in ("healthy", "idle") or not answer.findings:
        return f"said to be {answer.verdict}"
    first = answer.findings[0]
    if first["kind"] not in case.kinds:
        return f"{first['kind']} is none of {', '.join(case.kinds)}"
    if case.names and first["ranks"] != [case.who]:
        return f"ranks {first['ranks']} are named, not {case.who}"
    if not case.names and len(first["ranks"]) in (1, 2, 3) and case.who not in first["ranks"]:
        return f"ranks {first['ranks']} are accused"
    return ""


def line(name: str, way: str, case: Case, answer: Answer) -> str:
    """One line for people about an answer."""
    first = answer.findings[0] if answer.findings else None
    what = f"{first['kind']} {first['ranks']}" if first else "no finding"
    judged = wrong(case, answer)
    return (
        f"{name:26} {way:7} {'ok   ' if not judged else 'WRONG'} {answer.took:5.1f} s  "
        f"{answer.verdict:8} {what:34} {f'← {judged}' if judged else ''}"
    ).rstrip()


@contextlib.contextmanager
def device_jobs(variant: str = "") -> Iterator[DeviceJobs]:
    """Two nodes of their own for such jobs; ``variant`` is one of :data:`VARIANTS`."""
    inside, kind = (contained, ContainedJob) if variant == "container" else (None, FaultyJob)
    with nurseries(inside=inside, kind=kind) as nursery, contextlib.ExitStack() as stack:
        jobs = DeviceJobs(nursery)
        nursery.wait()  # a variant moves what they load
        if variant == "ptrace_refused":
            stack.enter_context(ptrace_refused(nursery.cluster))
        yield jobs
