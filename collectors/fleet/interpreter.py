"""Which Python a node has: python3, python3.X, that of a process that runs there, or none.

Others run code on a node, and this login may be root there. Whatever is not on its own PATH is therefore run as the
owner of the process that runs it, or not at all: by setpriv, runuser or su, whichever the node has.

An interpreter is a text: the path, or, where another program must start it, all words separated by NUL, which no path
can hold.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import Transport, TransportError

T = TypeVar("T")

OLDEST = (3, 8)
_DEADLINE = 20.0
_SEPARATOR = "\0"

_AS_OWNER: dict[str, tuple[str, ...]] = {
    "setpriv": ("setpriv", "--reuid={uid}", "--regid={gid}", "--clear-groups", "--inh-caps=-all", "--no-new-privs"),
    "runuser": ("runuser", "-u", "{user}", "--"),
    "su": ("su", "-s", "/bin/sh", "-c", 'exec "$0" "$@"', "--", "{user}"),
}
"""Words in front of a path that start it as somebody else; the script below has the same. util-linux has all three,
setpriv alone asks no session of PAM."""

_CLEAN = ("env", "-i", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
"""What root's login has in its environment is nobody else's business."""

# Lines "host WORD VALUE" for what Hello wants to know, then "python VERSION PATH" and "owned VERSION HOW UID GID USER
# PATH" for what runs, until one is new enough. "-ef" holds only if the path leads to the very file that the process
# runs, here and now: not in a container, not since replaced. The real, effective, saved and file system's uid must be
# one, else the process has more rights than who started it. A root's interpreter must lie where root alone can write.
# What hangs is given two seconds, and four are tried at most.
_SCRIPT = r"""
me=$(id -u)
wait=; timeout 2 true 2>/dev/null && wait="timeout 2"
version() {
  v=$("$@" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null) || return 1
  case $v in ''|*[!0-9.]*) return 1 ;; esac
}
enough() { case $v in 3.[89]|3.[1-9][0-9]|[4-9].*) return 0 ;; esac; return 1; }
as_owner() {
  how=$1 uid=$2 gid=$3 user=$4; shift 4
  case $how in
    setpriv) set -- setpriv --reuid="$uid" --regid="$gid" --clear-groups --inh-caps=-all --no-new-privs "$@" ;;
    runuser) set -- runuser -u "$user" -- "$@" ;;
    su) set -- su -s /bin/sh -c 'exec "$0" "$@"' -- "$user" "$@" ;;
  esac
  $wait env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "$@"
}
roots_alone() {
  place=$1
  while :; do
    set -- $(ls -ldnL "$place" 2>/dev/null) || return 1
    [ "$3" = 0 ] || return 1
    case $1 in ?????w*|????????w*) return 1 ;; esac
    [ "$place" = / ] && return 0
    place=${place%/*}; place=${place:-/}
  done
}
try_owned() {
  for how in setpriv runuser su; do
    command -v $how >/dev/null 2>&1 || continue
    user=; [ $how = setpriv ] || user=$(id -nu "$uid" 2>/dev/null) || continue
    as_owner $how "$uid" "$gid" "$user" true >/dev/null 2>&1 </dev/null || continue
    version as_owner $how "$uid" "$gid" "$user" "$path" || return 1
    echo "owned $v $how $uid $gid ${user:--} $path"
    enough; return
  done
  return 1
}
try_running() {
  uid= gid=
  while read -r key a b c d; do
    case $key in
      Uid:) [ "$a $a $a" = "$b $c $d" ] || return 1; uid=$a ;;
      Gid:) [ "$a $a $a" = "$b $c $d" ] || return 1; gid=$a; break ;;
    esac
  done 2>/dev/null <"/proc/$pid/status"
  case $uid$gid in ''|*[!0-9]*) return 1 ;; esac
  [ "/proc/$pid/exe" -ef "$path" ] || return 1
  case $tried in *"|$uid $path|"*) return 1 ;; esac
  tried="$tried|$uid $path|" left=$((left - 1))
  if [ "$uid" = "$me" ]; then
    [ "$me" != 0 ] || roots_alone "$path" || return 1
    version $wait "$path" && echo "python $v $path" && enough
  else
    [ "$me" = 0 ] && try_owned
  fi
}
search() {
  for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8 python; do
    path=$(command -v "$name" 2>/dev/null) && version $wait "$path" && echo "python $v $path" && enough && return
  done
  tried= left=4
  ls -l /proc/[0-9]*/exe 2>/dev/null | sed -n 's|.* /proc/\([0-9]*\)/exe -> \(/.*python[0-9.]*\)$|\1 \2|p' |
  while IFS=' ' read -r pid path; do
    try_running && break
    [ $left -gt 0 ] || break
  done
}
echo "host node $(uname -n)"
echo "host kernel $(uname -r)"
echo "host machine $(uname -m)"
echo "host uid $me"
echo "host boot $(cat /proc/sys/kernel/random/boot_id 2>/dev/null)"
search
"""


_BRIEF = 'timeout 2 true 2>/dev/null && exec timeout -s KILL 9 "$0" "$@"; exec "$0" "$@"'
"""The shell's own arguments are the command; a node may have no timeout, or one with other options."""


