"""One command in a shell that reads from a pipe, with marks around its output.

Output before the first mark is noise of the login. Input for the command is sent only after that mark: a shell may
read ahead until it has a whole command, and a transport may lose input that arrives before the shell is up. The last
mark carries the exit status; without it the output was cut off, whatever the local program's status.

On the wire: ASCII 30, a letter, 32 hexadecimal digits unique to this command, and a line feed; in the last mark a colon
and the status come before the line feed.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence

from collectors.fleet.transport import quoted, shell_status
from collectors.node.processes.commands import MARK

_NOISE = 4096
_STATUS_DIGITS = 3


class Framed:
    """Builds the line that runs a command, and removes the marks from its output."""

    def __init__(self, command: Sequence[str], on_output: Callable[[bytes], None]) -> None:
        self._command = tuple(command)
        self._on_output = on_output
        self._nonce = secrets.token_hex(16)
        self._begin = f"\x1eB{self._nonce}\n".encode()
        self._end = f"\x1eE{self._nonce}:".encode()
        self._held = b""
        self.begun = False
        """True once the shell runs the command."""
        self.status: int | None = None
        """Exit status once the command has ended, negative for a signal."""
        self.noise = b""
        """The end of the output that came before the command's own."""

    def line(self) -> bytes:
        """The line for the shell: one compound command, so that input after it is not run as another command."""
        return (
            f"{{ {MARK}=1; export {MARK}; printf '\\036B%s\\n' {self._nonce}; {quoted(self._command)}; set -- $?; "
            f'printf \'\\036E%s:%s\\n\' {self._nonce} "$1"; exit "$1"; }}\n'
        ).encode()

    def feed(self, data: bytes) -> None:
        """Take output of any size."""
        if self.status is not None:
            return
        data, self._held = self._held + data, b""
        if not self.begun:
            before, mark, data = data.partition(self._begin)
            self.noise = before[-_NOISE:]
            if not mark:
                self._held = self.noise
                return
            self.begun = True
        output, mark, said = data.partition(self._end)
        status, line_feed, _ = said.partition(b"\n")
        if not mark:
            kept = _overlap(data, self._end)
            output, self._held = data[: len(data) - kept], data[len(data) - kept :]
        elif not line_feed and len(status) <= _STATUS_DIGITS:
            self._held = mark + said
        elif status.isdigit() and len(status) <= _STATUS_DIGITS:
            self.status = shell_status(int(status))
        else:  # not the shell's mark: output of the command
            output = data
        if output:
            self._on_output(output)


def _overlap(data: bytes, mark: bytes) -> int:
    """Number of bytes at the end of ``data`` that may begin ``mark``."""
    return next((count for count in range(min(len(data), len(mark) - 1), 0, -1) if data.endswith(mark[:count])), 0)
