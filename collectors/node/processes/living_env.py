"""The environment of a process as it is now, read from its memory.

/proc/PID/environ shows the memory in which the kernel laid down the environment at exec. What the process sets later
(``os.environ["RANK"] = "3"`` calls libc's ``setenv``) is elsewhere, and a program that writes a title over its command
line (setproctitle) destroys the old place. libc's own variable ``environ`` always points at the true one. It is found
in the symbol table of libc or, where the linker gave the program a copy of it, of the program (ELF-64 and the
relocation type R_*_COPY of the System V ABI), and read through /proc/PID/mem: that needs the right to trace the
process, stops nothing and changes nothing. What is read may be torn while the process writes to it; every read is
bounded.
"""

from __future__ import annotations

import os
import re
import struct
from typing import AbstractSet, Dict, List, NamedTuple, Optional, Set, Tuple

from collectors.node.blocking import BlockingGuard
from collectors.node.files import opened, read
from collectors.node.processes.memory import memory_of

VARIABLES = 4096
"""Entries of an environment that are read."""
ENTRY = 4096
"""Bytes of one entry that are read: no name on the list of what is kept has a longer value worth having."""
TOTAL = 1 << 19
"""Bytes of memory that are read for one environment."""
PAGE = 4096

_NAME = b"environ\0"
_LIBC = re.compile(rb"/(?:libc\.so\.6|libc-2\.\d+\.so|ld-musl-\w+\.so\.1|libc\.musl-\w+\.so\.1)$")
_MAPPING = re.compile(rb"^([0-9a-f]+)-[0-9a-f]+ \S+ 0+ \S+ \d+ +(/[^\n]*)$", re.M)
_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_PROGRAM = struct.Struct("<IIQQQQQQ")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_LOAD, _DYNSYM, _FIXED = 1, 11, 2
_TABLE_LIMIT = 4 << 20
"""Bytes of a table of symbols or of their names: libc has 100 KB, a Python that is linked statically ten times that."""
_PLACES = 64
"""Places of the name in such a table; each file has three."""
_FILES = 4096
"""Files that are remembered."""


MAPS_LIMIT = 8 << 20


class LivingEnvironment:
    """Reads environments of processes again and again; remembers where each has it."""

    def __init__(self, proc: str, reader: "BlockingGuard[bytes]") -> None:
        self._proc = proc
        self._reader = reader
        self._addresses: Dict[int, int] = {}

    def keep(self, present: AbstractSet[int]) -> None:
        """Forget processes that are gone."""
        for pid in [pid for pid in self._addresses if pid not in present]:
            del self._addresses[pid]

    def read(self, pid: int) -> bytes:
        """The entries as in /proc/PID/environ; empty where they cannot be read."""
        name = "%s/%d/mem" % (self._proc, pid)
        answer = self._reader.ask({name: lambda: self._read(pid)}).get(name)
        return answer if isinstance(answer, bytes) else b""

    def _read(self, pid: int) -> bytes:
        known = self._addresses.get(pid)
        if known is not None:
            try:
                found = read_environment(self._proc, pid, known)
            except OSError:
                found = b""
            if b"=" in found:
                return found
            del self._addresses[pid]  # it runs another program since: exec changes the address
        address = address_of_environ(self._proc, pid, read("%s/%d/maps" % (self._proc, pid), MAPS_LIMIT))
        if address is None:
            return b""
        self._addresses[pid] = address
        return read_environment(self._proc, pid, address)


class Variable(NamedTuple):
    """Where a file keeps ``environ``, as its symbol table has it."""

    address: int
    fixed: bool
    """The address is that in memory; else it counts from where the file's first segment was put."""


_known: Dict[Tuple[int, int, int, int], Optional[Variable]] = {}


def address_of_environ(proc: str, pid: int, maps: bytes) -> Optional[int]:
    """Address of ``environ`` in a process, given its /proc/PID/maps; None where no symbol table tells it.

    Raises :class:`OSError` where the process or its files may not be read.
    """
    base = "%s/%d" % (proc, pid)
    program = os.fsencode(os.readlink(base + "/exe"))
    libc: Optional[Tuple[int, bytes]] = None
    start: Optional[int] = None
    for place, path in _MAPPING.findall(maps):
        if path == program and start is None:
            start = int(place, 16)
        if libc is None and _LIBC.search(path):
            libc = int(place, 16), path
    own = _variable(base + "/exe")
    if own is not None and (own.fixed or start is not None):
        return own.address + (0 if own.fixed else start or 0)
    if libc is None:
        return None
    found = _variable(base + "/root" + os.fsdecode(libc[1]))
    return None if found is None else libc[0] + found.address


