"""Finds secrets in the commands of well-known programs, as :mod:`collectors.node.secrets.options` lists them.

A command comes as words, or somewhere within a text: a script, a list in Python or JSON, a command given to another
program. Quotes are looked at no closer than a secret needs: it is better to blot out a word too many.
"""

from __future__ import annotations

import re
from typing import Dict, List, Optional, Tuple

from collectors.node.secrets.names import sounds_secret
from collectors.node.secrets.options import BY_PROGRAM, Rule

WORDS = 2000
"""Words that are looked at in one text, each once for each program it may belong to: a text may be all programs."""
_OF_ONE = 64
"""Words that are looked at for one program in a text."""

_PROGRAM = re.compile(r"(?<![\w.-])(?P<name>[A-Za-z0-9][\w-]{1,30})(?:\.\w{1,20}){0,3}(?:\\{0,3}[\"'])?(?=[\s,])")
_BETWEEN = re.compile(r"(?:[ \t,]|(?<=,)\n|\\\n)+")
_WORD = re.compile(
    r"(?P<open>'\"'\"'|\\{0,3}[\"'])(?P<inner>(?:(?!(?P=open)).)*)(?:(?P=open))?"
    r"|(?:[^\s\"'\\;|&()<>`]|\$\([^)]*\)?|(?P<mid>\\{0,3}[\"'])(?=[^\s\"',;&|}\])\\])(?:(?!(?P=mid)).)*(?P=mid)|\\.)+",
    re.DOTALL,
)
_HEADER = re.compile(r"(?:\\{0,3}[\"'])?(?P<name>[\w-]{1,60}):\s{0,3}")
_PAIRED = re.compile(r"[\w.\\-]{1,60}$")
_READS_IT = r"--(?:password|passphrase|token|api-key)?-?stdin|--with-token|--passphrase-fd|chpasswd|sudo\s+-S|\blogin\b"
_PIPED = re.compile(r"\s*\|[^;\n]{0,200}?(?:%s)" % _READS_IT)
_HERE = re.compile(r"(?:%s)[^;\n<]{0,100}<<<\s*" % _READS_IT)


class _Followed:
    """What one rule makes of the words of a command."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._options = _signs(rule.options)
        self._glued = _signs(rule.glued)
        self._missing = set(rule.after.split())
        self._awaited: Optional[str] = None
        """The sign of the option whose value comes next."""
        self._plain = 0
        self._before = ""
        self._over = False

    def keeps(self, word: str) -> Optional[int]:
        """How many characters of the command's next word may be shown; None if all."""
        awaited, self._awaited = self._awaited, None
        if awaited is not None:
            return _shown(awaited, word)
        name, equals, value = word.partition("=")
        if self._missing:
            self._missing.discard(word)
            self._missing -= {missing for missing in self._missing if missing[0] == "-" and _among(missing, word)}
            return None
        if self._over:
            return None
        if word.startswith(("-", "/p:")):
            return self._option(word, name, equals, value)
        return self._word(word, name, equals)

    def _option(self, word: str, name: str, equals: str, value: str) -> Optional[int]:
        if word.startswith("/p:"):
            return 3 if "/p" in self._options else None
        if name in self._options:
            sign = self._options[name]
            if equals:
                kept = _shown(sign, value)
                return None if kept is None else len(name) + 1 + kept
            self._awaited = sign
            return None
        if word.startswith("--"):
            return None
        for letters, sign in self._glued.items():
            at = word.find(letters, 1)
            if at < 1 or not all(letter in self._rule.flags for letter in word[1:at]):
                continue
            end = at + len(letters)
            if end == len(word):
                self._awaited = sign if "-" + letters in self._options else None
                return None
            kept = _shown(sign, word[end:])
            return None if kept is None else end + kept
        return None

    def _word(self, word: str, name: str, equals: str) -> Optional[int]:
        before, self._before, self._over = self._before, word, self._rule.leading
        if self._rule.named and before and sounds_secret(before):
            return 0
        if self._rule.settings and equals:
            return len(name) + 1
        if self._rule.pairs and self._rule.pairs in word:
            at = word.index(self._rule.pairs)
            return at + 1 if _PAIRED.match(word[:at]) else None
        if self._rule.kept >= 0 and not equals:
            self._plain += 1
            # An address says where to log in; what is secret in it is found as in any other.
            return 0 if self._plain > self._rule.kept and "://" not in word else None
        return None


