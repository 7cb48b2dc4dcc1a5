"""Functions of MPI in which a rank waits, by the names of the standard (4.1): any library has them, for any caller.

"run" was seen with Open MPI 5.0.10 under mpi4py, whose own functions are no Python frames: only native ones show them.
"""

from __future__ import annotations

from hangtop.diagnosis.stacks.doing import Kind, Waits
from hangtop.diagnosis.stacks.vocabulary import NativeWait

_COLLECTIVE = {
    "Allreduce": "all_reduce", "Allgather": "all_gather", "Alltoall": "all_to_all", "Barrier": "barrier",
    "Bcast": "broadcast", "Exscan": "scan", "Gather": "gather", "Neighbor_": "neighbor_exchange",
    "Reduce_scatter": "reduce_scatter", "Reduce": "reduce", "Scan": "scan", "Scatter": "scatter",
    "Win_fence": "win_fence", "Comm_dup": "comm_dup", "Comm_split": "comm_split", "Comm_create": "comm_create",
    "File_open": "file_open", "File_close": "file_close", "PyMPI_reduce_p2p": "reduce",
    "PyMPI_bcast_p2p": "broadcast", "PyMPI_scan_p2p": "scan", "PyMPI_exscan_p2p": "scan",
}  # fmt: skip
"""Beginnings of names; those with a longer one come first. ``Allgatherv`` is told as ``Allgather``. The last four are
mpi4py's own, which makes them of sends and receives where objects are to be reduced."""
_BETWEEN_TWO = {
    "Sendrecv": "sendrecv", "Send": "send", "Ssend": "send", "Rsend": "send", "Bsend": "send", "Recv": "recv",
    "Mrecv": "recv", "Probe": "recv", "Mprobe": "recv",
}  # fmt: skip
_BEGUN_EARLIER = ("Wait", "Win_wait", "Win_lock", "Win_flush", "Win_complete")
_START, _END = ("Init", "Comm_spawn", "Comm_accept", "Comm_connect", "Intercomm_create"), ("Finalize", "Abort")


def _rows(name: str, kind: Kind, waits: Waits, label: str, op: str) -> tuple[NativeWait, ...]:
    """As the library calls it, and as its profiling interface does, which is what a stack shows as a rule."""
    return tuple(NativeWait(f"{p}MPI_{name}", kind, waits, label, "run Open MPI 5.0; MPI 4.1", op) for p in ("P", ""))


MPI_WAITS: tuple[NativeWait, ...] = (
    *(row for name, op in _COLLECTIVE.items() for row in _rows(name, "collective", "peers", "waits in {op} (MPI)", op)),
    *(row for name, op in _BETWEEN_TWO.items() for row in _rows(name, "p2p", "peers", "waits in {op} (MPI)", op)),
    *(row for name in _BEGUN_EARLIER
      for row in _rows(name, "collective", "peers", "waits for an operation of MPI begun earlier", "")),
    *(row for name in _START for row in _rows(name, "init", "peers", "waits in {op}", f"MPI_{name}")),
    *(row for name in _END for row in _rows(name, "shutdown", "unknown", "has left training: in {op}", f"MPI_{name}")),
)  # fmt: skip
