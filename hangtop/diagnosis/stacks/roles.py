"""What the threads of a rank are there for."""

from __future__ import annotations

from collections.abc import Sequence

from collectors.samples.stacks import Frame, StackDump, ThreadStack
from hangtop.diagnosis.stacks.doing import Role
from hangtop.diagnosis.stacks.frames import function, is_in

_BY_FRAME: tuple[tuple[str, str, Role], ...] = (
    ("torch/utils/data/_utils/pin_memory.py", "_pin_memory_loop", "pin_memory"),
    ("torch/distributed/elastic/timer/", "", "watchdog"),
    ("torch/distributed/elastic/", "", "heartbeat"),
    ("torch/distributed/rendezvous.py", "", "store"),
    ("torch/_inductor/compile_worker/", "", "python"),
)
_NATIVE_ROLES: tuple[tuple[str, Role], ...] = (
    ("c10d::ProcessGroupNCCL::ncclCommWatchdog", "watchdog"),
    ("c10d::ProcessGroupNCCL::watchdogHandler", "watchdog"),
    ("c10d::ProcessGroupNCCL::Watchdog", "watchdog"),
    ("c10d::ProcessGroupNCCL::heartbeatMonitor", "heartbeat"),
    ("c10d::ProcessGroupNCCL::HeartbeatMonitor", "heartbeat"),
    ("c10d::ProcessGroupGloo::runLoop", "gloo"),
    ("gloo::transport::", "gloo"),
    ("c10d::detail::TCPStoreMasterDaemon", "store"),
    ("c10d::detail::LibUVStoreDaemon", "store"),
    ("torch::autograd::Engine::thread_init", "autograd"),
    ("torch::autograd::python::PythonEngine::thread_init", "autograd"),
)
_AUTOGRAD_FILES = (
    "torch/autograd/function.py", "torch/autograd/graph.py", "torch/utils/checkpoint.py", "torch/_functorch/",
    "torch/distributed/fsdp/", "torch/distributed/_composable/", "torch/nn/parallel/distributed.py",
    "torch/distributed/algorithms/ddp_comm_hooks/",
)  # fmt: skip
_STARTED_BY_PYTHON = frozenset(("_bootstrap", "_bootstrap_inner"))


def main_thread(dump: StackDump) -> ThreadStack | None:
    """The main thread of a dump; None when it has none (torn, or no frames at all)."""
    for thread in dump.threads:
        if thread.os_thread_id == dump.pid or thread.name == "MainThread":
            return thread
    # a process that never imported threading names none; the program's first line is on its main thread
    named = [thread for thread in dump.threads if any(frame.name == "<module>" for frame in thread.frames)]
    return named[0] if named else None


def role(thread: ThreadStack, dump: StackDump) -> Role:
    """What a thread of a dump is there for."""
    if thread is main_thread(dump):
        return "main" if dump.pid == dump.rank_pid else "data_worker"
    for frame in thread.frames:
        if frame.native:
            for symbol, meaning in _NATIVE_ROLES:
                if frame.name.startswith(symbol):
                    return meaning
            continue
        for part, name, meaning in _BY_FRAME:
            if is_in(frame.file, part) and name in ("", function(frame.name)):
                return meaning
    return "autograd" if _by_the_engine(thread) else "python"


def _by_the_engine(thread: ThreadStack) -> bool:
    """Autograd's threads are C++'s: Python enters them through hooks, without its own start of a thread."""
    python = [frame for frame in thread.frames if not frame.native]
    if not python or started_by_python(python):
        return False
    return any(is_in(frame.file, part) for frame in python for part in _AUTOGRAD_FILES)


def started_by_python(frames: Sequence[Frame]) -> bool:
    """True for a thread that :mod:`threading` started; False for one of C++ that calls into Python."""
    return any(not frame.native and function(frame.name) in _STARTED_BY_PYTHON for frame in frames)
