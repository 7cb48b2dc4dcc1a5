"""The command palette: every action that is valid here, ranks, findings, columns, nodes and themes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple, cast

from textual.command import CommandPalette, DiscoveryHit, Hit, Hits, Provider
from textual.content import Content

from hangtop.diagnosis.phrasing import ranks_on, ranks_text
from tui.actions import ACTIONS
from tui.host import Host
from tui.looks.keys import shown_keys
from tui.looks.text import harmless
from tui.panels.base import Place
from tui.panels.findings import key_of, where

if TYPE_CHECKING:
    from collections.abc import Callable


MOST_RANKS = 20
ALIKE = 0.65
"""How much a word must be like a name to be taken for a slip of the finger."""
FIRST = 1000.0
"""Added to what puts it before all that was found by its letters."""
MOST_TYPED = 40
"""Characters of it that are compared."""


class _Offer(NamedTuple):
    text: str
    help: str
    run: Callable[[], object]
    first: bool
    """Offered before anything was typed."""


def almost(query: str, offers: Iterable[_Offer]) -> Iterator[tuple[float, _Offer]]:
    """Actions of which a word of the name, or all of it, is spelled almost as what was typed; how much it is alike."""
    typed = query.casefold().strip()[:MOST_TYPED]
    for offer in offers:
        name = offer.text.rpartition(" (")[0].casefold() if offer.first else ""
        alike = max((SequenceMatcher(None, typed, word).ratio() for word in (name, *name.split())), default=0.0)
        if alike >= ALIKE:
            yield alike, offer


class ActionsProvider(Provider):
    """Offers actions by title and help, everything else by name."""

    @property
    def _host(self) -> Host:
        return cast("Host", self.app)

    def _offers(self) -> Iterator[_Offer]:
        app = self._host
        for action in ACTIONS:
            if action.valid(app.panel.can) and not action.id.startswith("move."):
                keys = " ".join(shown_keys(app.options.keymap.get(action.id, action.keys)))
                yield _Offer(f"{action.title} ({keys})", action.help, partial(app.start, action.id), first=True)
        yield from self._things(app)
        for node in app.scene.nodes:
            place = Place("ranks", f"node={node.name}")
            yield _Offer(f"Node {harmless(node.name)}", "its ranks", partial(app.start_going, place), first=False)
        for theme in sorted(app.available_themes):
            yield _Offer(f"Theme {theme}", "colours", partial(setattr, app, "theme", theme), first=False)

    def _things(self, app: Host) -> Iterator[_Offer]:
        """Findings, and the columns of the panel."""
        verdict = app.session.verdict
        for finding in verdict.findings if verdict is not None else ():
            place = Place("findings", "", key_of(finding), finding.kind)
            text = harmless(f"Finding {finding.kind}, {where(finding)}")
            yield _Offer(text, harmless(finding.summary), partial(app.start_going, place), first=False)
        for column in app.panel.columns_told():
            help_ = column.help or f"column of {app.stage.top}"
            yield _Offer(f"Column {column.title}", help_, partial(app.panel.go_column, column.key), first=False)

    def _ranks(self, app: Host, query: str) -> Iterator[_Offer]:
        """Ranks whose number begins with what was typed: of many thousands nobody wants to see them all."""
        typed = "".join(character for character in query if character.isdigit())
        if typed:
            found = (row for row in app.scene.ranks if str(row.number).startswith(typed))
            for row in islice(found, MOST_RANKS):
                place = Place("ranks", "", row.number, ranks_text([row.number]))
                text = ranks_on([row.number], [row.node.name])
                yield _Offer(harmless(text.capitalize()), "its process", partial(app.start_going, place), first=False)

    async def discover(self) -> Hits:
        """All actions."""
        for offer in self._offers():
            if offer.first:
                yield DiscoveryHit(Content(offer.text), offer.run, offer.text, offer.help)

    async def search(self, query: str) -> Hits:
        """What matches, best first; where no name does, what is called almost so before what says it somewhere."""
        matcher, named = self.matcher(query), False
        offers = list(self._offers())
        for offer in (*self._ranks(self._host, query), *offers):
            name, said = matcher.match(offer.text), 0.6 * matcher.match(offer.help)
            named = named or name > 0
            if name > 0 or said > 0:
                yield Hit(max(name, said), matcher.highlight(offer.text), offer.run, offer.text, offer.help)
        for alike, offer in () if named else almost(query, offers):
            yield Hit(FIRST + alike, Content(offer.text), offer.run, offer.text, offer.help)


class Palette(CommandPalette):
    """Textual's palette."""
