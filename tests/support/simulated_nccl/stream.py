"""A rank's GPU as its host sees it: kernels are launched and forgotten, and the host waits for them below Python."""

from __future__ import annotations

import ctypes
import functools
import mmap
from collections.abc import Callable
from pathlib import Path

import torch.distributed as dist
from torch import Tensor

from hangtop.demo.job.device import KernelKind, shared_record

LAUNCH_QUEUE = 1024
"""Kernels that may be launched and not done, about as many as a CUDA driver allows."""


class SimulatedStream:
    """The one stream of this rank's GPU.

    ``compute`` and ``all_reduce`` launch and return at once; ``item`` spins in C until all is done. With LAUNCH_QUEUE
    kernels under way each of the former blocks in ``cudaLaunchKernel``.
    """

    def __init__(self, library: Path, memory: int) -> None:
        """``library`` is what :func:`tests.support.simulated_nccl.library.build` made; ``memory`` in bytes is held."""
        self._record = shared_record(memory)
        self._native = ctypes.CDLL(str(library))
        self._native.cudaLaunchKernel.argtypes = (ctypes.c_int, ctypes.c_double)
        self._native.cudaLaunchKernel.restype = ctypes.c_long
        self._native.collectiveEnded.argtypes = (ctypes.c_long,)
        starter = ctypes.CFUNCTYPE(None, ctypes.c_long)
        self._start = starter(self._start_collective)  # kept: C calls it
        self._native.openDevice.argtypes = (ctypes.c_void_p, ctypes.c_long, starter)
        self._native.openDevice(_address(self._record), LAUNCH_QUEUE, self._start)
        self._waiting: list[Callable[[], dist.Work]] = []
        launch = self._native.cudaLaunchKernel
        self.compute: Callable[[float], int] = functools.partial(launch, KernelKind.COMPUTES)
        """Launch a kernel that computes for so many seconds."""
        self.item: Callable[[], object] = self._native.cudaStreamSynchronize
        """What ``.item()`` of a tensor on the GPU does: no frame of Python's is below its caller's."""

    def hang(self) -> None:
        """Launch a kernel that never ends."""
        self._native.cudaLaunchKernel(KernelKind.HANGS, 0.0)

    def all_reduce(self, tensor: Tensor, group: dist.ProcessGroup | None) -> None:
        """Launch an all-reduce of a tensor in a group."""
        self._waiting.append(lambda: dist.all_reduce(tensor, group=group, async_op=True))
        self._native.cudaLaunchKernel(KernelKind.COLLECTIVE, 0.0)

    def _start_collective(self, ticket: int) -> None:
        """Put the next collective on its way; called by the thread that runs the kernels."""
        try:
            work = self._waiting.pop(0)()
        except RuntimeError as error:
            # a peer is gone: over NVLink nothing tells the kernel, it goes on spinning
            print(f"[rank{dist.get_rank()}] {error}", flush=True)
            return

        def ended(future: object) -> None:
            try:
                future.value()  # type: ignore[attr-defined]
            except RuntimeError:
                return  # as above
            self._native.collectiveEnded(ticket)

        work.get_future().then(ended)


def _address(record: mmap.mmap | bytearray) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(record))
