"""What thousands of samples say alike is one text; what is said by one alone is taken too."""

from __future__ import annotations

import json
from typing import NamedTuple, get_args

from collectors.fleet.common_words import WORDS
from collectors.fleet.decode import Decoder
from collectors.samples.ranks import Helper, RankPulse
from collectors.samples.registry import SAMPLES
from hangtop.session.state.past import pulses
from tests.support.made import gpu_row, pulse


def decoded(*samples: NamedTuple) -> list[NamedTuple]:
    line = json.dumps([type(samples[0]).__name__, *samples]).encode() + b"\n"
    decoder = Decoder()
    found = decoder.feed(line)
    assert decoder.renew() == []
    return found


def test_usual_words_are_one_text() -> None:
    ranks = decoded(pulse(1, state="R"), pulse(2, state="R")) + decoded(pulse(3, state="R"))
    assert len({id(rank.state) for rank in ranks if isinstance(rank, RankPulse)}) == 1
    one, other = decoded(gpu_row(0, pstate="P2"), gpu_row(1, pstate="P2"))
    assert one.pstate is other.pstate == "P2"  # type: ignore[attr-defined]


def test_another_word_is_no_bad_line_and_its_neighbours_are_as_they_were() -> None:
    sent = (pulse(1, state="R"), pulse(2, state="W"), pulse(3, state="parked"))
    assert decoded(*sent) == list(sent)
    helper = Helper(2, 1, "profiler", "K", "", 0.5, 4096, "nsys")
    assert decoded(helper) == [helper]
    assert decoded(gpu_row(0, pstate="P16")) == [gpu_row(0, pstate="P16")]


def test_a_past_holds_another_word_too() -> None:
    kept = pulses()
    kept.append(1.0, [pulse(1, state="W")])
    assert [look.state for _, look in kept.of(1)] == ["W"]


def test_each_field_with_usual_words_is_a_text_of_its_kind() -> None:
    kinds = {kind.__name__: kind for kind in SAMPLES}
    for kind, fields in WORDS.items():
        assert set(fields) <= set(kinds[kind]._fields)
        assert all(isinstance(word, str) for words in fields.values() for word in get_args(words))
