"""Options that commands share, what they become, and how help lists them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import click

from hangtop.session.options import SessionOptions

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


class SectionedCommand(click.Command):
    """A command whose help begins with the options that it alone has."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """A list of options for each section; of its own those last that all commands have."""
        found: dict[str, list[tuple[str, str]]] = {section: [] for section in SECTIONS}
        for param in sorted(self.get_params(ctx), key=_place):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                found[param.section if isinstance(param, SharedOption) else OWN].append(record)
        for section, rows in found.items():
            if rows:
                with formatter.section(section):
                    formatter.write_dl(rows)


def _place(param: click.Parameter) -> int:
    return 2 if "--help" in param.opts else int(isinstance(param, SharedOption))


class Ranks(click.ParamType[frozenset[int]]):
    """``3,7-9``."""

    name = "RANKS"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> frozenset[int]:
        """Unfold the ranges."""
        if isinstance(value, frozenset):
            return value
        from hangtop.diagnosis.phrasing import parse_ranks

        try:
            return parse_ranks(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


class KeyValue(click.ParamType[tuple[str, str]]):
    """``KEY=VALUE``."""

    name = "KEY=VALUE"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first ``=``."""
        if isinstance(value, tuple):
            return value
        key, equals, rest = str(value).partition("=")
        if not equals or not key:
            self.fail(f"{value!r} is not KEY=VALUE, such as SLURM_JOB_ID=123", param, ctx)
        return key, rest


def _read_config(ctx: click.Context, param: click.Parameter, value: str | None) -> None:  # noqa: ARG001 - click's signature
    from hangtop.cli.config import apply

    apply(ctx, value)


FILE = click.Path(dir_okay=False)

CONFIG = click.option(
    "--config",
    metavar="FILE",
    cls=SharedOption,
    type=FILE,
    is_eager=True,
    expose_value=False,
    callback=_read_config,
    help="TOML file with defaults for every option, instead of the user's own.",
)

_reached = functools.partial(click.option, cls=SharedOption, section=NODES)
_looked = functools.partial(click.option, cls=SharedOption, section=LOOKING)
_shown = functools.partial(click.option, cls=SharedOption, section=SCREEN)

CONNECTION: tuple[Decorator, ...] = (
    CONFIG,
    _reached("-F", "--ssh-config", metavar="FILE", type=FILE, help="An ssh_config instead of ~/.ssh/config."),
    _reached("--hostfile", metavar="FILE", type=FILE, help="Nodes from an OpenMPI, DeepSpeed or plain host file."),
    _reached("--slurm", metavar="JOBID", help="The nodes of a Slurm job."),
    _reached(
        "--via",
        metavar="CMD",
        help="Another way in: ssh (the system's own), slurm, kubectl, or a command ('docker exec -i %h sh').",
    ),
    _reached("-n", "--namespace", metavar="NS", help="Of the pods, with --via kubectl."),
    _reached("-l", "--selector", metavar="LABELS", help="The pods that have these labels, with --via kubectl."),
    _reached("--container", metavar="NAME", help="The container of each pod, with --via kubectl."),
    _reached("--batch", is_flag=True, help="Ask nothing: a node that needs an answer is reported as such."),
    _reached("--python", metavar="PATH", help="The interpreter to use on the nodes."),
    _reached("--py-spy", metavar="PATH", help="The py-spy to use on the nodes."),
    _reached("--sudo", is_flag=True, help="Try sudo -n for py-spy, dmesg and tcpdump where the login may not."),
    _reached(
        "--topology",
        metavar="FILE",
        type=FILE,
        help="Which leaf each node hangs at: a topology.conf of Slurm, or what scontrol show topology printed.",
    ),
    _looked("--job", type=KeyValue(), help="Only ranks whose environment has KEY=VALUE."),
    _looked("--log", "logs", metavar="GLOB", multiple=True, help="Further log files on the nodes; repeatable."),
    _looked(
        "--interval",
        metavar="S",
        type=click.FloatRange(0.1, 3600),
        default=1.0,
        show_default=True,
        help="Seconds between two looks.",
    ),
    _looked(
        "--patience",
        metavar="S",
        type=click.FloatRange(1, 86400),
        default=60.0,
        show_default=True,
        help="Seconds that a wait may take before it is called a hang.",
    ),
    _looked("--read-only", is_flag=True, help="Only look: no stacks unasked, no probe, no signal."),
)

