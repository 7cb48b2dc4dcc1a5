"""Talks to a TCP port on behalf of the other side, where the way to this node carries no ports."""

from __future__ import annotations

import base64
import os
import socket
import sys
from typing import Dict

from collectors.node import watchdog

_CHUNK = 65536


def main(arguments: "Dict[str, object]") -> None:
    """Entry of the payload: connect, send, and pass on what comes until the far side closes.

    ``arguments``: ``host`` (text), ``port`` (number), ``send`` (base64). Ends by itself without heartbeats; status 1
    and a line on standard error when there is no way to the port.
    """
    watchdog.watch()
    try:
        connection = socket.create_connection((str(arguments["host"]), int(str(arguments["port"]))))
        with connection:
            connection.sendall(base64.b64decode(str(arguments["send"])))
            while True:
                data = connection.recv(_CHUNK)
                if not data:
                    break
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(1, rest) :]
    except OSError as error:
        sys.stderr.write("%s\n" % (error.strerror or error))
        sys.stderr.flush()
        watchdog.leave(1)
    watchdog.leave(0)
