"""The configuration file: TOML whose keys are the long options without their dashes.

Keys at the top are for every command that has such an option; a table named like a command is for that command alone;
``[keys]`` gives actions of the screen other keys. What the command line says wins.
"""

from __future__ import annotations

import reprlib
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from hangtop.cli.groups import COMMANDS, DEFAULT, load

KEYS = "keys"
META = "hangtop.keymap"
"""Where a context keeps the ``[keys]`` table."""


class ConfigError(click.ClickException):
    """The file cannot be used; the message names file and key."""

    exit_code = 2


def default_path() -> Path:
    """Where the user's own file is looked for."""
    import platformdirs

    return platformdirs.user_config_path("hangtop") / "config.toml"


def apply(ctx: click.Context, chosen: str | None) -> None:
    """Read the file and make its values the defaults of the command in ``ctx``. Raises :class:`ConfigError`."""
    path = default_path() if chosen is None else Path(chosen).expanduser()
    values = read(path, must_exist=chosen is not None)
    if values:
        ctx.default_map = defaults(path, values, ctx)
        ctx.meta[META] = values.get(KEYS, {})


def keymap(ctx: click.Context) -> dict[str, str]:
    """The ``[keys]`` table of the file that the context has read."""
    return dict(ctx.meta.get(META, {}))


def read(path: Path, *, must_exist: bool) -> dict[str, Any]:
    """Contents of the file; empty when it is not there and need not be."""
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        if must_exist:
            raise ConfigError(f"{path}: no such file") from None
        return {}
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except RecursionError:
        raise ConfigError(f"{path}: its lists and tables are too deep in one another") from None
    except ValueError as error:  # no TOML, no UTF-8, or a number that is too long for Python
        raise ConfigError(f"{path}: not TOML: {error}") from None


def defaults(path: Path, values: Mapping[str, Any], ctx: click.Context) -> dict[str, Any]:
    """Defaults for the command in ``ctx``, every value in the file checked. Raises :class:`ConfigError`."""
    shared, mine = options_of(load(DEFAULT)), options_of(ctx.command)
    names = {ctx.command.name} if ctx.parent is None else {ctx.command.name, ctx.parent.command.name}
    of_all: dict[str, Any] = {}
    of_command: dict[str, Any] = {}
    for key, value in values.items():
        if key == KEYS:
            if not isinstance(value, dict) or not all(isinstance(text, str) for text in value.values()):
                raise ConfigError(f'{path}: {KEYS}: wants a table of action = "key"')
        elif key in COMMANDS and key not in shared:
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: {key}: is a command, and wants a table: [{key}]")
            found = _checked(path, value, options_of(load(key)), ctx, of=f"{key}.")
            of_command |= found if key in names else {}
        else:
            of_all |= _checked(path, {key: value}, shared, ctx)
    given = {**of_all, **of_command}
    return {option.name or "": given[option.name] for option in mine.values() if option.name in given}


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Options of a command, or of all commands of a group, by the key that a file has for them."""
    if isinstance(command, click.Group):
        return {key: option for inner in command.commands.values() for key, option in options_of(inner).items()}
    return {
        name.removeprefix("--"): param
        for param in command.params
        if isinstance(param, click.Option) and param.name != "config"
        for name in param.opts
        if name.startswith("--")
    }


def _checked(
    path: Path, values: Mapping[str, Any], known: Mapping[str, click.Option], ctx: click.Context, *, of: str = ""
) -> dict[str, Any]:
    """The values by the names of their options."""
    found = {}
    for key, value in values.items():
        option = known.get(key)
        if option is None:
            command = f" of hangtop {of.rstrip('.')}" if of else ""
            raise ConfigError(f"{path}: {of}{key}: no such option{command}{_near(key, known)}")
        expected, fits = _kind(option, value)
        if not fits:
            raise ConfigError(f"{path}: {of}{key}: wants {expected}, not {reprlib.repr(value)}")
        try:
            option.type_cast_value(ctx, value)
        except click.BadParameter as error:
            raise ConfigError(f"{path}: {of}{key}: {error.message}") from None
        found[option.name or key] = value
    return found


def _kind(option: click.Option, value: Any) -> tuple[str, bool]:
    """What an option wants, and whether the value is that: click itself takes almost anything."""
    if option.is_flag:
        return "true or false", isinstance(value, bool)
    if option.multiple:
        return "a list of strings", isinstance(value, list) and all(isinstance(one, str) for one in value)
    if isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        return "a number", isinstance(value, int | float) and not isinstance(value, bool)
    return "a string", isinstance(value, str)


def _near(key: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
