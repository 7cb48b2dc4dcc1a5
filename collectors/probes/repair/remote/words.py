"""What the programs on the nodes say: one NamedTuple per kind of line, as in ``collectors.samples``."""

from __future__ import annotations

from typing import List, NamedTuple


class Curable(NamedTuple):
    """A process that can be helped: an orphan that can be ended, or a stopped one that can go on."""

    what: str
    """``orphan``, ``stopped``, or ``end`` in the line that ends the answer."""
    pid: int
    start_ticks: int
    """Clock ticks after boot at which it started: with the pid, its identity."""
    started: float
    """The same, by the node's wall clock."""
    rank: int
    role: str
    """``rank``, ``helper``, ``wrapper``, ``stray`` (a helper whose rank is gone) or ``launcher``."""
    user: str
    run_id: str
    launcher: str
    """``torchrun``, ``slurm``, ``mpi`` or ``env``."""
    command: str
    state: str
    ports: List[int]
    """TCP ports that it listens on."""
    sure: bool
    """False where its run may still be at work for all that this node shows."""
    why: str


class Signalled(NamedTuple):
    """What became of one process that a signal was meant for."""

    pid: int
    outcome: str
    """``terminated``, ``killed``, ``continued``; ``gone`` and ``reused`` (its pid is another's now: nothing was sent);
    ``denied``, ``survived``; ``end`` in the line that ends the answer."""
    text: str


class PortsInUse(NamedTuple):
    """The TCP ports of a node that are not free, and those that the kernel gives to clients."""

    lowest: int
    highest: int
    """net.ipv4.ip_local_port_range."""
    reserved: str
    """net.ipv4.ip_local_reserved_ports, ``29500-29510,30000``: not given to clients although inside the range."""
    ports: List[int]
    """Local ports of every TCP socket, TIME_WAIT among them."""
    error: str
