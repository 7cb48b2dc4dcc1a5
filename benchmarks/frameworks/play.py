"""Plays one case: starts the job, waits for what befalls it, asks hangtop, compares, and ends everything."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.frameworks.cases import ACCUSING, NO_ACCUSATION, Case
from benchmarks.frameworks.setup import extensions
from benchmarks.held import held
from benchmarks.verdicts import NOTHING

ROOT = Path(__file__).parents[2]
JOBS = Path(__file__).parent / "jobs"
_MAIN = "from hangtop.cli.main import main; main()"
_MARK = "HANGTOP_CASE"
"""Variable that all processes of a job inherit: what tells it from others on this machine."""
START_S, MOVE_S, ASK_S, SETTLE_S = 150.0, 60.0, 90.0, 3.0
"""Longest waits for ranks to train, for a fault to strike, for an answer; and how long a fault lasts before it is asked
about."""


@dataclass(frozen=True, slots=True)
class CaseOutcome:
    """What was said of a case."""

    case: str
    framework: str
    version: str
    mishap: str
    culprit: int | None
    said: str
    """Verdict and root cause, for people."""
    certainty: str
    """Of the first finding that is more than information; ``nothing`` where there is none."""
    summary: str
    right: bool
    why: str
    """What is wrong about it; empty when it is right."""
    took_s: float
    answer: dict[str, Any] = field(default_factory=dict)


def play(
    case: Case, python: Path, version: str, cache: Path, record: Path | None, lock: Path | None = None
) -> CaseOutcome:
    """Play one case to its end; a job that does not come up is a case that is not right.

    ``record``: a folder in which what was seen is kept, for ``hangtop replay``. ``lock`` is held from when all ranks
    train, as only from then on time matters.
    """
    with tempfile.TemporaryDirectory(prefix="hangtop-case-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        job = JobOfCase(case, python, folder, cache)
        try:
            job.start()
            with held(lock):
                job.strike()
                answer = _ask(job, record)
        except (TimeoutError, subprocess.TimeoutExpired) as error:
            return _outcome(case, version, {}, f"not played: {error}", str(error))
        finally:
            job.end()
        return _outcome(case, version, answer, judge(case, answer, job.pids()), "")


class JobOfCase:
    """The processes of one case."""

    def __init__(
        self, case: Case, python: Path, folder: Path, cache: Path, *, further: dict[str, str] | None = None
    ) -> None:
        self.case = case
        self.mark = f"{os.getpid()}-{time.monotonic_ns()}"
        self.log = folder / "job.out"
        self._further = further or {}
        self._python = python
        self._folder = folder
        self._cache = cache
        self._started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """Start it and wait until all ranks train."""
        framework, cache = self.case.framework, self._cache
        filled = {
            "python": str(self._python), "bin": str(self._python.parent), "script": str(JOBS / framework.script),
            "port": str(_free_port()), "ranks": str(framework.ranks), "rank": "0",
        }  # fmt: skip
        healthy = not self.case.mishap.kinds
        own = {
            _MARK: self.mark, "MISHAP": self.case.mishap.name, "MISHAP_DIR": str(self._folder),
            "MISHAP_RANK": "-1" if healthy else str(self.case.culprit), "PORT": filled["port"],
            "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "GLOO_SOCKET_IFNAME": "lo", "HF_HUB_OFFLINE": "1",
            "PATH": f"{self._python.parent}:{os.environ['PATH']}", "RAY_FOLDER": str(cache / "ray"), "TMPDIR": "/tmp",
            "RAY_USAGE_STATS_ENABLED": "0", "TORCH_EXTENSIONS_DIR": str(extensions(cache)),
            "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
        }  # fmt: skip
        inherited = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        with self.log.open("wb") as log:
            for rank in range(framework.ranks if framework.each_rank else 1):
                words = [word.format(**{**filled, "rank": str(rank)}) for word in framework.command]
                self._started.append(
                    subprocess.Popen(
                        words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd=self._folder,
                        env={**inherited, **dict(framework.environment), **own, **self._further},
                        start_new_session=True,
                    )
                )  # fmt: skip
        self._wait(lambda: len(self._told("moves")) >= framework.ranks, START_S, "the ranks do not train")

    def strike(self) -> None:
        """Let it go on, bring about what befalls it, or wait until it did; then let some seconds pass."""
        (self._folder / "go").touch()
        mishap, culprit = self.case.mishap, self.case.culprit
        if mishap.signal:
            os.kill(self._told("begins")[culprit], signal.Signals[mishap.signal])
        elif mishap.kinds or mishap.name == "healthy_eval":
            self._wait(lambda: bool(self._told("struck")), MOVE_S, "the fault does not strike")
        time.sleep(SETTLE_S)

    def pids(self) -> dict[int, int]:
        """Process of each rank."""
        return self._told("begins")

    def _told(self, word: str) -> dict[int, int]:
        return {
            int(path.suffix[1:]): int(path.read_text())
            for path in self._folder.glob(f"{word}.*")
            if path.suffix[1:].isdigit()
        }

    def _wait(self, ready: Callable[[], bool], seconds: float, what: str) -> None:
        ends = time.monotonic() + seconds
        while not ready():
            over = all(process.poll() is not None for process in self._started)
            if over or time.monotonic() > ends:
                last = self.log.read_text(errors="replace")[-2000:]
                raise TimeoutError(f"{what}{' (it ended)' if over else ''}: {last}")
            time.sleep(0.2)

    def end(self) -> None:
        """End all processes that carry the mark, and Ray's that lost it with their titles.

        Launchers end their ranks as a rule, but nobody relies on that.
        """
        for _ in range(5):
            left = [*_marked(self.mark), *_using(self._cache / "ray")]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for process in self._started:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(2.0)
            if not left:
                return
            time.sleep(0.2)


def _marked(mark: str) -> Iterator[int]:
    entry = f"{_MARK}={mark}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if entry in (folder / "environ").read_bytes().split(b"\0"):
                yield int(folder.name)


def _using(folder: Path) -> Iterator[int]:
    """Processes that have a file open below this folder, which is the runner's own."""
    begin = f"{folder}/"
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(str(file.readlink()).startswith(begin) for file in (process / "fd").iterdir()):
                yield int(process.name)


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _ask(job: JobOfCase, record: Path | None) -> dict[str, Any]:
    words = ["triage", "--json", "--batch", "--log", str(job.log)]
    if record is not None:
        words += ["--record", str(record / f"{job.case.name.replace('/', '-')}.hangtop")]
    return asked(job, *words)


