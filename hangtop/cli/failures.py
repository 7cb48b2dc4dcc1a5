"""Errors that are somebody's to mend, and the exit code of each; anything else is a fault of hangtop."""

from __future__ import annotations

from collectors.fleet.ssh.words import SshConfigError
from collectors.fleet.targets.chosen import TargetError
from collectors.fleet.transport import TransportError
from hangtop.session.tape.recording import RecordingError

WRONG_USAGE = 2
UNREACHABLE = 3

EXIT_CODES: dict[type[Exception], int] = {
    TargetError: WRONG_USAGE,
    SshConfigError: WRONG_USAGE,
    RecordingError: WRONG_USAGE,
    TransportError: UNREACHABLE,
}


def exit_code_of(error: Exception) -> int | None:
    """Exit code of an error whose text is the whole story; None for any other."""
    return next((code for kind, code in EXIT_CODES.items() if isinstance(error, kind)), None)
