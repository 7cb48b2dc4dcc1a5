"""One command in a shell that reads from a pipe, with marks around its output.

Output before the first mark is a greeting of the login. Input for the command is sent only after that mark: a shell may
read ahead until it has a whole command, and a transport may lose input that arrives before the shell is up. The last
mark carries the exit status; without it the output was cut off, whatever the local program's status.

On the wire: ASCII 30, a letter, 32 hexadecimal digits of this command's own, and a line feed; the last mark has a colon
and the status before it.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Literal

from collectors.fleet.transport import quoted, shell_status
from collectors.node.processes.commands import MARK

State = Literal["before", "terminal", "running", "over"]

_NOISE = 4096
_STATUS_DIGITS = 3


class Framed:
    """Makes the line that runs a command, and removes the marks from its output."""

    def __init__(self, command: Sequence[str], on_output: Callable[[bytes], None]) -> None:
        self._command = tuple(command)
        self._on_output = on_output
        self._nonce = secrets.token_hex(16)
        self._begin = f"\x1eB{self._nonce}\n".encode()
        self._terminal = f"\x1eT{self._nonce}".encode()
        self._returned = f"\x1eB{self._nonce}\r".encode()
        """The first mark as a terminal returns it: the shell's input is no terminal, but its output is one."""
        self._end = f"\x1eE{self._nonce}:".encode()
        self._held = b""
        self.state: State = "before"
        self.status: int | None = None
        """Exit status once it is over, negative for a signal."""
        self.noise = b""
        """The end of what came before the command's own output."""

    def line(self) -> bytes:
        """What to send to the shell. One compound command, so that nothing behind it is taken for another."""
        mark = f"{self._nonce}"
        return (
            f"test -t 0 && {{ printf '\\036T%s\\n' {mark}; exit 1; }}\n"
            f"{{ {MARK}=1; export {MARK}; printf '\\036B%s\\n' {mark}; {quoted(self._command)}; set -- $?; "
            f'printf \'\\036E%s:%s\\n\' {mark} "$1"; exit "$1"; }}\n'
        ).encode()

    def feed(self, data: bytes) -> None:
        """Take output of any size."""
        if self.state in ("over", "terminal"):
            return
        data = self._held + data
        self._held = b""
        if self.state == "before":
            behind = self._seek(data)
            if behind is None:
                return
            data = behind
        place = data.find(self._end)
        if place < 0:
            kept = _overlap(data, self._end)
            self._held = data[len(data) - kept :]
            self._deliver(data[: len(data) - kept])
            return
        self._deliver(data[:place])
        said, line_feed, _ = data[place + len(self._end) :].partition(b"\n")
        if not line_feed and len(said) <= _STATUS_DIGITS:
            self._held = data[place:]
        elif said.isdigit() and len(said) <= _STATUS_DIGITS:
            self.status = shell_status(int(said))
            self.state = "over"
        else:  # not written by the shell
            self._deliver(data[place:])

    def _seek(self, data: bytes) -> bytes | None:
        """The output behind the first mark; None before the mark has come."""
        before, mark, behind = data.partition(self._begin)
        if mark:
            self.noise = before[-_NOISE:]
            self.state = "running"
            return behind
        if self._terminal in data or self._returned in data:
            self.state = "terminal"
        else:
            self._held = data[-_NOISE:]
        self.noise = data[-_NOISE:]
        return None

    def _deliver(self, data: bytes) -> None:
        if data:
            self._on_output(data)


def _overlap(data: bytes, mark: bytes) -> int:
    """Number of bytes at the end that may begin a mark."""
    place = data.rfind(mark[:1], max(0, len(data) - len(mark) + 1))
    while place >= 0:
        if mark.startswith(data[place:]):
            return len(data) - place
        place = data.rfind(mark[:1], max(0, len(data) - len(mark) + 1), place)
    return 0
