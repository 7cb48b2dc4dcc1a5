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
    shared = options_of(load(DEFAULT))
    mine = options_of(ctx.command)
    names = {ctx.command.name} if ctx.parent is None else {ctx.command.name, ctx.parent.command.name}
    found: dict[str, Any] = {}
    for key, value in values.items():
        if key == KEYS:
            _check_keys(path, value)
        elif key in shared:
            checked = _checked(path, key, value, shared[key], ctx)
            if key in mine:
                found.setdefault(mine[key].name or key, checked)
        elif key in COMMANDS:
            if not isinstance(value, dict):
                raise ConfigError(f"{path}: {key}: is a command, and wants a table: [{key}]")
            own = options_of(load(key))
            for inner, each in value.items():
                if inner not in own:
                    raise ConfigError(f"{path}: {key}.{inner}: no such option of hangtop {key}{_near(inner, own)}")
                checked = _checked(path, f"{key}.{inner}", each, own[inner], ctx)
                if key in names and inner in mine:
                    found[own[inner].name or inner] = checked
        else:
            raise ConfigError(f"{path}: {key}: no such option{_near(key, shared)}")
    return found


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


def _checked(path: Path, key: str, value: Any, option: click.Option, ctx: click.Context) -> Any:
    if option.is_flag:
        expected, fits = "true or false", isinstance(value, bool)
    elif option.multiple:
        expected, fits = "a list of strings", isinstance(value, list) and all(isinstance(v, str) for v in value)
    elif isinstance(option.type, click.types.IntParamType | click.types.FloatParamType):
        expected, fits = "a number", isinstance(value, int | float) and not isinstance(value, bool)
    else:
        expected, fits = "a string", isinstance(value, str)
    if not fits:
        raise ConfigError(f"{path}: {key}: wants {expected}, not {reprlib.repr(value)}")
    try:
        option.type_cast_value(ctx, value)
    except click.BadParameter as error:
        raise ConfigError(f"{path}: {key}: {error.message}") from None
    return value


def _check_keys(path: Path, value: Any) -> None:
    if not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
        raise ConfigError(f'{path}: {KEYS}: wants a table of action = "key"')


def _near(key: str, known: Mapping[str, object]) -> str:
    import difflib

    close = difflib.get_close_matches(key.replace("_", "-"), known, n=1)
    return f" (did you mean {close[0]}?)" if close else ""
