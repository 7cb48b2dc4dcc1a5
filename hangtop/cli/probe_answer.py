"""What every probe's command ends with: its answer as JSON or as a table, and the exit code."""

from __future__ import annotations

import json as codec
import sys
from collections.abc import Iterable
from typing import Any, NoReturn

import click

from hangtop.cli.answer import Answer, as_json, as_text, wants_colour
from hangtop.diagnosis.phrasing import outcome_words


def answered(
    ctx: click.Context, answer: Answer, outcome: str, *, figures: dict[str, Any], table: Iterable[str], json: bool
) -> NoReturn:
    """Print the answer and leave: ``figures`` go into the JSON (docs/findings.md), ``table`` is for people."""
    if json:
        click.echo(codec.dumps(as_json(answer) | {"verdict": outcome} | figures, indent=2, ensure_ascii=False))
    else:
        click.echo(f"{outcome_words(outcome).upper()}  {answer.verdict.summary}\n")
        click.echo("\n".join(table))
        if answer.verdict.findings:
            click.echo("".join(as_text(answer, colour=wants_colour(sys.stdout)).partition("\n\n")[1:]), nl=False)
    ctx.exit(answer.exit_code if answer.exit_code == 3 else int(outcome != "ok"))
