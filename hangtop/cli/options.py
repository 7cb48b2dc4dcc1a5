"""Options that commands share, what they become, and how help lists them.

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
NODES = "Nodes, and how they are reached (without NODE: this machine, without SSH)"
LOOKING = "What is looked at, and how"
SCREEN = "Screen"
SECTIONS = (OWN, NODES, LOOKING, SCREEN)


class SharedOption(click.Option):
    """An option that several commands have, listed under the heading ``section``."""

    def __init__(self, *args: Any, section: str = OWN, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.section = section
        self.envvar = f"HANGTOP_{(self.name or '').upper()}"


class SectionedCommand(click.Command):
    """A command whose help begins with the options that it alone has."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A list of options for each section; of its own those last that all commands have."""
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
    """An option's callback: its value as ``read`` makes it of the text. A :class:`ValueError` is the user's mistake."""

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
             help="Another way in: ssh (the system's own), slurm, kubectl, or a command ('docker exec -i %h sh')."),
    _reached("--batch", is_flag=True, help="Ask nothing: a node whose host key is not known is reported as such."),
    _reached("--python", metavar="PATH", help="The interpreter to use on the nodes."),
    _reached("--sudo", is_flag=True, help="Try sudo -n for py-spy, dmesg and tcpdump where the login may not."),
    _looked("--job", metavar="KEY=VALUE", callback=converted(_key_value),
            help="Only ranks whose environment has KEY=VALUE."),
    _looked("--log", "logs", metavar="GLOB", multiple=True, help="Further log files on the nodes; repeatable."),
    _looked("--interval", metavar="S", type=click.FloatRange(0.1, 3600),
            help=f"Seconds between two looks; without it 1, and one more for every {LARGE} nodes beyond {LARGE}."),
    _looked("--patience", metavar="S", type=click.FloatRange(1, 86400), default=60.0, show_default=True,
            help="Seconds before a wait is called a hang (outside the job at least 60); triage: --watch at most."),
    _looked("--read-only", is_flag=True, help="Only look: no stacks unasked, no probe, no signal."),
)  # fmt: skip

SCREEN_OPTIONS: tuple[Decorator, ...] = (
    _shown("--theme", metavar="NAME", default="", help="Colours of the screen."),
    _shown("--bell/--no-bell", default=True, show_default=True, help="Ring when a hang or crash is found."),
)
_SESSION = frozenset(field.name for field in dataclasses.fields(SessionOptions)) - {"label"}


def connection(*, hidden: Collection[str] = ()) -> Decorator:
    """Give a command the words ``NODE…`` and the options of a session; it gets ``options: SessionOptions``.

    All commands take all of them, so that one command line serves every command, but help leaves out those that are
    ``hidden``: the command makes no use of them.
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
    """Give a command the options of the screen: ``theme`` and ``bell``."""
    return _decorated(function, SCREEN_OPTIONS)


def _decorated(function: Function, decorators: tuple[Decorator, ...]) -> Function:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function
