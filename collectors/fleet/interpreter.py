"""Which Python a node has: python3, python3.X, the interpreter of a rank that runs there, or none."""

from __future__ import annotations

from typing import NamedTuple

from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import Transport

OLDEST = (3, 8)
_DEADLINE = 20.0

# Lines "python VERSION PATH" for every interpreter that runs, and "host WORD VALUE" for what Hello wants to know. Names
# are asked first; only when none will do are the executables of running processes looked at, once each.
_SCRIPT = r"""
try() {
  v=$("$1" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null) && echo "python $v $1"
}
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python; do
  path=$(command -v "$name" 2>/dev/null) && try "$path"
done
ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's/.* -> \(\/.*python[0-9.]*\)$/\1/p' | sort -u |
while IFS= read -r path; do
  try "$path"
done
echo "host node $(uname -n)"
echo "host kernel $(uname -r)"
echo "host machine $(uname -m)"
echo "host uid $(id -u)"
echo "host boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
"""


class Found(NamedTuple):
    """What a node has to offer."""

    python: str
    """Path of the first interpreter that is new enough; empty when there is none."""
    older: str
    """The newest that is too old, ``3.6 (/usr/bin/python3)``; empty when there is none."""
    host: dict[str, str]
    """``node``, ``kernel``, ``machine``, ``uid``, ``boot``, as far as the node tells; empty when no shell ran there."""
    noise: str
    """Last line that it printed and that was not asked for."""

    @property
    def why(self) -> str:
        """Why no program of ours can run there."""
        needed = ".".join(map(str, OLDEST))
        return f"its Python is {self.older}: {needed} or newer is needed" if self.older else "no Python there"


async def find(transport: Transport) -> Found:
    """Look for an interpreter, with one command. Raises :class:`~collectors.fleet.transport.TransportError`."""
    done = await transport.run(["sh", "-c", _SCRIPT], timeout=_DEADLINE, limit=1 << 16)
    return read(clean_bytes(done.stdout))


def read(text: str) -> Found:
    """Read what the script printed; lines of other making (a talkative shell profile) are passed over."""
    host: dict[str, str] = {}
    older: list[tuple[tuple[int, int], str]] = []
    chosen = noise = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        key, _, value = rest.partition(" ")
        if word == "host" and value:
            host[key] = value
        elif word == "python" and (version := _version(key)) is not None and value.startswith("/"):
            if version < OLDEST:
                older.append((version, value))
            elif not chosen:
                chosen = value
        elif line.strip() and not (word == "host" and key):
            noise = line.strip()[:300]
    said = "{0[0]}.{0[1]} ({1})".format(*max(older)) if older else ""
    return Found(chosen, said, host, noise)


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    return (int(major), int(minor)) if major.isdecimal() and minor.isdecimal() else None