def read_environment(proc: str, pid: int, address: int) -> bytes:
    """The entries, each ended by NUL as in /proc/PID/environ; empty where the pointer leads nowhere.

    Raises :class:`OSError` where the memory may not be read, or where ``address`` is none of the process any more.
    """
    with memory_of("%s/%d" % (proc, pid)) as memory:
        return _entries(_Memory(memory), address)


class _Memory:
    """Memory of a process, read by the page: the entries of an environment are neighbours as a rule."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._pages: Dict[int, bytes] = {}
        self._left = TOTAL

    def read(self, address: int, size: int) -> bytes:
        """Bytes from an address on; fewer where the memory or the budget ends. Raises :class:`OSError` for none."""
        parts: List[bytes] = []
        while size > 0:
            page, inside = address - address % PAGE, address % PAGE
            if page not in self._pages:
                if self._left <= 0:
                    break
                self._left -= PAGE
                self._pages[page] = os.pread(self._descriptor, PAGE, page)
            part = self._pages[page][inside : inside + size]
            if not part:
                break
            parts.append(part)
            address, size = address + len(part), size - len(part)
        return b"".join(parts)

    def entry(self, address: int) -> bytes:
        """Text up to NUL; empty where there is none to read."""
        parts: List[bytes] = []
        size = 0
        while size < ENTRY:
            try:
                part = self.read(address + size, PAGE - (address + size) % PAGE)
            except (OSError, OverflowError):
                return b""
            text, ended, _ = part.partition(b"\0")
            parts.append(text)
            size += len(text)
            if ended or not part:
                break
        return b"".join(parts)


def _entries(memory: _Memory, address: int) -> bytes:
    pointer = memory.read(address, 8)
    if len(pointer) < 8:
        return b""
    table = int.from_bytes(pointer, "little")
    if not table:
        return b""
    found: List[bytes] = []
    for number in range(VARIABLES):
        try:
            raw = memory.read(table + 8 * number, 8)
        except (OSError, OverflowError):
            break  # no table: the process has ended, or runs another program since
        entry = int.from_bytes(raw, "little")
        if len(raw) < 8 or not entry:
            break
        found.append(memory.entry(entry) + b"\0")
    return b"".join(found)


def _variable(path: str) -> Optional[Variable]:
    """``environ`` in the dynamic symbols of a file; None where it is not defined there. Remembered by inode."""
    status = os.stat(path)
    key = status.st_dev, status.st_ino, status.st_size, int(status.st_mtime)
    if key not in _known:
        if len(_known) >= _FILES:
            _known.clear()
        descriptor = opened(path)
        try:
            _known[key] = _search(descriptor)
        except (struct.error, IndexError, OverflowError):
            _known[key] = None  # no ELF file, or a torn one
        finally:
            os.close(descriptor)
    return _known[key]


def _search(file: int) -> Optional[Variable]:
    header = _HEADER.unpack(os.pread(file, _HEADER.size, 0))
    ident, kind = header[0], header[1]
    if ident[:6] != b"\x7fELF\x02\x01":  # 64 bits, little-endian
        return None
    programs, sections = header[5], header[6]
    program_count, section_count = header[10], header[12]
    first: Optional[int] = None
    for number in range(program_count):
        row = _PROGRAM.unpack(os.pread(file, _PROGRAM.size, programs + number * _PROGRAM.size))
        if row[0] == _LOAD and first is None:
            first = row[3] - row[3] % PAGE
    rows = [
        _SECTION.unpack(os.pread(file, _SECTION.size, sections + number * _SECTION.size))
        for number in range(section_count)
    ]
    tables = [row for row in rows if row[1] == _DYNSYM and row[5] <= _TABLE_LIMIT]
    if not tables:
        return None
    row = tables[0]  # there is one; whoever made the file may say that there are more
    strings = rows[row[6]]
    offsets = _name_offsets(os.pread(file, min(strings[5], _TABLE_LIMIT), strings[4]))
    symbols = os.pread(file, row[5] - row[5] % _SYMBOL.size, row[4])
    for name, _, _, section, value, _ in _SYMBOL.iter_unpack(symbols):
        if name in offsets and section:
            return Variable(value if kind == _FIXED else value - (first or 0), kind == _FIXED)
    return None


def _name_offsets(strings: bytes) -> Set[int]:
    """Offsets at which a table of strings has ``environ``, ``_environ`` or ``__environ``; tails are shared in it."""
    found: Set[int] = set()
    at = strings.find(_NAME)
    while at >= 0 and len(found) < _PLACES:
        begin = at
        while begin > 0 and strings[begin - 1 : begin] == b"_" and at - begin < 2:
            begin -= 1
        if strings[begin - 1 : begin] in (b"\0", b""):
            found.update(range(begin, at + 1))
        at = strings.find(_NAME, at + 1)
    return found
