"""The literals of a pattern: texts of which any text that the pattern matches has one.

A literal that is absent from a block of lines costs a third of a nanosecond a byte (``bytes.find``), which no regular
expression reaches: by them the lines are found that a rule may match, without looking at the others.
"""

from __future__ import annotations

import re
from typing import List, Optional, Sequence, Tuple

LONG_ENOUGH = 12
"""Characters of a literal; longer ones are no better."""
_MOST = 12
"""Texts that one part of a pattern may stand for, to be put together with what stands beside it."""
_TOKEN = re.compile(
    r"\\(?P<escaped>[^A-Za-z0-9])|(?P<anchor>\\[bBAZ]|[\^$])|\\u(?P<code>[0-9a-f]{4})|(?P<any>\\[A-Za-z0-9]|\.)"
    r"|\[(?P<chosen>[^\^\\\]-][^\\\]-]{1,2})\]|(?P<set>\[\^?\]?(?:\\.|[^\]\\])*\])|(?P<around>\(\?<?[=!])|(?P<blind>\(\?i:)"
    r"|(?P<flags>\(\?[a-z]+\))|(?P<open>\((?:\?:|\?P<\w+>)?)|(?P<close>\))|(?P<bar>\|)"
    r"|(?P<repeat>[*+?]\??|\{\d*,?\d*\}\??)|(?P<text>[^\\\[\](){}|*+?.^$]+|[{}\]])",
    re.DOTALL,
)
Texts = Optional[List[str]]


def required(pattern: str) -> Tuple[str, ...]:
    """Literals of which any text that the pattern matches has one; empty where there are none."""
    tokens = [(str(match.lastgroup), match.group(match.lastgroup or 0)) for match in _TOKEN.finditer(pattern)]
    exact, best, _ = _alternatives(tokens, 0)
    return tuple(best or [text for text in exact or () if text])


def _alternatives(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """Of a group, from its first token on: all texts that it matches, where they are few; its literals; its end."""
    exacts: List[Texts] = []
    bests: List[Texts] = []
    while True:
        exact, best, at = _sequence(tokens, at)
        exacts.append(exact)
        bests.append(best)
        if at >= len(tokens) or tokens[at][0] == "close":
            break
        at += 1
    whole = [text for exact in exacts for text in exact or ()]
    exact = whole if all(each is not None for each in exacts) and len(whole) <= _MOST else None
    return exact, [text for best in bests for text in best or ()] if all(bests) else None, at


def _sequence(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """The same of one alternative: the most telling of its parts counts, the longest, then that of the fewest."""
    found: List[List[str]] = []
    runs, is_exact = [""], True
    while at < len(tokens) and tokens[at][0] not in ("close", "bar"):
        kind, text = tokens[at]
        exact, best, at = _part(tokens, at)
        repeat = tokens[at][1] if at < len(tokens) and tokens[at][0] == "repeat" else ""
        if repeat and kind == "text" and len(text) > 1:  # it repeats the last character alone
            runs = [run + text[:-1] for run in runs]
            exact = [text[-1]]
        if repeat:
            at += 1
            best, exact = (None if repeat[0] in "*?" or repeat.startswith(("{0", "{,")) else best or exact), None
        if exact is not None and len(runs) * len(exact) <= _MOST:
            runs = [run + more for run in runs for more in exact]
            continue
        is_exact = False
        found += [runs, best or [""]]
        runs = exact or [""]
    found.append(runs)
    telling = [each for each in found if all(each)]
    return runs if is_exact else None, max(telling, key=_worth) if telling else None, at


def _part(tokens: Sequence[Tuple[str, str]], at: int) -> Tuple[Texts, Texts, int]:
    """The same of one part: characters, a set of them, or a group; where the next one begins."""
    kind, text = tokens[at]
    if kind in ("text", "escaped"):
        return [text], [text], at + 1
    if kind == "code":
        return [chr(int(text, 16))], None, at + 1
    if kind == "chosen":
        return list(text), None, at + 1
    if kind in ("anchor", "flags"):
        return [""], None, at + 1
    if kind in ("open", "around", "blind"):
        exact, best, at = _alternatives(tokens, at + 1)
        if kind != "open":
            exact, best = [""] if kind == "around" else None, None
        return exact, best, at + 1
    return None, None, at + 1


def _worth(literals: List[str]) -> Tuple[int, int]:
    return min(LONG_ENOUGH, *map(len, literals)), -len(literals)