SCREEN_OPTIONS: tuple[Decorator, ...] = (
    _shown("--theme", metavar="NAME", default="", help="Colours of the screen."),
    _shown("--no-color", is_flag=True, help="No colours; also by NO_COLOR in the environment."),
    _shown("--ascii", is_flag=True, help="No characters beyond ASCII."),
    _shown(
        "--refresh",
        metavar="S",
        type=click.FloatRange(0.25, 10),
        default=1.0,
        show_default=True,
        help="Seconds between two drawings.",
    ),
    _shown("--bell/--no-bell", default=True, show_default=True, help="Ring when a hang or crash is found."),
    _shown(
        "--report-folder", metavar="DIR", type=click.Path(file_okay=False), help="Where reports and exports are saved."
    ),
)


@dataclass(frozen=True, slots=True)
class ScreenChoices:
    """How the screen should look."""

    theme: str = ""
    no_color: bool = False
    ascii: bool = False
    refresh: float = 1.0
    report_folder: Path | None = None
    bell: bool = True
    keymap: dict[str, str] = field(default_factory=dict)
    """Action id → keys, from ``[keys]`` of the configuration file."""


_UNCHANGED = tuple(
    "slurm via namespace selector container job interval patience read_only batch python py_spy sudo".split()
)


def connection(*, hidden: Collection[str] = (), told: Mapping[str, str] | None = None) -> Decorator:
    """Give a command the options of a session; it gets them as ``options: SessionOptions``, with the targets if any.

    All commands take all of them, so that one command line and one configuration serve every command, but help leaves
    out those that are ``hidden`` (the command makes no use of them) and says of others what ``told`` has.
    """

    def decorate(function: Function) -> Function:
        decorated = _decorated(_with_options(function), CONNECTION)
        for param in getattr(decorated, "__click_params__", ()):
            if isinstance(param, SharedOption):
                param.hidden = param.hidden or param.name in hidden
                if told and param.name in told:
                    param.help, param.show_default = told[param.name], False
        return decorated

    return decorate


def _with_options(function: Function) -> Function:
    @functools.wraps(function)
    def with_options(*args: Any, **values: Any) -> Any:
        def path(name: str) -> Path | None:
            value = values.pop(name)
            return None if value is None else Path(value).expanduser()

        options = SessionOptions(
            targets=tuple(values.pop("targets", ())),
            ssh_config=path("ssh_config"),
            hostfile=path("hostfile"),
            topology=path("topology"),
            logs=tuple(values.pop("logs")),
            **{name: values.pop(name) for name in _UNCHANGED},
        )
        return function(*args, options=options, **values)

    return with_options


def screen(function: Function) -> Function:
    """Give a command the options of the screen; it gets them as ``choices: ScreenChoices``."""

    @functools.wraps(function)
    def with_choices(*args: Any, **values: Any) -> Any:
        from hangtop.cli.config import keymap

        folder = values.pop("report_folder")
        choices = ScreenChoices(
            report_folder=None if folder is None else Path(folder).expanduser(),
            keymap=keymap(click.get_current_context()),
            **{name: values.pop(name) for name in ("theme", "no_color", "ascii", "refresh", "bell")},
        )
        return function(*args, choices=choices, **values)

    return _decorated(with_choices, SCREEN_OPTIONS)


def nodes(function: Function) -> Function:
    """Give a command the words ``NODE…``."""
    decorate: Decorator = click.argument("targets", metavar="[NODE]...", nargs=-1)
    decorated: Function = decorate(function)
    return decorated


def _decorated(function: Function, decorators: tuple[Decorator, ...]) -> Function:
    for decorate in reversed(decorators):
        function = decorate(function)
    return function


def options_with_value() -> set[str]:
    """Names of the shared options that take the next word."""
    command = click.Command("any")
    for decorate in (*CONNECTION, *SCREEN_OPTIONS):
        decorate(command)
    return {
        name for param in command.params if isinstance(param, click.Option) and not param.is_flag for name in param.opts
    }
