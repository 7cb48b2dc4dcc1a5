"""The ``hangtop`` command: its error messages and exit codes."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Iterable
from typing import NoReturn

import click

from hangtop import __version__
from hangtop.cli.groups import COMMANDS, DEFAULT, DefaultGroup

WRONG_USAGE, UNREACHABLE = 2, 3
INTERRUPTED = 130
"""After Ctrl-C: 128 + SIGINT, as in shells."""
PIPE_CLOSED = 141
"""The reader of our output is gone (128 + SIGPIPE)."""
DISK_FULL = 74
"""No space left for the output (EX_IOERR)."""
CRASHED = 70
"""A fault in hangtop itself (EX_SOFTWARE)."""
YOUNG = 50_000
"""Allocations between two runs of Python's cycle collector. The objects of a start stay anyway: with Python's own 700,
over a hundred runs would take 5 % of the time to the first frame."""


group = DefaultGroup(
    "hangtop",
    COMMANDS,
    DEFAULT,
    help="Show which rank of a distributed training job holds up the others, and why, over SSH, srun or kubectl.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    epilog=f"Without a command, the arguments are nodes for {DEFAULT}; without a node, it watches this machine. "
    "Options of nodes, looking and screen can be set in the environment: HANGTOP_SSH_CONFIG for --ssh-config. "
    'Completion: eval "$(_HANGTOP_COMPLETE=bash_source hangtop)" (or zsh_source, fish_source).',
)
click.version_option(__version__, prog_name="hangtop")(group)


def main(args: Iterable[str] | None = None) -> NoReturn:
    """Run the command line; a failure prints one line and exits with a non-zero code, never with a traceback."""
    words = list(sys.argv[1:] if args is None else args)
    gc.set_threshold(YOUNG)
    if "_HANGTOP_COMPLETE" in os.environ:
        group.main(words, prog_name="hangtop")  # click completes for the shell, and ends the process
    try:
        with group.make_context("hangtop", words) as ctx:
            group.invoke(ctx)
        sys.stdout.flush()
        code = 0
    except click.exceptions.Exit as ended:
        code = ended.exit_code
    except click.ClickException as error:
        _complain(error.format_message())
        code = error.exit_code
    except (KeyboardInterrupt, click.Abort) as error:
        code = getattr(error, "exit_code", INTERRUPTED)
    except BrokenPipeError:
        _drop_stdout()
        code = PIPE_CLOSED
    except OSError as error:
        if error.errno == errno.ENOSPC:
            _drop_stdout()
            _complain(f"the output cannot be written: {error.strerror}")
            code = DISK_FULL
        else:
            code = _failed(error)
    except Exception as error:  # noqa: BLE001 - outermost level: a fault of ours becomes a line and a file
        code = _failed(error)
    raise SystemExit(code)


def _complain(message: str) -> None:
    from collectors.fleet.clean import clean  # the message may quote control codes

    print("hangtop: " + " ".join(clean(message).split()), file=sys.stderr)


def _drop_stdout() -> None:
    # The interpreter flushes standard output at its end and would report the same pipe again.
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    """Print the error and return its exit code; the traceback of a fault in hangtop goes to a file."""
    from collectors.fleet.targets.chosen import TargetError
    from collectors.fleet.transport import SshConfigError, TransportError
    from hangtop.session.recording import RecordingError

    if isinstance(error, TargetError | SshConfigError | RecordingError | TransportError):  # their text suffices
        _complain(str(error))
        refused = isinstance(error, TransportError) and not isinstance(error, SshConfigError)
        return UNREACHABLE if refused else WRONG_USAGE
    import tempfile
    import traceback

    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="hangtop-crash-", suffix=".txt", delete=False) as file:
            file.write(text)
        kept = f"the traceback is in {file.name}"
    except OSError as unwritable:
        kept = f"its traceback could not be written: {unwritable}"
    _complain(f"a fault in hangtop itself: {type(error).__name__}: {error} ({kept})")
    return CRASHED
