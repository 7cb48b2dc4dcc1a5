"""The rules, ready to be asked: numbered, found by their literals, matched against a line."""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Optional, Pattern, Tuple

from collectors.node import late_re as re
from collectors.node.logs import blocks
from collectors.node.logs.blocks import Block
from collectors.node.logs.context import STEMS
from collectors.node.logs.prefilter import Scanner, required
from collectors.node.logs.prefixes import Line
from collectors.node.logs.rule import ParsedEvent, Rule, apply
from collectors.node.logs.rules import SUBJECTS


class Row(NamedTuple):
    """A rule, ready to be asked."""

    bit: int
    rule: Rule
    pattern: "Pattern[str]"
    begins: "Optional[Pattern[str]]"


def _prepared() -> Tuple[Dict[str, Tuple[Row, ...]], List[Tuple[bytes, int]]]:
    """The rules with a bit for each, and the literals by which their lines are found."""
    rows: Dict[str, Tuple[Row, ...]] = {}
    literals: List[Tuple[bytes, int]] = []
    bit = 1 << 2
    for subject, rules in SUBJECTS.items():
        made = []
        for rule in rules:
            begins = re.compile(rule.begins) if rule.begins else None
            made.append(Row(bit, rule, re.compile(rule.pattern), begins))
            for pattern in filter(None, (rule.pattern, rule.begins)):
                literals.extend((literal.encode("utf-8"), bit) for literal in required(pattern))
            bit <<= 1
        rows[subject] = tuple(made)
    return rows, literals


OPENS, ALONE = 1, 2
"""Bits of the literals that open a block, and of those that the reader itself looks at."""
ROWS, _LITERALS = _prepared()
_LITERALS += [(literal, OPENS) for literal in blocks.OPENERS]
_LITERALS += [(literal, ALONE) for literal in (*STEMS, b"Error:", b"Exception:", b"worker.status.FAILED")]
SCANNER = Scanner(_LITERALS)
"""Finds the lines that the reader wants to see."""
MASKS = {subject: sum(row.bit for row in rows) for subject, rows in ROWS.items()}


def continued(subject: str, rows: Tuple[Row, ...], line: Line, mask: int) -> Optional[Block]:
    """The record that a line begins and that goes on in the next ones, by the rules of a subject."""
    for bit, rule, _, begins in rows:
        if mask & bit and begins is not None and begins.search(line.text):
            return blocks.Continued(rule, subject, lambda text: matches(rows, text), line)
    return None


def matches(rows: Tuple[Row, ...], text: str, mask: Optional[int] = None) -> List[ParsedEvent]:
    """What the rules of one subject find in a text: the first of them, and those marked ``also``."""
    mask = SCANNER.mask(text.encode("utf-8", "replace")) if mask is None else mask
    found: List[ParsedEvent] = []
    done = False
    for bit, rule, pattern, _ in rows:
        if mask & bit and (rule.also or not done):
            match = pattern.search(text)
            event = None if match is None else apply(rule, match)
            if event is not None:
                found.append(event)
                done = done or not rule.also
    return found