def asked(job: JobOfCase, *words: str) -> dict[str, Any]:
    """What a command of hangtop says of the job in JSON.

    Raises :class:`TimeoutError` where it says nothing.
    """
    said = subprocess.run(
        [sys.executable, "-c", _MAIN, *words, "--job", f"{_MARK}={job.mark}"], capture_output=True, text=True,
        timeout=ASK_S, cwd=ROOT, check=False, stdin=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": str(ROOT)},
    )  # fmt: skip
    if not said.stdout.strip():
        raise TimeoutError(f"{words[0]} ended with {said.returncode}: {said.stderr[-1000:]}")
    answer: dict[str, Any] = json.loads(said.stdout)
    return answer


def judge(case: Case, answer: dict[str, Any], pids: dict[int, int]) -> str:
    """What is wrong about an answer; empty when it is right."""
    findings = answer["findings"]
    alarms = [finding for finding in findings if finding["severity"] != "info"]
    if not case.mishap.kinds:
        if answer["verdict"] in ACCUSING:
            return f"accused: {answer['summary']}"
        accusing = [
            finding
            for finding in alarms
            if (finding["ranks"] or finding["processes"]) and not finding["kind"].startswith(NO_ACCUSATION)
        ]
        return f"accused: {accusing[0]['summary']}" if accusing else ""
    if answer["verdict"] not in case.mishap.words:
        return f"verdict {answer['verdict']}"
    if not findings:
        return "no finding"
    first = findings[0]
    if first["kind"] not in case.mishap.kinds:
        return f"kind {first['kind']}"
    named = first["ranks"] == [case.culprit]
    if first["kind"] == "collective_mismatch" and case.framework.ranks == 2:
        named = first["ranks"] == [0, 1]  # of two, neither is the odd one
    by_pid = [word.rpartition(":")[2] for word in first["processes"]] == [str(pids.get(case.culprit))]
    return "" if named or (by_pid and not first["ranks"]) else f"ranks {first['ranks']}, {first['processes']}"


def _outcome(case: Case, version: str, answer: dict[str, Any], why: str, summary: str) -> CaseOutcome:
    findings = answer.get("findings", [])
    said = answer.get("verdict", "")
    if findings:
        first = findings[0]
        who = f"rank {first['ranks'][0]}" if len(first["ranks"]) == 1 else f"ranks {first['ranks']}"
        if not first["ranks"]:
            who = "a process" if first["processes"] else ""
        said = f"{said}: {first['kind']}{f', {who}' if who else ''}"
    return CaseOutcome(
        case.name, case.framework.name, version, case.mishap.told, case.culprit if case.mishap.kinds else None,
        said, _certainty(findings), answer.get("summary", summary), not why, why, float(answer.get("took_s", 0.0)),
        answer,
    )  # fmt: skip


def _certainty(findings: list[dict[str, Any]]) -> str:
    raised = [finding for finding in findings if finding["severity"] != "info"]
    return str(raised[0]["certainty"]) if raised else NOTHING
