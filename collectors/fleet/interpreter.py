"""The search for a Python on a node's PATH: ``python3``, else one named by its release (``python3.11``)."""

from __future__ import annotations

from collectors.fleet.clean import clean_bytes
from collectors.fleet.transport import Refused, Transport, TransportError

# "shell" shows that a shell runs commands there; a login script may print other lines.
_SCRIPT = r"""
echo shell
for name in python3 python3.14 python3.13 python3.12 python3.11 python3.10 python3.9 python3.8; do
  path=$(command -v "$name" 2>/dev/null) || continue
  "$path" -I -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' >/dev/null 2>&1 </dev/null || continue
  echo "python $path"
  break
done
"""


async def find(transport: Transport) -> str:
    """Path of the first Python on the node's PATH that is new enough.

    Raises :class:`Refused` where there is none, and :class:`TransportError` where no shell runs commands.
    """
    done = await transport.run(["sh", "-c", _SCRIPT], timeout=20.0, limit=1 << 16)
    lines = [line.strip() for line in clean_bytes(done.stdout).splitlines()]
    if "shell" not in lines:
        noise = [line for line in (*lines, *clean_bytes(done.stderr).splitlines()) if line]
        raise TransportError(f"no shell runs commands there: {noise[-1][:300] if noise else 'it prints nothing'}")
    for line in lines:
        word, _, path = line.partition(" ")
        if word == "python" and path.startswith("/"):
            return path
    raise Refused("there is no Python 3.8 or newer on the PATH there: name one by --python")
