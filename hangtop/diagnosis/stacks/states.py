"""What one rank does according to its stacks: the types that stack parsing and rules share.

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
"""Kind of a rank's activity.

``store``: a wait at a store. ``init``: init_process_group with its rendezvous, creation of a communicator.
``shutdown``: the rank has left training (destroy_process_group, atexit). ``device``: a wait for its own GPU, whatever
runs there. ``backward`` and ``forward``: inside autograd or a wrapper's forward, where Python frames do not tell work
from a collective. ``code``: anywhere else in user code. ``unknown``: no frames, and ``error`` names the reason.
"""

Waits = Literal["peers", "device", "storage", "helper", "lock", "time", "nothing", "unknown"]
"""What a rank waits for: other ranks, its own GPU, storage or network, a child process, a lock or thread, a timer.

``nothing``: the rank computes. ``unknown``: neither the frames nor the kernel show a wait.
"""

Role = Literal["main", "autograd", "library", "python"]
"""Role of a thread. ``library``: a thread without Python, such as a watchdog; ``python``: a thread of the job."""

Phase = Literal["forward", "backward", "data", "checkpoint", "evaluation", "compile", "init", "shutdown", "joined"]
"""Part of the training loop around a frame. ``joined``: the rank has no more data of its own (DDP's Join)."""


class Meaning(Enum):
    """What a thread does: its kind, what the thread waits for, and a text (``{op}``: the operation's name)."""

    # with other ranks
    COLLECTIVE = "collective", "peers", "waits in {op}"
    HANDLE = "collective", "peers", "waits for an operation begun earlier"
    NCCL_QUEUE_FULL = "collective", "peers", "waits for room in NCCL's queue of operations"
    NCCL_PROXY = "code", "nothing", "spins in ncclLocalOpAppend of NCCL"
    """A wait for room in the queue of NCCL's proxy thread; endless if the proxy has lost an operation (nccl#2353)."""
    P2P = "p2p", "peers", "waits in {op}"
    INIT = "init", "peers", "waits in {op}"
    RENDEZVOUS = "init", "peers", "waits for the rendezvous of init_process_group"
    STORE = "store", "peers", "waits at the store"
    LEFT_IN = "shutdown", "unknown", "has left training: in {op}"
    # for its GPU
    GPU = "device", "device", "waits for its GPU"
    GPU_CALL = "code", "device", "waits for its GPU"
    """From the kernel alone: the main thread is in an ioctl of NVIDIA's driver."""
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
    """Backward and forward: other evidence shows whether the rank works there or waits in C code."""
    LEFT = "shutdown", "unknown", "has left the program"
    # what any program waits for
    PROMPT = "code", "storage", "waits at a prompt for input"
    LOCK = "lock", "lock", "waits for a lock or an event"
    GIL = "lock", "lock", "waits for the GIL"
    QUEUE = "lock", "lock", "waits at a queue"
    THREAD = "lock", "lock", "waits for a thread to end"
    THREAD_POOL = "lock", "lock", "waits for a pool of threads"
    FUTURE = "lock", "lock", "waits for a future"
    LOCK_FILE = "lock", "lock", "waits for a lock file"
    FILE_LOCK = "lock", "lock", "waits for a lock on a file"
    PROCESS_QUEUE = "lock", "helper", "waits at a multiprocessing queue"
    MESSAGE = "lock", "helper", "waits for a message from a process"
    PROCESS_POOL = "lock", "helper", "waits for a pool of processes"
    CHILD = "code", "helper", "waits for a child process"
    EVENT_LOOP = "code", "unknown", "waits in an event loop"
    NETWORK = "code", "storage", "waits for the network"
    SERVES = "code", "storage", "serves requests"
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
    CLOSED = "unknown", "unknown", "has no readable stack"
    """No frame could be read, and the kernel shows no wait."""

    def __init__(self, kind: Kind, waits: Waits, words: str) -> None:
        self.kind: Kind = kind
        self.waits: Waits = waits
        self.words = words


class BlockedOn(NamedTuple):
    """What a system call waits on, parsed from ``StackDump.waiting_on``."""

    pipe: bool = False
    port: int | None = None
    """Port of the far end of a connection."""
    process: int | None = None
    """PID of the process whose end is awaited."""
    seconds: int | None = None
    """Seconds left of a timer."""
    runs: bool = False
    """Whether a thread of the awaited process, or of the process at the far end, runs: it may work on the answer."""


_ON = re.compile(
    r"tcp \[?[\w.:]+?\]?:(?P<port>\d{1,5})(?:, process .*)?$"
    r"|process (?P<process>\d{1,10})(?: .*)?$"
    r"|its clock for (?P<seconds>[0-9]{1,10}) s more$"
)


@lru_cache(maxsize=4096)
def target_of(waiting_on: str) -> BlockedOn:
    """Parse ``StackDump.waiting_on``."""
    text = waiting_on.removesuffix(RUNS)
    match = _ON.match(text)
    numbers = {name: int(number) for name, number in match.groupdict().items() if number} if match is not None else {}
    return BlockedOn(text.startswith("pipe"), **numbers, runs=text != waiting_on)


class ThreadNote(NamedTuple):
    """A thread in the job's own code that is not the judged one."""

    name: str
    role: Role
    where: str


_MAY_BE_WAITS: frozenset[Kind] = frozenset(("code", "sleep", "checkpoint", "backward", "forward"))
"""Kinds that may hide a wait for the GPU or for other ranks in C code, which may poll with naps."""


class Activity(NamedTuple):
    """What one rank does, from one or several samples of its process and its helpers.

    Rules compare ranks by ``kind``, ``op``, ``waits``, ``meaning`` and ``place``; they quote ``label``, ``where`` and
    ``frames``.
    """

    meaning: Meaning
    waits: Waits
    """From its meaning; for a phase such as a checkpoint, what the frames inside or the kernel show, if known."""
    op: str = ""
    """``all_reduce``, ``barrier``, ``send`` …; empty for other kinds, and if frames show only the wait for a handle."""
    context: frozenset[Phase] = frozenset()
    """Phases around it: a barrier inside a checkpoint is ``collective`` with context ``checkpoint``."""
    world: bool | None = None
    """True: on the default process group; False: on a group that was passed; None: unknown."""
    peer: int | None = None
    """For ``p2p``: the rank that it sends to or receives from, if the arguments name the rank."""
    where: str = ""
    """Innermost user frame, ``read_shard (data.py:88)``; the helper's if the rank waits for a helper; empty without a
    user frame."""
    by_frame: bool = False
    """Whether a library frame shows the wait; else a phase, the kernel (state, system call) or user code does."""
    by_name: bool = False
    """Whether only names in user code, or a read of a file in the kernel, give the kind: a hint, no proof."""
    native: bool = False
    """Whether native frames were read."""
    function: str = ""
    """:attr:`where` without the line: ``read_shard (data.py)``."""
    place: str = ""
    """The folded frames joined by ``;``: ranks with equal places are at the same point of the program. A user frame
    that is itself running has no line here."""
    frames: tuple[str, ...] = ()
    """The folded frames for people, outermost first."""
    cpu: float | None = None
    """Cores in use from the first sample to the last; None if unknown, or if the process wanted a CPU and got none."""
    moving: bool | None = None
    """Whether the frames changed between samples; None with fewer than two samples that have frames."""
    thread: Role = "main"
    """Role of the judged thread: main, or the thread for which main waits."""
    others: tuple[ThreadNote, ...] = ()
    """Threads in the job's own code other than main and the judged thread."""
    beside: Sequence[ThreadWait] = ()
    """In the newest sample: threads other than main that do not sleep at a futex; native threads have no frames."""
    gil: str = ""
    """Name of the thread that holds the GIL in the newest sample."""
    helper_pid: int | None = None
    """PID of the helper (data worker) whose frame ``where`` is; None if the frame is the rank's own."""
    state: str = ""
    """State letter of /proc/PID/stat in the newest sample; ``wchan`` and ``syscall`` are the main thread's."""
    wchan: str = ""
    syscall: str = ""
    waiting_on: str = ""
    """What the system call waits on, as text from the node side; rules use :attr:`target`."""
    error: str = ""
    """Why the newest sample has no frames: ``denied``, ``stopped``, ``gone`` …; ``detail`` says more."""
    detail: str = ""
    readings: tuple[Activity, ...] = ()
    """The activity in each single sample, oldest first; empty in these activities themselves."""
    at: float = 0.0
    """Time of the newest sample."""
    since: float = 0.0
    """Time of the oldest sample in the unbroken run of samples, up to the newest, at this ``place``."""
    carried: float | None = None
    """Bytes per second over its TCP connections in the last samples, or over those of the process whose end it awaits,
    whichever is more; None if unknown."""

    def taken_as(self, meaning: Meaning) -> Activity:
        """The same activity with a meaning from evidence other than its stacks."""
        return self._replace(meaning=meaning, waits=meaning.waits)

    @property
    def kind(self) -> Kind:
        """Kind of its meaning; ``unknown`` if no frame was read."""
        return "unknown" if self.error else self.meaning.kind

    @property
    def label(self) -> str:
        """Short text for people: ``waits in all_reduce``, ``reads data``."""
        if self.peer is not None:
            return f"waits to {'receive from' if 'recv' in self.op else 'send to'} rank {self.peer}"
        return self.meaning.words.format(op=self.op)

    @property
    def needs_native(self) -> bool:
        """Whether a dump with native frames could show what these frames leave open."""
        may_wait = self.waits in ("device", "nothing", "time") and self.kind in _MAY_BE_WAITS
        open_ended = self.waits == "unknown" or (may_wait and not (self.moving and self.waits == "nothing"))
        return open_ended and not (self.by_frame or self.native or self.error)

    @property
    def target(self) -> BlockedOn:
        """What its system call waits on."""
        return target_of(self.waiting_on)