class FoundPython(NamedTuple):
    """What a node has to offer."""

    python: str
    """The first interpreter that is new enough, as :func:`words` takes it; empty when there is none."""
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
        return f"its Python is {self.older}: {needed} or newer is needed" if self.older else "no Python 3 there"


def brief(command: list[str]) -> list[str]:
    """Words that run a command which no program of ours watches, and end it after some seconds, link or no link."""
    return ["sh", "-c", _BRIEF, *command]


def words(python: str) -> list[str]:
    """Words that start an interpreter; what follows them are its own arguments."""
    return python.split(_SEPARATOR)


def shown(python: str) -> str:
    """An interpreter as it is told to a person."""
    return " ".join(words(python))


async def find(transport: Transport) -> FoundPython:
    """Look for an interpreter, with one command. Raises :class:`~collectors.fleet.transport.TransportError`."""
    done = await transport.run(brief(["sh", "-c", _SCRIPT]), timeout=_DEADLINE, limit=1 << 16)
    return read(clean_bytes(done.stdout))


async def or_python(transport: Transport, doing: Coroutine[Any, Any, T], every: float) -> T | FoundPython:
    """Do something until it ends, or until an interpreter is there: it is looked for every so many seconds."""
    running, looking = asyncio.ensure_future(doing), asyncio.ensure_future(_comes(transport, every))
    try:
        await asyncio.wait({running, looking}, return_when=asyncio.FIRST_COMPLETED)
        return running.result() if running.done() else looking.result()
    finally:
        running.cancel()
        looking.cancel()
        await asyncio.wait({running, looking})  # it ends what it has begun there


async def _comes(transport: Transport, every: float) -> FoundPython:
    while True:
        await asyncio.sleep(every)
        with suppress(TransportError):  # whoever streams notices, too
            found = await find(transport)
            if found.python:
                return found


def read(text: str) -> FoundPython:
    """Read what the script printed; lines of other making (a talkative shell profile) are passed over."""
    host: dict[str, str] = {}
    older: list[tuple[tuple[int, int], str]] = []
    chosen = noise = ""
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        key, _, value = rest.partition(" ")
        version = _version(key) if word in ("python", "owned") else None
        python = value if word == "python" and value.startswith("/") else _as_owner(value) if word == "owned" else ""
        if word == "host" and value:
            host[key] = value
        elif version is not None and python:
            if version < OLDEST:
                older.append((version, words(python)[-1]))
            elif not chosen:
                chosen = python
        elif line.strip() and not (word == "host" and key):
            noise = line.strip()[:300]
    said = "{0[0]}.{0[1]} ({1})".format(*max(older)) if older else ""
    return FoundPython(chosen, said, host, noise)


def _as_owner(said: str) -> str:
    """The interpreter of ``HOW UID GID USER PATH``; empty for what is none."""
    how, *ids = said.split(" ", 4)
    if how not in _AS_OWNER or len(ids) < 4 or not ids[3].startswith("/"):
        return ""
    uid, gid, user, path = ids
    if not (uid.isdecimal() and gid.isdecimal()) or user.startswith("-") != (how == "setpriv"):
        return ""
    return _SEPARATOR.join([*_CLEAN, *(word.format(uid=uid, gid=gid, user=user) for word in _AS_OWNER[how]), path])


def _version(text: str) -> tuple[int, int] | None:
    major, _, minor = text.partition(".")
    small = all(part.isdecimal() and len(part) < 6 for part in (major, minor))
    return (int(major), int(minor)) if small else None
