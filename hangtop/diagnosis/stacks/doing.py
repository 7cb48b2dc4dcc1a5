"""What one rank is doing, as its stacks tell: the words that the stacks' reading and the rules share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

from collectors.samples.stacks import Frame

Kind = Literal[
    "collective",
    "p2p",
    "store",
    "init",
    "shutdown",
    "device",
    "data",
    "checkpoint",
    "lock",
    "compile",
    "evaluation",
    "sleep",
    "backward",
    "forward",
    "code",
    "unknown",
]
"""What a stack means.

``collective`` and ``p2p`` (``op`` says which), ``store`` (a TCPStore wait, a rendezvous), ``init`` (inside
init_process_group or communicator setup), ``shutdown`` (destroy_process_group, atexit: it left training), ``device``
(synchronize, ``.item()``: waits for its own GPU, whatever that waits for), ``data``, ``checkpoint``, ``lock`` (lock,
semaphore, queue, future), ``compile``, ``evaluation``, ``sleep``, ``backward`` and ``forward`` (inside autograd or a
wrapper's forward, and the Python frames cannot tell whether it computes or waits in a collective there), ``code``
(anywhere else in user code), ``unknown`` (no frames; ``error`` says why).
"""

Waits = Literal["peers", "device", "storage", "helper", "lock", "time", "nothing", "unknown"]
"""Whom it waits for: other ranks, its own GPU, storage or network, a process or thread of its own, a lock, a timer.

``nothing`` means that it computes; ``unknown`` that the frames do not tell.
"""

Cpu = Literal["busy", "blocked", "mixed", "unknown"]
"""Growth of its CPU time between looks: over half a core, under a twentieth, between, or only one look."""

Role = Literal["main", "autograd", "watchdog", "heartbeat", "gloo", "pin_memory", "data_worker", "store", "python"]
"""What a thread is there for. ``data_worker`` is the main thread of a forked worker; ``python`` a thread of the job."""

Context = Literal[
    "forward",
    "backward",
    "optimizer",
    "data",
    "checkpoint",
    "evaluation",
    "compile",
    "init",
    "shutdown",
    "serving",
    "joined",
]
"""A phase that the stack is inside of; ``serving``: what a library's server was asked for."""

Group = Literal["", "data", "shard", "tensor", "pipeline", "expert", "context"]
"""Which process group an operation belongs to, as far as its callers tell; empty when they do not."""


@dataclass(frozen=True, slots=True)
class ThreadNote:
    """Another thread of the process that is in the job's own code. ``waits`` as in :class:`Activity`."""

    name: str
    role: Role
    where: str
    waits: Waits
    owns_gil: bool


class Activity(NamedTuple):
    """What one rank is doing, from one or several looks at its process and its helpers.

    Rules compare ranks by ``kind``, ``op``, ``waits`` and ``place``; they quote ``label``, ``where`` and ``frames``.
    """

    kind: Kind
    op: str
    """``all_reduce``, ``barrier``, ``send`` …; empty for other kinds, and where only the wait for it is to be seen."""
    label: str
    """For people: ``waits in all_reduce``, ``reads data``, ``waits for a lock``."""
    waits: Waits
    context: frozenset[Context]
    """Every phase that the stack is inside of: a barrier inside a save is ``collective`` within ``checkpoint``."""
    group: Group
    world: bool | None
    """True: on the default process group; False: a group was handed in; None: the frames do not tell."""
    peer: int | None
    """For ``p2p``: the rank it sends to or receives from, where the arguments tell."""
    frame: Frame | None
    """Innermost user frame; in a data worker when the parent waits for it."""
    where: str
    """That frame as ``read_shard (data.py:88)``; empty without one."""
    decided_by: Frame | None
    """The frame that gave the meaning; None when the kernel's side (state, syscall) did, or the user frame itself."""
    place: str
    """The folded frames joined by ``;``: ranks with equal places are at the same point of the program."""
    frames: tuple[str, ...]
    """The folded frames for people, outermost first."""
    cpu: Cpu
    moving: bool | None
    """Whether the frames changed between looks; None with fewer than two looks that have frames."""
    thread: Role
    """Role of the thread that was judged: main, or the autograd thread that main waits for."""
    others: tuple[ThreadNote, ...]
    """Other threads in the job's own code."""
    gil: ThreadNote | None
    """The thread that holds the GIL in the newest look."""
    holder: ThreadNote | None
    """For ``lock``: the thread that most likely holds it, where the threads show one."""
    helper_pid: int | None
    """The helper (data worker) whose frames ``where`` shows; None when they are the rank's own."""
    by_name: bool
    """Names in the user's own code, or which way a file goes, alone gave the kind: a hint, no proof."""
    native_would_tell: bool
    """Another dump with native frames could settle what these frames leave open."""
    state: str
    """Letter of /proc/PID/stat in the newest look."""
    wchan: str
    syscall: str
    """System call that the main thread is in, as in :class:`~collectors.samples.stacks.StackDump`."""
    waiting_on: str
    """File or socket that the call waits on."""
    error: str
    """First word (``denied``, ``stopped``, ``gone`` …) when the newest look has no frames; empty otherwise."""
    said: str
    """What was said with ``error``."""
    looks: int
    at: float
    """Time of the newest look."""
    since: float
    """Time of the oldest look of the unbroken run, up to the newest, with this same ``place``."""
    second: str
    """A collective in which another of its threads waits at the same time, and which thread; empty as a rule."""
    carried: float | None
    """Bytes per second that its TCP connections carried between the last two looks, or those of the one process for
    whose end it waits, where they are more; None where that is not told."""
    in_library: bool = False
    """Its own code calls a library there that may compute, in the newest look: none that tells of the process group."""
    root: int | None = None
    """For a collective of the whole job: the rank that it begins or ends at, where the arguments tell."""
    within: float | None = None
    """Seconds from its beginning after which the wait for a child ends by itself, where the arguments tell."""

    @property
    def waits_for_peers(self) -> bool:
        """True while it waits for other ranks: a crowd, not a culprit."""
        return self.waits == "peers"
