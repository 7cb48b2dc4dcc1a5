"""The user's ssh_config, read once for all nodes.

OpenSSH's rules: the first value found for a keyword wins, ``Host`` and ``Match`` begin blocks, ``Include`` files belong
to the block that they stand in. Blocks whose patterns are plain names are found by a dictionary, so that 2,048 hosts in
2,048 blocks cost no more than one each. Unlike OpenSSH a host name is never canonicalised here.
"""

from __future__ import annotations

import getpass
import glob
import os
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from collectors.fleet.ssh.patterns import is_plain, match_list
from collectors.fleet.ssh.tokens import Tokens
from collectors.fleet.ssh.words import SaidAt, SshConfigError, split_words

SYSTEM_CONFIG = Path("/etc/ssh/ssh_config")
_DEPTH = 16
_EXEC_DEADLINE = 10.0

_VERBATIM = frozenset({"proxycommand", "localcommand", "remotecommand", "knownhostscommand"})
_REPEATED = frozenset({"identityfile", "certificatefile"})
_LISTS = frozenset({"userknownhostsfile", "globalknownhostsfile"})
_RIVALS = {"proxyjump": "proxycommand", "proxycommand": "proxyjump"}
_SINGLE_CRITERIA = frozenset({"all", "canonical", "final"})
_CRITERIA = frozenset(
    {"host", "originalhost", "user", "localuser", "exec", "localnetwork", "tagged", "command", "sessiontype", "version"}
)


@dataclass(frozen=True, slots=True)
class Condition:
    """What one ``Host`` or ``Match`` line asks; all of ``tests`` must hold."""

    tests: tuple[tuple[str, str, bool], ...]
    """(criterion, patterns, negated)."""
    plain_hosts: tuple[str, ...] = ()
    """Names that the block is for when it is a ``Host`` line without wildcards; they replace the tests."""


@dataclass(frozen=True, slots=True)
class SshSetting:
    """One line that sets something."""

    keyword: str
    values: tuple[str, ...]
    place: SaidAt


@dataclass(slots=True)
class HostBlock:
    """Lines that hold under the same conditions; several where the block stands in an included file."""

    conditions: tuple[Condition, ...]
    settings: list[SshSetting] = field(default_factory=list)


@dataclass(slots=True)
class Values:
    """What the configuration says about one host, raw: texts by keyword in lower case."""

    texts: dict[str, tuple[str, ...]] = field(default_factory=dict)
    places: dict[str, SaidAt] = field(default_factory=dict)

    def get(self, keyword: str) -> str | None:
        """The value of a keyword, None when nothing was said."""
        values = self.texts.get(keyword)
        return values[0] if values else None


class SshConfig:
    """Parsed configuration files; immutable."""

    def __init__(self, blocks: Sequence[HostBlock]) -> None:
        self._blocks = blocks
        self._plain: dict[str, list[int]] = {}
        self._others: list[int] = []
        self._final = any(test[0] == "final" for b in blocks for c in b.conditions for test in c.tests)
        self._ran: dict[str, bool] = {}
        for index, block in enumerate(blocks):
            names = block.conditions[-1].plain_hosts if block.conditions else ()
            for name in names:
                self._plain.setdefault(name, []).append(index)
            if not names:
                self._others.append(index)

    @classmethod
    def load(cls, path: Path | None = None) -> SshConfig:
        """Parse ``path`` alone, or the user's and the system's configuration where they exist.

        Raises :class:`SshConfigError` with file and line.
        """
        home = Path("~/.ssh").expanduser()
        if path is not None:
            return cls(list(_parse_file(path, (), 0, home)))
        blocks: list[HostBlock] = []
        for file, base in ((home / "config", home), (SYSTEM_CONFIG, SYSTEM_CONFIG.parent)):
            if file.is_file():
                blocks += _parse_file(file, (), 0, base)
        return cls(blocks)

    def values(self, host: str, user: str | None = None, port: int | None = None) -> Values:
        """Everything said about ``host``; ``user`` and ``port`` of the command line go before the files.

        ``Match exec`` runs its command, so this may block. Raises :class:`SshConfigError`.
        """
        values = Values()
        if user is not None:
            values.texts["user"] = (user,)
        if port is not None:
            values.texts["port"] = (str(port),)
        self._apply(values, host, host, final=False)
        if self._final:
            name = _hostname(values, host).lower()
            values.texts["hostname"] = (name.replace("%", "%%"),)
            self._apply(values, name, host, final=True)
        return values

    def _apply(self, values: Values, host: str, original: str, *, final: bool) -> None:
        appended: set[str] = set()
        for index in sorted({*self._others, *self._plain.get(host, ())}):
            block = self._blocks[index]
            if all(self._holds(condition, values, host, original, final) for condition in block.conditions):
                for setting in block.settings:
                    _set(values, setting, appended, final)

    def _holds(self, condition: Condition, values: Values, host: str, original: str, final: bool) -> bool:
        if condition.plain_hosts:
            return host in condition.plain_hosts
        return all(self._test(*test, values, host, original, final) for test in condition.tests)

    def _test(
        self, criterion: str, wanted: str, negated: bool, values: Values, host: str, original: str, final: bool
    ) -> bool:
        hostname = _hostname(values, original)
        user = values.get("user") or getpass.getuser()
        match criterion:
            case "all":
                found = True
            case "final":
                found = final
            case "blockhost":
                found = match_list(host, wanted)
            case "host":
                found = match_list(hostname.lower(), wanted.lower())
            case "originalhost":
                found = match_list(original.lower(), wanted.lower())
            case "user":
                found = match_list(user, wanted)
            case "localuser":
                found = match_list(getpass.getuser(), wanted)
            case "tagged":
                found = match_list(values.get("tag") or "", wanted)
            case "sessiontype":
                found = match_list("exec", wanted)
            case "exec":
                found = self._run(Tokens(original, hostname, values.get("port") or "22", user).expand(wanted))
            case _:  # canonical, localnetwork, command, version: never true for a connection made here
                found = False
        return found != negated

    def _run(self, command: str) -> bool:
        """Whether a command of ``Match exec`` succeeds; run once for all hosts for which it reads the same."""
        if command not in self._ran:
            try:
                done = subprocess.run(
                    [os.environ.get("SHELL", "/bin/sh"), "-c", command], stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=_EXEC_DEADLINE, check=False,
                )  # fmt: skip
                self._ran[command] = done.returncode == 0
            except (OSError, subprocess.TimeoutExpired):
                self._ran[command] = False
        return self._ran[command]


