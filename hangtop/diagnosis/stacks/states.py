"""What one rank is doing, as its stacks tell: the words that the reading of stacks and the rules share.

Rules compare members of the enums and literals below, never a text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum
from functools import lru_cache
from typing import Literal, NamedTuple

from collectors.samples.stacks import RUNS, ThreadWait

Kind = Literal[
    "collective", "p2p", "store", "init", "shutdown", "device", "data", "checkpoint", "lock", "compile", "sleep",
    "backward", "forward", "code", "unknown",
]  # fmt: skip
"""Kind of what a rank does.

``store``: a TCPStore wait, a rendezvous. ``init``: init_process_group, the making of a communicator. ``shutdown``: it
left training (destroy_process_group, atexit). ``device``: waits for its own GPU, whatever that waits for. ``backward``
and ``forward``: inside autograd or a wrapper's forward, where Python frames do not tell work from a collective.
``code``: anywhere else in user code. ``unknown``: no frames, and ``error`` says why.
"""

Waits = Literal["peers", "device", "storage", "helper", "lock", "time", "nothing", "unknown"]
"""What a rank waits for: other ranks, its own GPU, storage or network, a process of its own, a lock or thread, a timer.

``nothing``: it computes. ``unknown``: the frames and the kernel do not tell.
"""

Role = Literal["main", "autograd", "library", "python"]
"""What a thread is there for. ``library``: watchdogs and the like, without Python; ``python``: a thread of the job."""

Phase = Literal["forward", "backward", "data", "checkpoint", "evaluation", "compile", "init", "shutdown", "joined"]
"""A part of the training loop that a stack is inside of. ``joined``: its own data are over (DDP's Join)."""


class Meaning(Enum):
    """What a thread does: its kind, what it waits for, and the words for it (``{op}`` is the operation's name)."""

    # with other ranks
    COLLECTIVE = "collective", "peers", "waits in {op}"
    HANDLE = "collective", "peers", "waits for an operation begun earlier"
    NCCL_QUEUE_FULL = "collective", "peers", "waits for room in NCCL's queue of operations"
    NCCL_PROXY = "code", "nothing", "spins in ncclLocalOpAppend of NCCL"
    """It waits for room in the queue of NCCL's proxy thread: for ever, where that lost an operation (nccl#2353)."""
    P2P = "p2p", "peers", "waits in {op}"
    INIT = "init", "peers", "waits in {op}"
    RENDEZVOUS = "init", "peers", "waits for the rendezvous of init_process_group"
    STORE = "store", "peers", "waits at the store"
    LEFT_IN = "shutdown", "unknown", "has left training: in {op}"
    # for its GPU
    GPU = "device", "device", "waits for its GPU"
    GPU_CALL = "code", "device", "waits for its GPU"
    """By the kernel alone: it is in a call of NVIDIA's driver."""
    GPU_QUEUE_FULL = "device", "device", "waits for its GPU (its queue of kernels is full)"
    GPU_FULL = "device", "device", "most likely waits for its GPU, which is full"
    # phases
    DATA_WORKERS = "data", "helper", "waits for its data workers"
    DATA = "data", "unknown", "reads data"
    SAVES = "checkpoint", "storage", "saves a checkpoint"
    LOADS = "checkpoint", "storage", "loads a checkpoint"
    CHECKPOINT = "checkpoint", "unknown", "is saving or loading a checkpoint"
    COMPILES = "compile", "unknown", "compiles"
    BACKWARD = "backward", "unknown", "in backward"
    FORWARD = "forward", "unknown", "in a forward pass"
    """Whether it works there, or waits in C code, other evidence tells."""
    LEFT = "shutdown", "unknown", "has left the program"
    # what any program waits for
    PROMPT = "code", "storage", "waits at a prompt for somebody to type"
    LOCK = "lock", "lock", "waits for a lock or an event"
    GIL = "lock", "lock", "waits for the GIL"
    QUEUE = "lock", "lock", "waits at a queue"
    THREAD = "lock", "lock", "waits for a thread to end"
    THREAD_POOL = "lock", "lock", "waits for a pool of threads"
    FUTURE = "lock", "lock", "waits for a future"
    LOCK_FILE = "lock", "lock", "waits for a lock file"
    FILE_LOCK = "lock", "lock", "waits for a lock on a file"
    PROCESS_QUEUE = "lock", "helper", "waits at a process's queue"
    MESSAGE = "lock", "helper", "waits for a process's message"
    PROCESS_POOL = "lock", "helper", "waits for a pool of processes"
    CHILD = "code", "helper", "waits for a child process"
    EVENT_LOOP = "code", "unknown", "waits in an event loop"
    NETWORK = "code", "storage", "waits for the network"
    SERVES = "code", "storage", "serves whoever asks it"
    READS_FILE = "data", "storage", "reads a file"
    READS = "code", "storage", "reads"
    WRITES = "code", "storage", "writes"
    OPENS = "code", "storage", "waits to open a file"
    CALLS = "code", "storage", "waits in a system call on a file"
    SLEEPS = "sleep", "time", "sleeps"
    COMPUTES = "code", "nothing", "computes"
    IN_C = "code", "unknown", "waits in C code"
    STOPPED = "code", "unknown", "is stopped"
    CODE = "code", "unknown", "is in user code"
    CLOSED = "unknown", "unknown", "cannot be looked into"
    """Of which no frame could be read and the kernel says nothing."""

    def __init__(self, kind: Kind, waits: Waits, words: str) -> None:
        self.kind: Kind = kind
        self.waits: Waits = waits
        self.words = words


class BlockedOn(NamedTuple):
    """What a system call waits on, out of the text that the node side sends (``StackDump.waiting_on``)."""

    pipe: bool = False
    port: int | None = None
    """Of the far end of a connection."""
    process: int | None = None
    """The process for whose end it waits."""
    seconds: int | None = None
    """Time that is left of a timer."""
    runs: bool = False
    """A thread of that process, or of the one at the far end, runs: it may be at work on what it was asked."""


_ON = re.compile(
    r"tcp \[?[\w.:]+?\]?:(?P<port>\d{1,5})(?:, process .*)?$"
    r"|process (?P<process>\d{1,10})(?: .*)?$"
    r"|its clock for (?P<seconds>[0-9]{1,10}) s more$"
)


@lru_cache(maxsize=4096)
def target_of(waiting_on: str) -> BlockedOn:
    """Read what the node side says that a call waits on."""
    text = waiting_on.removesuffix(RUNS)
    found = _ON.match(text)
    told = {name: int(number) for name, number in found.groupdict().items() if number} if found is not None else {}
    return BlockedOn(text.startswith("pipe"), **told, runs=text != waiting_on)


class ThreadNote(NamedTuple):
    """Another thread of the process that is in the job's own code."""

    name: str
    role: Role
    where: str


_MAY_BE_WAITS: frozenset[Kind] = frozenset(("code", "checkpoint", "backward", "forward"))
"""A rank that gathers what it saves waits for its GPU, and for the others, in C code that looks like work."""


class Activity(NamedTuple):
    """What one rank is doing, from one or several looks at its process and its helpers.

    Rules compare ranks by ``kind``, ``op``, ``waits``, ``meaning`` and ``place``; they quote ``label``, ``where`` and
    ``frames``.
    """

    meaning: Meaning
    waits: Waits
    """That of its meaning; of a part of the program as a checkpoint what that waits for, where it is known."""
    op: str = ""
    """``all_reduce``, ``barrier``, ``send`` …; empty for other kinds, and where only the wait for it is to be seen."""
    context: frozenset[Phase] = frozenset()
    """Phases that it is inside of: a barrier inside a checkpoint is ``collective`` with context ``checkpoint``."""
    world: bool | None = None
    """True: on the default process group; False: a group was handed in; None: the frames do not tell."""
    peer: int | None = None
    """For ``p2p``: the rank it sends to or receives from, where the arguments tell."""
    where: str = ""
    """Innermost user frame as ``read_shard (data.py:88)``, in a data worker when the rank waits for that; empty without
    one."""
    by_frame: bool = False
    """A frame gave the meaning, not the kernel (state, system call) or the user's line itself."""
    by_name: bool = False
    """Names in the user's own code, or the kernel's read of a file, alone gave the kind: a hint, no proof."""
    native: bool = False
    """Native frames were read."""
    function: str = ""
    """The function of :attr:`where`, without the line."""
    place: str = ""
    """The folded frames joined by ``;``, that of a user frame which is itself running without its line: ranks with
    equal places are at the same point of the program."""
    frames: tuple[str, ...] = ()
    """The folded frames for people, outermost first."""
    cpu: float | None = None
    """Cores that it used from its first look to its last; None where that is not known, or it was given no CPU."""
    moving: bool | None = None
    """Whether the frames changed between looks; None with fewer than two looks that have frames."""
    thread: Role = "main"
    """Role of the thread that was judged: main, or the thread that main waits for."""
    others: tuple[ThreadNote, ...] = ()
    """Other threads in the job's own code."""
    beside: Sequence[ThreadWait] = ()
    """In the newest look, its threads beside the main one that do not sleep at a futex; native ones have no frames."""
    gil: str = ""
    """Name of the thread that holds the GIL in the newest look."""
    helper_pid: int | None = None
    """The helper (data worker) whose frames ``where`` shows; None when they are the rank's own."""
    state: str = ""
    """Letter of /proc/PID/stat in the newest look; ``wchan`` and ``syscall`` are those of the main thread."""
    wchan: str = ""
    syscall: str = ""
    waiting_on: str = ""
    """What that call waits on, as the node side says it; :attr:`target` for rules."""
    error: str = ""
    """First word (``denied``, ``stopped``, ``gone`` …) when the newest look has no frames, with what was ``said``."""
    said: str = ""
    readings: tuple[Activity, ...] = ()
    """What each look alone says, oldest first; empty in these themselves."""
    at: float = 0.0
    """Time of the newest look."""
    since: float = 0.0
    """Time of the oldest look of the unbroken run, up to the newest, with this same ``place``."""
    carried: float | None = None
    """Bytes per second that its TCP connections carried between the last two looks, or those of the one process for
    whose end it waits, where they are more; None where that is not told."""

    def taken_as(self, meaning: Meaning) -> Activity:
        """The same, where something besides the stacks tells what it means."""
        return self._replace(meaning=meaning, waits=meaning.waits)

    @property
    def kind(self) -> Kind:
        """That of its meaning; ``unknown`` where no frame was read."""
        return "unknown" if self.error else self.meaning.kind

    @property
    def label(self) -> str:
        """Two or three words for people: ``waits in all_reduce``, ``reads data``."""
        if self.peer is not None:
            return f"waits to {'receive from' if 'recv' in self.op else 'send to'} rank {self.peer}"
        return self.meaning.words.format(op=self.op)

    @property
    def native_would_tell(self) -> bool:
        """Another dump with native frames could settle what these frames leave open."""
        may_wait = self.waits in ("device", "nothing", "time") and self.kind in _MAY_BE_WAITS
        open_ended = self.waits == "unknown" or (may_wait and not (self.moving and self.waits == "nothing"))
        return open_ended and not (self.by_frame or self.native or self.error)

    @property
    def target(self) -> BlockedOn:
        """What its system call waits on."""
        return target_of(self.waiting_on)
