"""The `hangtop` command: a group whose commands are loaded only when asked for."""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import Iterable
from typing import NoReturn

import click

from hangtop import __version__
from hangtop.cli.groups import LazyGroup
from hangtop.cli.registry import DEFAULT

WRONG_USAGE = 2
UNREACHABLE = 3
"""Exit code when no node could be reached."""
INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells count it (128 + SIGINT)."""
_UNWRITABLE = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO))
OUTPUT_LOST = 74
"""Exit code when our output could not be written: a full disk (EX_IOERR)."""
PIPE_CLOSED = 141
"""Exit code when the reader of our output went away (128 + SIGPIPE)."""
CRASHED = 70
"""Exit code of a fault in hangtop itself (EX_SOFTWARE)."""
YOUNG = 50_000
"""Objects that may be made before Python looks for cycles among them. What a start makes stays: at Python's own 700,
looking it over more than a hundred times takes a twentieth of the time to the first frame."""


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    subcommand_metavar=f"[{DEFAULT}] [NODE]... | COMMAND [ARGS]...",
    epilog=f"Without a command, the words are nodes for {DEFAULT}; without a node, this machine is watched. "
    "Any option can be set in ~/.config/hangtop/config.toml, or in a file that --config names.",
)
@click.version_option(__version__, prog_name="hangtop")
def group() -> None:
    """Show which rank of a distributed training job holds the others up, and why, over SSH, srun or kubectl."""


def main(args: Iterable[str] | None = None) -> NoReturn:
    """Run the command line; a failure is one clear line and a non-zero exit, never a traceback."""
    fill_closed()
    words = list(sys.argv[1:] if args is None else args)
    gc.set_threshold(YOUNG)
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
        if error.filename is None and error.errno in _UNWRITABLE:
            _drop_stdout()
            _complain(f"standard output cannot be written: {error.strerror}")
            code = OUTPUT_LOST
        else:
            code = _failed(error)
    except Exception as error:  # noqa: BLE001 - the outermost edge: a fault of ours becomes a line and a file
        code = _failed(error)
    raise SystemExit(code)


def fill_closed() -> None:
    """Open /dev/null in the place of each standard stream that is closed (``>&-``).

    Else a connection would get its number, and our text with it. Raises :class:`OSError` where it cannot be opened.
    """
    import os

    for number, name in enumerate(("stdin", "stdout", "stderr")):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
        if getattr(sys, name) is None:
            stream = open(number, "w" if number else "r", encoding="utf-8", closefd=False)  # noqa: SIM115
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)


def _exit_code_of(error: Exception) -> int | None:
    """Exit code of an error whose text is the whole story; None for a fault of hangtop."""
    from collectors.fleet.targets.chosen import TargetError
    from collectors.fleet.transport import SshConfigError, TransportError
    from hangtop.session.recording import RecordingError

    if isinstance(error, TargetError | SshConfigError | RecordingError):
        return WRONG_USAGE
    return UNREACHABLE if isinstance(error, TransportError) else None


def _complain(message: str) -> None:
    from collectors.fleet.clean import clean  # what is complained of may be in it

    print("hangtop: " + " ".join(clean(message).split()), file=sys.stderr)


def _drop_stdout() -> None:
    # The interpreter flushes standard output once more at its end and would complain of the same pipe again.
    import os

    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _failed(error: Exception) -> int:
    """Say what went wrong; the traceback of a fault of hangtop's own is kept in a file."""
    import tempfile
    import traceback

    known = _exit_code_of(error)
    if known is not None:
        _complain(str(error))
        return known
    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile("w", prefix="hangtop-crash-", suffix=".txt", delete=False) as file:
            file.write(text)
        kept = f"the traceback is in {file.name}"
    except OSError as unwritable:
        kept = f"its traceback could not be kept: {unwritable}"
    _complain(f"a fault of hangtop itself: {type(error).__name__}: {error} ({kept})")
    return CRASHED