def _hostname(values: Values, original: str) -> str:
    configured = values.get("hostname")
    return Tokens(original, original).expand(configured, "%h") if configured else original


def _set(values: Values, setting: SshSetting, appended: set[str], final: bool) -> None:
    """Take a line's value unless an earlier one stands; identities add up, jump and command exclude each other."""
    keyword = setting.keyword
    if keyword in _REPEATED:
        known = values.texts.get(keyword, ())
        if keyword not in appended and final and known:
            return  # the final pass would only repeat the first
        appended.add(keyword)
        if setting.values[0] not in known:
            values.texts[keyword] = (*known, setting.values[0])
            values.places.setdefault(keyword, setting.place)
        return
    if keyword in values.texts or _RIVALS.get(keyword, "") in values.texts:
        return
    values.texts[keyword] = setting.values
    values.places[keyword] = setting.place


def _parse_file(path: Path, outer: tuple[Condition, ...], depth: int, base: Path) -> Iterator[HostBlock]:
    if depth > _DEPTH:
        raise SshConfigError(f"{path}: more than {_DEPTH} Include files within one another")
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except OSError as error:
        raise SshConfigError(f"{path}: cannot be read: {error.strerror}") from None
    block = HostBlock(outer)
    for number, line in enumerate(text.split("\n"), start=1):
        place = SaidAt(path, number)
        keyword, values = split_words(line.partition("\0")[0], place, _VERBATIM)  # to OpenSSH a line ends there
        if not keyword:
            continue
        if not values:
            raise SshConfigError(f"{place}: {keyword} without a value")
        if keyword in ("host", "match"):
            yield block
            condition = _host(values) if keyword == "host" else _match(values, place)
            block = HostBlock((*outer, condition))
        elif keyword == "include":
            yield block
            for included in _included(values, base, place):
                yield from _parse_file(included, block.conditions, depth + 1, base)
            block = HostBlock(block.conditions)
        else:
            kept = values if keyword in _LISTS else values[:1]
            block.settings.append(SshSetting(keyword, tuple(kept), place))
    yield block


def _included(patterns: Sequence[str], base: Path, place: SaidAt) -> Iterator[Path]:
    for pattern in patterns:
        try:
            whole = base / Path(pattern).expanduser()
        except RuntimeError:
            raise SshConfigError(f"{place}: nobody's home is known for {pattern!r}") from None
        for found in sorted(glob.glob(str(whole))):  # noqa: PTH207 (absolute patterns)
            if Path(found).is_file():
                yield Path(found)


def _host(patterns: Sequence[str]) -> Condition:
    if all(is_plain(pattern) for pattern in patterns):
        return Condition((), tuple(patterns))
    return Condition((("blockhost", ",".join(patterns), False),))


def _match(words: Sequence[str], place: SaidAt) -> Condition:
    tests = []
    rest = list(words)
    while rest:
        word, equals, value = rest.pop(0).partition("=")
        negated = word.startswith("!")
        criterion = word.removeprefix("!").lower()
        if criterion in _SINGLE_CRITERIA:
            tests.append((criterion, "", negated))
            continue
        if criterion not in _CRITERIA:
            raise SshConfigError(f"{place}: Match knows no criterion {criterion!r}")
        if not equals:
            if not rest:
                raise SshConfigError(f"{place}: Match {criterion} without a pattern")
            value = rest.pop(0)
        tests.append((criterion, value, negated))
    return Condition(tuple(tests))
