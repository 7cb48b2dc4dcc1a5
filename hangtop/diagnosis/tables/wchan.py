"""What a process in state D waits for, by the kernel function that it sleeps in.

Names are functions of the kernel's own sources (fs/nfs, fs/fuse, mm, block, kernel/locking) and of NVIDIA's and
Mellanox's open modules; only prefixes are compared, since compilers append suffixes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple


class Sleep(NamedTuple):
    """What a sleep means, and whether it ends by itself in a healthy system, however long it takes."""

    meaning: str
    ordinary: bool


_BEGINNINGS: tuple[tuple[tuple[str, ...], str, bool], ...] = (
    (("nfs", "rpc_", "__rpc"), "the NFS server does not answer", False),
    (("fuse_", "request_wait_answer", "__fuse"), "a FUSE file system (object store mount) does not answer", False),
    (("ll_", "cl_", "osc_", "ldlm_", "ptlrpc", "obd_", "cxi", "gpfs", "mmfs", "kxWait", "ceph", "p9_", "v9fs"),
     "the parallel file system does not answer", False),
    (("nv_", "nvidia", "_nv", "os_acquire", "uvm_", "rm_"), "NVIDIA's driver does not answer", False),
    (("mlx5", "ib_", "rdma_", "uverbs"), "the InfiniBand driver does not answer", False),
    (("io_schedule", "blk_", "bit_wait_io", "wait_on_page", "folio_wait", "jbd2", "ext4", "xfs_", "btrfs",
      "submit_bio", "sync_", "balance_dirty"), "waits for a disk or its file system", True),
    (("vfork", "wait_for_vfork"), "waits for a child of vfork", True),
    (("kernel_clone", "_do_fork"), "starts a program whose mount may not answer", False),
    (("rwsem_", "down_read", "down_write", "mmap_"), "waits for a lock of its address space", True),
    (("percpu_rwsem", "percpu_down", "__percpu_down", "sb_start", "__sb_start"), "waits as on a frozen file system",
     True),
    (("throttle", "mem_cgroup"), "its cgroup is out of memory", False),
)  # fmt: skip


_CALLS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("hrtimer_nanosleep", "do_nanosleep"), "clock_nanosleep"),
    (("futex_",), "futex"),
    (("do_wait", "kernel_wait"), "wait4"),
    (("pipe_read", "anon_pipe_read"), "read"),
    (("pipe_write", "anon_pipe_write"), "write"),
    (("wait_for_partner", "fifo_open"), "openat"),
    (("inet_csk_accept", "inet_csk_wait_for_connect"), "accept"),
    (("sk_wait_data", "unix_stream_read_generic", "unix_stream_data_wait"), "recvfrom"),
    (("sk_stream_wait_memory", "sock_alloc_send"), "sendto"),
    (("ep_poll",), "epoll_wait"),
    (("poll_schedule_timeout", "do_poll", "do_sys_poll"), "poll"),
    (("do_select", "core_sys_select"), "select"),
    (("flock_lock_inode_wait", "locks_lock_inode_wait"), "flock"),
    (("fcntl_setlk", "do_lock_file_wait"), "fcntl"),
)
"""The system calls that sleep in these functions. kernel/time/hrtimer.c, kernel/futex, kernel/exit.c, fs/pipe.c,
fs/fifo.c, net/ipv4, net/core, net/unix, fs/eventpoll.c, fs/select.c, fs/locks.c"""


@lru_cache(maxsize=1024)  # thousands of ranks sleep in the same few
def call_at(wchan: str) -> str:
    """Name the system call of a thread that sleeps in this kernel function; empty if unknown or ambiguous.

    The function may be readable where the system call is not.
    """
    return next((call for starts, call in _CALLS if wchan.startswith(starts)), "")


_FREEZERS = ("__refrigerator", "refrigerator", "do_freezer_trap", "cgroup_enter_frozen", "cgroup_freezing")
"""Where a process sleeps that its control group has frozen: in state D by version 1, in S by version 2 (``docker
pause``, ``systemctl freeze``, a batch system that suspends a job). kernel/freezer.c, kernel/signal.c,
kernel/cgroup/freezer.c"""


def is_frozen(wchan: str) -> bool:
    """Whether a process that sleeps there is frozen by its control group."""
    return wchan.startswith(_FREEZERS)


def sleep_at(wchan: str) -> Sleep:
    """What a sleep in this kernel function means; one in an unknown function counts as not ordinary."""
    known = (Sleep(meaning, ordinary) for starts, meaning, ordinary in _BEGINNINGS if wchan.startswith(starts))
    return next(known, Sleep("", ordinary=False))
