"""Plays a case, which is data, as the samples that nodes would send, into a session on a clock of its own.

A case is a job that steps for a minute, and what each of its ranks does from then on. The session sees what it would
see of a real one: a pulse of each process and a row of each GPU every second, stacks every few seconds, lines of logs
through the parser of the nodes. So a case stays true however the diagnosis is built.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from collectors.fleet.sink import LinkChange
from collectors.node.logs.parser import LogParser, kernel_events
from collectors.samples.gpus import GpuFacts, GpuProcess, GpuProcesses
from collectors.samples.host import PortFacts
from collectors.samples.logs import StepCount
from collectors.samples.ranks import ProcessGone, RankPulse
from collectors.samples.stacks import StackDump
from collectors.samples.stream import SourceState
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from tests.support.jobs import ALL_REDUCE, BACKWARD, BARRIER, COMPUTING, DESTROY, INIT, READING, c10d, thread
from tests.support.made import gpu_row, hello, process, pulse, tick
from tests.support.pulses import polls, sleeps, spins, works

BEGAN = 1_800_000_000.0
PID = 1000
"""Of rank 0; the others follow."""
STEPPED = 60
"""Seconds for which the job steps before the fault."""
LOOK_EVERY = 3
"""Seconds between two looks at the stacks."""
SYNCHRONIZE = "synchronize /venv/lib/python3.11/site-packages/torch/cuda/__init__.py:985"
SAVE = ["_save /venv/lib/python3.11/site-packages/torch/serialization.py:868", "save_state ckpt.py:31"]
REPLICA = c10d("all_reduce", "reduce_replica mesh.py:12", "main loop.py:90")
LOADER = [
    "_try_get_data /venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:1131",
    "__next__ /venv/lib/python3.11/site-packages/torch/utils/data/dataloader.py:708",
    "main loop.py:88",
]


class RankPlace(NamedTuple):
    """Where a rank is, as a look at it tells."""

    frames: list[str]
    syscall: str = "futex"
    waiting_on: str = ""
    state: str = "S"
    moves: Callable[[RankPulse], RankPulse] = sleeps
    row: dict[str, Any] = {"utilization": 0, "power": 75.0}  # noqa: RUF012 (never written to)
    """What its GPU shows, where the job has GPUs."""
    then: list[str] = []  # noqa: RUF012 (never written to)
    """Where every other look meets it, if elsewhere."""
    group: bool = False
    """Its operation is one of a process group, not of the whole job."""
    over: bool = False
    """Its script is over: no frame of it is left."""


PORT = PortFacts("mlx5_0", 1, "InfiniBand", "ACTIVE", "LinkUp", 400.0)
FULL = {"utilization": 100, "power": 122.0}
"""A GPU in which the kernel of a collective waits: busy by its utilization, at little power."""
COMPUTES = {"utilization": 98, "power": 640.0}
SPINS = RankPlace([SYNCHRONIZE, "train_step loop.py:44", "main loop.py:90"], "none", "", "R", spins, FULL)
PLACES = {
    # waits for other ranks: over gloo, and below Python as over NCCL
    "all_reduce": RankPlace(ALL_REDUCE),
    "backward": RankPlace(BACKWARD),
    "all_reduce of its group": RankPlace(REPLICA, group=True),
    "barrier": RankPlace(BARRIER),
    "all_gather": RankPlace(c10d("all_gather", "collect_metrics loop.py:61", "main loop.py:95")),
    "broadcast": RankPlace(c10d("broadcast", "share_vocabulary loop.py:22", "main loop.py:80")),
    "broadcast in the step": RankPlace(c10d("broadcast")),
    "recv": RankPlace(c10d("recv", "forward_stage pipe.py:18", "main loop.py:90")),
    "init": RankPlace(INIT, "poll", "tcp node1:29500", "S", polls),
    "destroy": RankPlace(DESTROY),
    "kernel": SPINS,
    "kernel, asleep between polls": SPINS._replace(syscall="clock_nanosleep", state="S", moves=polls),
    "nap in the function that saves": RankPlace(
        ["to_host accel.py:40", "save_checkpoint ckpt.py:27", "main loop.py:93"], "clock_nanosleep", moves=polls
    ),
    "other kernel": SPINS._replace(frames=[SYNCHRONIZE, "evaluate loop.py:130", "main loop.py:97"]),
    # is waited for
    "pipe": RankPlace(READING, "read", "pipe"),
    "loader": RankPlace(LOADER, "poll", "pipe"),
    "remote read": RankPlace(["fetch_shard store.py:40", "main loop.py:88"], "recvfrom", "tcp 10.9.0.7:443"),
    "file": RankPlace(READING, "read", "/data/shard-0007.bin", "D"),
    "checkpoint": RankPlace([*SAVE, "main loop.py:93"], "write", "/ckpt/model.pt", "D"),
    "save to a pipe": RankPlace(["save_checkpoint ckpt.py:23", "main loop.py:93"], "write", "pipe"),
    "lock": RankPlace(["acquire_slot pool.py:14", "train_step loop.py:36", "main loop.py:90"]),
    "child": RankPlace(["wait tokenizer.py:52", "main loop.py:70"], "wait4", "child 4711"),
    "sleep": RankPlace(["retry_upload upload.py:77", "main loop.py:95"], "clock_nanosleep", "its clock for 900 s more"),
    "computing": RankPlace(COMPUTING, "none", "", "R", spins),
    "exception hook": RankPlace(["hold hook.py:27"], "accept4", "tcp 127.0.0.1:39659", over=True),
    "stopped": RankPlace([], "", "", "T"),
    # goes on
    "long kernel": SPINS._replace(row=COMPUTES),
    "steps": RankPlace(BACKWARD, "none", "", "R", works, COMPUTES, COMPUTING),
    "steps below Python": SPINS._replace(moves=works, row=COMPUTES),
    "steps in its group": RankPlace(REPLICA, "none", "", "R", works, COMPUTES, COMPUTING, group=True),
}


@dataclass(frozen=True)
class Case:
    """A job, what befalls it, and what somebody who knows the truth says of it."""

    cause: str
    """A row of the table of causes: the name of the file."""
    name: str
    words: tuple[str, ...]
    """The words that are right; the first is the best."""
    ranks: tuple[int, ...]
    """Who is at fault or waited for; empty for a healthy job."""
    does: dict[int, RankPlace | None]
    """What each rank does in the end; None for one whose process is gone."""
    kind: str = ""
    """Kind of the first finding, where one alone is right."""
    world: int = 4
    nodes: int = 2
    gpus: bool = False
    stands: int = 40
    """Seconds after the last step."""
    rests: tuple[int, int] | None = None
    """The job stands for so many seconds and steps for so many, again and again, and is asked while it stands."""
    times: int = 4
    """How often it does so."""
    turns: bool = False
    """What the last rank does is done by the ranks in turn."""
    stepped: int = STEPPED
    lost: str = ""
    """A node to which the connection is lost when the fault strikes."""
    down: str = ""
    """A node whose InfiniBand port goes down when the fault strikes."""
    at: str = ""
    """The node at fault, where no rank is."""
    missed: str = ""
    """Why hangtop does not answer rightly yet."""
    twin: bool = True
    """Whether the same is nothing to speak of where it lasts some seconds now and then."""
    logs: tuple[tuple[int | None, str, str], ...] = ()
    """Lines that are written when the fault strikes: by a rank, or by the kernel of a node."""

    @property
    def id(self) -> str:
        """Its name in a list of tests."""
        return f"{self.cause}: {self.name}"

    def node(self, rank: int) -> str:
        """Where a rank runs."""
        return f"node{1 + rank * self.nodes // self.world}"

    def healthy(self) -> Case:
        """Its twin: all ranks pause at the same places, as they do after each few steps, and go on."""
        present: dict[int, RankPlace | None] = {rank: place or PLACES["steps"] for rank, place in self.does.items()}
        return replace(
            self, name=f"{self.name} (goes on)", words=("healthy", "waiting", "slow"), ranks=(), kind="", missed="",
            logs=(), does=present, rests=(6, 4), stands=4, stepped=STEPPED, lost="", down="", times=4,
        )  # fmt: skip


def cases() -> Iterator[Case]:
    """All cases of the folder."""
    for path in sorted(Path(__file__).parent.glob("*.toml")):
        for given in tomllib.loads(path.read_text(encoding="utf-8"))["case"]:
            yield _case(path.stem, given)


def _case(cause: str, given: dict[str, Any]) -> Case:
    world = given.get("world", 4)
    does: dict[int, RankPlace | None] = {}
    for ranks, place in given.pop("does").items():
        first, _, last = ranks.partition("-")
        for rank in range(int(first), int(last or first) + 1):
            does[rank] = None if place == "gone" else PLACES[place]
    if "rests" in given:
        given["rests"] = tuple(given["rests"])
    logs = tuple((line.get("rank"), line.get("kernel", ""), line["text"]) for line in given.pop("log", ()))
    assert set(does) <= set(range(world)), given["name"]
    return Case(
        cause, given.pop("name"), tuple(given.pop("words")), tuple(given.pop("ranks", ())), does, logs=logs, **given
    )


class Player:
    """One case in one session."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.now = BEGAN
        self.session = Session(SessionOptions(patience=10.0), clock=lambda: self.now)
        self.steps = 100
        self.pulses = {rank: pulse(PID + rank, main_cpu=0.0) for rank in case.does}
        self.gone: set[int] = set()
        self.lost = ""

    def play(self) -> Session:
        """The session in the second in which it is asked."""
        case, steps = self.case, dict.fromkeys(self.case.does, PLACES["steps"])
        for name in sorted({case.node(rank) for rank in range(case.world)}):
            self._begin(name)
        self._run(case.stepped, dict(steps))
        stands, on = case.rests or (0, 0)
        for time in range(case.times if case.rests else 0):
            self._run(stands, self._turned(time) if case.turns else dict(case.does))
            self._run(on, dict(steps))
        self._strike()
        self._run(case.stands, dict(case.does))
        return self.session

    def _turned(self, time: int) -> dict[int, RankPlace | None]:
        """What the ranks do, each of them one further each time."""
        return {(rank + time) % self.case.world: place for rank, place in self.case.does.items()}

    def _begin(self, name: str) -> None:
        case = self.case
        own = [rank for rank in case.does if case.node(rank) == name]
        each = max(1, case.world // case.nodes)
        samples: list[NamedTuple] = [
            hello(self.now, hostname=name),
            *(SourceState(source, "ok", "", self.now) for source in ("ranks", "logs", "cpus", "kernel")),
            *(
                process(
                    rank, PID + rank, started=self.now - 600, world_size=case.world, local_world_size=each,
                    local_rank=rank % each,
                )
                for rank in own
            ),
        ]  # fmt: skip
        if case.down:
            samples.append(PORT)
        if case.gpus:
            bus = {rank: f"00000000:{0x10 + rank:02X}:00.0" for rank in own}
            samples += [
                GpuFacts(rank % each, f"GPU-{rank}", bus[rank], "NVIDIA H100", 80 << 30, 700.0, 1980, 5, 16)
                for rank in own
            ]
            samples += [GpuProcesses([GpuProcess(bus[rank], PID + rank, 9 << 30, None, "python") for rank in own])]
        self.session.link(LinkChange(name, "live", "", self.now))
        self.session.samples(name, samples)

    def _run(self, seconds: int, places: dict[int, RankPlace | None]) -> None:
        """Let time pass, a second at a time."""
        for _ in range(seconds):
            self.now += 1.0
            self.steps += any(place is not None and place.moves is works for place in places.values())
            for name in sorted(set(self.session.state.nodes) - {self.lost}):
                own = [rank for rank in places if self.case.node(rank) == name and rank not in self.gone]
                self.session.samples(name, [*self._second(own, places), tick(self.now)])
                if (self.now - BEGAN) % LOOK_EVERY == 0:
                    dumps = [self._look(rank, place) for rank in own if (place := places[rank]) is not None]
                    self.session.stacks(name, dumps)
            self.session.tick()

    def _second(self, own: list[int], places: dict[int, RankPlace | None]) -> Iterator[NamedTuple]:
        each = max(1, self.case.world // self.case.nodes)
        for rank in own:
            place = places[rank]
            if place is None:
                self.gone.add(rank)
                yield ProcessGone(PID + rank, self.now)
                continue
            before = self.pulses[rank]
            after = place.moves(before)._replace(state=place.state)
            after = after._replace(main_cpu=(before.main_cpu or 0.0) + after.cpu_user - before.cpu_user)
            self.pulses[rank] = after
            yield after
            if place.moves is works:
                grown = self.steps - 100
                yield StepCount(f"/logs/{rank}", PID + rank, "step", self.steps, self.now, grown, 1.0)
            if self.case.gpus:
                yield gpu_row(rank % each, memory_used=9 << 30, **place.row)

    def _look(self, rank: int, place: RankPlace) -> StackDump:
        frames = place.then if place.then and self.steps % 2 else place.frames
        error = "" if frames else "stopped: the process is stopped"
        main = thread(frames, {"group_given": "yes"} if place.group else {}, active=place.state == "R")
        main = main._replace(frames=main.frames[:-1]) if place.over else main
        return StackDump(
            PID + rank, PID + rank, self.now, "none" if error else "nonblocking", place.state, "", place.syscall,
            self.pulses[rank].cpu_user, error, [main] if frames else [], place.waiting_on,
        )  # fmt: skip

    def _strike(self) -> None:
        """What happens in the second of the fault: lines are written, a connection is lost, a port goes down."""
        if self.case.lost:
            self.lost = self.case.lost
            self.session.link(LinkChange(self.lost, "lost", "no route to host", self.now))
        if self.case.down:
            self.session.samples(self.case.down, [PORT._replace(state="DOWN", phys_state="Polling")])
        for number, (rank, kernel, text) in enumerate(self.case.logs):
            if rank is None:
                events = kernel_events([(self.now, line) for line in text.splitlines()], "dmesg")
            else:
                parser = LogParser(f"rank{rank}.err", rank=rank, now=self.now)
                events = [*parser.feed((text + "\n").encode()), *parser.close()]
            assert events, f"{self.case.id}: no line of {text!r} says anything"
            stamped = [event._replace(at=self.now + number) for event in events]
            self.session.samples(kernel if rank is None else self.case.node(rank), stamped)
