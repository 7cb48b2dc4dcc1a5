"""The search for a Python on a node's PATH: ``python3``, else one named by its release (``python3.11``)."""

from __future__ import annotations

from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import Refused, Transport, TransportError

OLDEST = (3, 8)
_DEADLINE = 20.0

# "shell" shows that a shell runs commands there; then a line "python MAJOR.MINOR PATH" for each Python that starts.
_SCRIPT = r"""
echo shell
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
  path=$(command -v "$name" 2>/dev/null) || continue
  version=$("$path" -I -S -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null </dev/null) || continue
  echo "python $version $path"
done
"""


async def find(transport: Transport) -> str:
    """Path of the first Python on the node's PATH that is new enough.

    Raises :class:`Refused` where there is none, and :class:`TransportError` where no shell runs commands.
    """
    done = await transport.run(["sh", "-c", _SCRIPT], timeout=_DEADLINE, limit=1 << 16)
    return choose(clean_bytes(done.stdout), clean_bytes(done.stderr))


def choose(output: str, errors: str = "") -> str:
    """The path of :func:`find`, from the script's output; lines of a login script are ignored."""
    lines = [line.strip() for line in output.splitlines()]
    if "shell" not in lines:
        noise = [line for line in (*lines, *errors.splitlines()) if line]
        raise TransportError(f"no shell runs commands there: {noise[-1][:300] if noise else 'it prints nothing'}")
    older = ""
    for line in lines:
        word, _, rest = line.partition(" ")
        version, _, path = rest.partition(" ")
        major, _, minor = version.partition(".")
        if word != "python" or not path.startswith("/") or not (major.isdecimal() and minor.isdecimal()):
            continue
        if len(version) < 8 and (int(major), int(minor)) >= OLDEST:
            return path
        older = older or f", only {version} ({path})"
    needed = ".".join(map(str, OLDEST))
    raise Refused(f"there is no Python {needed} or newer on the PATH there{older}: name one by --python")
