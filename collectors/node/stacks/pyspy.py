"""py-spy on this node: where it is, and how it is called."""

from __future__ import annotations

import fcntl
import os
import stat
import zlib
from typing import Iterable, Iterator, List, NamedTuple, Optional

from collectors.node import files

_USUAL = ("/usr/local/bin", "/usr/bin", "/opt/conda/bin", "/opt/venv/bin")


class PySpy(NamedTuple):
    """A py-spy that can be run."""

    path: str
    """Leads to the very file that was looked at, whatever is under its name by now: a descriptor of this process."""
    lent: bool
    """It is in this process's memory, sent by the other side: ours, as nobody else can change it."""
    name: str = ""
    """Where it was found, by links' targets; rules of sudo name it so."""

    @property
    def for_sudo(self) -> str:
        """The path that sudo is given."""
        return self.name or self.path


def find(pids: Iterable[int], given: str = "", proc: str = "/proc") -> Optional[PySpy]:
    """Look beside the interpreters of these processes, on PATH and in the usual places; None when there is none.

    ``given`` is a path that the user named: nothing else is looked at then, and it need not be ours.
    """
    if given:
        return _opened(given, named=True)
    folders: List[str] = []
    for pid in pids:
        folders.extend(_beside(pid, proc))
    folders.extend(os.environ.get("PATH", "").split(":"))
    folders.append(os.path.join(os.path.expanduser("~"), ".local/bin"))
    folders.extend(_USUAL)
    for folder in dict.fromkeys(folders):
        if folder.startswith("/"):
            found = _opened(os.path.join(folder, "py-spy"), named=False)
            if found is not None:
                return found
    return None


def _beside(pid: int, proc: str) -> Iterator[str]:
    """Folders of a process's interpreter: a virtual environment shows in its command and environment alone."""
    folder = "%s/%d" % (proc, pid)
    command = files.text((files.read_or_none(folder + "/cmdline") or b"").partition(b"\0")[0])
    if command.startswith("/"):
        yield os.path.dirname(command)
    for entry in (files.read_or_none(folder + "/environ") or b"").split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name in (b"VIRTUAL_ENV", b"CONDA_PREFIX"):
            yield os.path.join(files.text(value), "bin")
    executable = files.link(folder + "/exe")
    if executable:
        yield os.path.dirname(executable)


def _opened(path: str, *, named: bool) -> Optional[PySpy]:
    """The program under this name, if nobody but root and this user could have put it there, or the user named it.

    The folder of a rank's interpreter belongs to the rank's user, and this side may run as root. What is looked at is
    what will be run: it is opened first.
    """
    real = os.path.realpath(path)
    if not named and not (files.is_ours(path) and files.is_ours(real)):
        return None
    try:
        descriptor = os.open(real, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    # by number of this process: children close the descriptor, and sudo runs as another user
    opened = "/proc/%d/fd/%d" % (os.getpid(), descriptor)
    if stat.S_ISREG(os.fstat(descriptor).st_mode) and os.access(opened, os.X_OK):
        return PySpy(opened, False, real)
    os.close(descriptor)
    return None


def borrow(compressed: bytes) -> PySpy:
    """Put a py-spy that was sent along into memory, where it can be run; nothing is written on a disk.

    Raises :class:`OSError` where the kernel allows no such memory, :class:`zlib.error` for a broken one.
    """
    descriptor = os.memfd_create("py-spy", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    view = memoryview(zlib.decompress(compressed))
    while view:
        view = view[os.write(descriptor, view) :]
    os.fchmod(descriptor, 0o700)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    return PySpy("/proc/%d/fd/%d" % (os.getpid(), descriptor), True)


def dump_command(path: str, pid: int, method: str, with_locals: bool) -> List[str]:
    """Words of one dump. ``method`` as in :class:`collectors.samples.stacks.StackDump`."""
    words = [path, "dump", "--json", "--pid", str(pid)]
    if method == "nonblocking":
        words.append("--nonblocking")
    if method == "native":
        words.append("--native")
    if with_locals:
        words.append("--locals")
    return words


def record_command(path: str, pid: int, seconds: float, rate: int, output: str) -> List[str]:
    """Words that sample a process and write folded stacks; waiting threads count too: waits are what one seeks."""
    return [
        path, "record", "--nonblocking", "--idle", "--threads", "--full-filenames", "--format", "raw",
        "--rate", str(rate), "--duration", str(max(1, round(seconds))), "--pid", str(pid), "--output", output,
    ]  # fmt: skip
