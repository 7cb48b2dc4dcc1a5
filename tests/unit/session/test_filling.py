"""Mappings that most hold empty: nobody sees what another took."""

from __future__ import annotations

import copy
import pickle

from collectors.samples.ranks import Helper
from hangtop.session.options import SessionOptions
from hangtop.session.session import Session
from hangtop.session.state.filling import nothing, with_one, without
from tests.support.made import hello, process


def test_the_first_begins_a_dictionary_of_its_own() -> None:
    one = with_one(nothing(), 1, "a")
    assert with_one(one, 2, "b") is one
    assert one == {1: "a", 2: "b"}
    assert nothing() == {}
    assert without(one, 1) == {2: "b"}
    assert without(one, 3) is one


def test_copies_that_share_an_empty_one_do_not_share_what_comes() -> None:
    for left, right in (copy.deepcopy((nothing(), nothing())), pickle.loads(pickle.dumps((nothing(), nothing())))):
        left = with_one(left, 1, "a")
        assert (left, right, nothing()) == ({1: "a"}, {}, {})


def test_a_helper_of_one_rank_is_no_other_ranks() -> None:
    session = Session(SessionOptions(), clock=lambda: 1000.0)
    session.samples("node1", [hello(1000.0), process(0), process(1)], 1)
    first, second = session.state.nodes["node1"].ranks.values()
    helper = Helper(7, first.process.pid, "data_worker", "S", "", 0.0, 0, "python")
    session.samples("node1", [helper], 1)
    assert list(first.helpers) == [7]
    assert not second.helpers