class Command:
    """Follows the words of one program's command, the first one after its name."""

    def __init__(self, program: str) -> None:
        self._rules = [_Followed(rule) for rule in BY_PROGRAM[program]]

    def keeps(self, word: str) -> Optional[int]:
        """How many characters of the next word may be shown; None if all."""
        told = [kept for kept in [rule.keeps(word) for rule in self._rules] if kept is not None]
        return min(told) if told else None


def program(word: str) -> str:
    """The program that a word of a command line runs, if its options are known: ``/usr/bin/curl``, ``wandb.cli``."""
    name = word[-100:].rpartition("/")[2].partition(".")[0]
    return name if name in BY_PROGRAM else ""


def secrets_in(text: str) -> List[Tuple[int, int]]:
    """Where secrets stand in a text that may hold commands: beginnings and ends, in order and apart."""
    found: List[Tuple[int, int]] = []
    left = WORDS
    for match in _PROGRAM.finditer(text):
        name = match.group("name")
        if left > 0 and name in BY_PROGRAM:
            spans, looked = _of_command(text, match.end(), Command(name))
            left -= looked
            found += spans
        elif left > 0 and name in ("echo", "printf"):
            spans, looked = _piped(text, match.end())
            left -= looked
            found += spans
    for here in _HERE.finditer(text):
        word = _WORD.match(text, here.end())
        if word is not None:
            found.append(word.span())
    return _apart(found)


def _of_command(text: str, at: int, command: Command) -> Tuple[List[Tuple[int, int]], int]:
    """Where secrets stand in the command whose words begin here, and how many words it has."""
    found: List[Tuple[int, int]] = []
    for count in range(_OF_ONE):
        between = _BETWEEN.match(text, at)
        word = _WORD.match(text, between.end()) if between is not None else None
        if word is None:
            return found, count + 1
        start, at = word.span()
        inner = word.group("inner")
        if inner is not None:
            start = word.start("inner")
        kept = command.keeps(word.group() if inner is None else inner)
        if kept is not None:
            found.append((start + kept, word.end("inner") if inner is not None else at))
    return found, _OF_ONE


def _piped(text: str, at: int) -> Tuple[List[Tuple[int, int]], int]:
    """Where the words stand that are printed from here on, if who reads them takes them for a secret."""
    words: List[Tuple[int, int]] = []
    while len(words) < _OF_ONE:
        between = _BETWEEN.match(text, at)
        word = _WORD.match(text, between.end()) if between is not None else None
        if word is None:
            break
        at = word.end()
        words.append(word.span())
    return (words if _PIPED.match(text, at) else []), len(words) + 1


def _signs(options: str) -> Dict[str, str]:
    """Options by name with the sign that tells how much of the value is secret; empty: all."""
    return {name: sign for name, _, sign in (option.partition(">") for option in options.split())}


def _among(letter: str, word: str) -> bool:
    """Whether an option of one letter (``-b``) stands among those of a word (``-nbB``)."""
    return word.startswith("-") and not word.startswith("--") and letter[1:] in word


def _shown(sign: str, value: str) -> Optional[int]:
    """How many characters of an option's value may be shown; None if all."""
    if not sign:
        return 0
    if sign == "H":
        header = _HEADER.match(value)
        return header.end() if header is not None and sounds_secret(header.group("name")) else None
    if sign not in value:
        return None
    if sign in "@=":
        return 0
    return value.index(sign) + 1


def _apart(spans: List[Tuple[int, int]]) -> List[Tuple[int, int]]:
    """Spans in order, those that overlap made one, empty ones left out."""
    apart: List[Tuple[int, int]] = []
    for start, end in sorted(spans):
        if start >= end:
            continue
        if apart and start <= apart[-1][1]:
            apart[-1] = (apart[-1][0], max(end, apart[-1][1]))
        else:
            apart.append((start, end))
    return apart
