"""Options that commands share, their conversion to session options, and their sections in the help.

Every shared option can be set in the environment: ``HANGTOP_SSH_CONFIG`` for ``--ssh-config``.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import click

from hangtop.session.options import LARGE, SessionOptions

Function = Callable[..., Any]
Decorator = Callable[[Any], Any]

OWN = "Options"
NODES = "Nodes and transport (without NODE: this machine, without SSH)"
LOOKING = "Observation"
SCREEN = "Screen"
SECTIONS = (OWN, NODES, LOOKING, SCREEN)


class SharedOption(click.Option):
    """An option of several commands, listed under the heading ``section``."""

    def __init__(self, *args: Any, section: str = OWN, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section
        self.envvar = f"HANGTOP_{(self.name or '').upper()}"


class SectionedCommand(click.Command):
    """A command whose help lists its own options first."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a list of options for each section; ``--help`` comes last in its own."""
        found: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for param in sorted(self.get_params(ctx), key=lambda param: "--help" in param.opts):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                found[param.section if isinstance(param, SharedOption) else OWN].append(record)
        for section, rows in found.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


def converted(read: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """An option's callback that converts the text with ``read``; a :class:`ValueError` becomes a usage error."""

    def convert(ctx: click.Context, param: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else read(value)
        except ValueError as error:
            raise click.BadParameter(str(error), ctx, param) from None

    return convert


def _key_value(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise ValueError(f"{text!r} is not KEY=VALUE, such as SLURM_JOB_ID=123")
    return key, value


def _ranks(text: str) -> frozenset[int]:
    from hangtop.diagnosis.phrasing import parse_ranks

    return parse_ranks(text)


RANKS = click.option(
    "--rank", "ranks", metavar="RANKS", callback=converted(_ranks), help="Only these ranks, such as 3,7-9."
)
FILE = click.Path(dir_okay=False)
_PATH = converted(lambda text: Path(text).expanduser())

_reached = functools.partial(click.option, cls=SharedOption, section=NODES)
_looked = functools.partial(click.option, cls=SharedOption, section=LOOKING)
_shown = functools.partial(click.option, cls=SharedOption, section=SCREEN)

CONNECTION: tuple[Decorator, ...] = (
    click.argument("targets", metavar="[NODE]...", nargs=-1),
    _reached("-F", "--ssh-config", metavar="FILE", type=FILE, callback=_PATH,
             help="An ssh_config instead of ~/.ssh/config."),
    _reached("--hostfile", metavar="FILE", type=FILE, callback=_PATH,
             help="Nodes from an OpenMPI, DeepSpeed or plain host file."),
    _reached("--slurm", metavar="JOBID", help="The nodes of a Slurm job."),
    _reached("--via", metavar="CMD",
             help="Another transport: ssh (the system's own), slurm, kubectl, or a command ('docker exec -i %h sh')."),
    _reached("--batch", is_flag=True, help="Ask nothing: a node with an unknown host key fails."),
    _reached("--python", metavar="PATH", help="The Python interpreter on the nodes."),
    _reached("--sudo", is_flag=True, help="Try sudo -n for py-spy, dmesg and tcpdump if the login may not."),
    _looked("--job", metavar="KEY=VALUE", callback=converted(_key_value),
            help="Only ranks with KEY=VALUE in their environment."),
    _looked("--log", "logs", metavar="GLOB", multiple=True, help="More log files on the nodes; repeatable."),
    _looked("--interval", metavar="S", type=click.FloatRange(0.1, 3600),
            help=f"Seconds between two samples; default: 1, and one more per {LARGE} nodes beyond {LARGE}."),
    _looked("--patience", metavar="S", type=click.FloatRange(1, 86400), default=60.0, show_default=True,
            help="Seconds before a wait is called a hang (outside the job at least 60); triage: --watch."),
    _looked("--read-only", is_flag=True, help="Nothing that pauses, signals, loads or asks the job."),
)  # fmt: skip

SCREEN_OPTIONS: tuple[Decorator, ...] = (
    _shown("--theme", metavar="NAME", default="", help="Colour theme of the screen."),
    _shown("--bell/--no-bell", default=True, show_default=True, help="Ring the bell for a hang or crash."),
)
_SESSION = frozenset(field.name for field in dataclasses.fields(SessionOptions)) - {"label"}


def connection(*, hidden: Collection[str] = ()) -> Decorator:
    """Add the arguments ``NODE…`` and the session's options to a command, which gets ``options: SessionOptions``.

    Every command accepts all of them, so that one command line serves every command; help omits the ``hidden`` ones,
    which have no effect on the command.
    """

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def with_options(*args: Any, **values: Any) -> Any:
            options = SessionOptions(**{name: values.pop(name) for name in _SESSION})
            return function(*args, options=options, **values)

        decorated = _decorated(with_options, CONNECTION)
        for param in getattr(decorated, "__click_params__", ()):
            if isinstance(param, SharedOption):
                param.hidden = param.hidden or param.name in hidden
        return decorated

    return decorate


def screen(function: Function) -> Function:
    """Add the options of the screen to a command: ``theme`` and ``bell``."""
    return _decorated(function, SCREEN_OPTIONS)


def _decorated(function: Function, decorators: tuple[Decorator, ...]) -> Function:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function
