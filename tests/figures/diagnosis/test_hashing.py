"""Fingerprints: equal values in any Arrow form are equal, unequal ones differ, and they never change between runs."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from figures.diagnosis import hashing
from figures.diagnosis.hashing import fingerprints, mix

TRICKY = ["", "a", "b", "ab", "ba", "a\0", "\0a", "\0", "\0\0", "aaaaaaa", "aaaaaaaa", "aaaaaaaaa", "aaaaaaaab",
          "baaaaaaaa", "a" * 16, "a" * 17, "é", "e\u0301", "0", "00", " ", "  ", "a b", "a  b"]  # fmt: skip


def test_equal_text_in_every_form() -> None:
    plain = fingerprints(pa.array(TRICKY))
    forms = [
        pa.array(TRICKY, pa.large_string()),
        pa.array(TRICKY).dictionary_encode(),
        pa.chunked_array([TRICKY[:5], TRICKY[5:6], [], TRICKY[6:]], pa.string()),
        pa.array(["before", *TRICKY, "after"]).slice(1, len(TRICKY)),
        pa.array([text.encode() for text in TRICKY]),
    ]
    for form in forms:
        assert fingerprints(form).tolist() == plain.tolist()


def test_a_text_alone_is_the_text_among_others() -> None:
    assert [int(fingerprints(pa.array([text]))[0]) for text in TRICKY] == fingerprints(pa.array(TRICKY)).tolist()


def test_unequal_texts_differ() -> None:
    assert len(set(fingerprints(pa.array(TRICKY)).tolist())) == len(TRICKY)
    many = [f"{i}" for i in range(50_000)] + [f"prompt {i} of many, with words" for i in range(50_000)]
    assert len(set(fingerprints(pa.array(many)).tolist())) == len(many)


def test_null_is_zero_and_nothing_else_is() -> None:
    found = fingerprints(pa.array(["a", None, ""]))
    assert found[1] == 0
    assert found[0] != 0
    assert found[2] != 0
    assert fingerprints(pa.nulls(2)).tolist() == [0, 0]


def test_lists_keep_their_borders_and_order() -> None:
    rows = [["ab", "c"], ["a", "bc"], ["abc"], ["c", "ab"], [], [""], ["", ""], ["ab", "c", ""]]
    found = fingerprints(pa.array(rows))
    assert len(set(found.tolist())) == len(rows)
    assert fingerprints(pa.array([["x"], *rows]).slice(1)).tolist() == found.tolist()
    assert fingerprints(pa.array(rows, pa.large_list(pa.string()))).tolist() == found.tolist()


def test_chats_are_told_apart_by_role_and_content() -> None:
    chats = [[{"role": "user", "content": "a"}], [{"role": "system", "content": "a"}], [{"role": "user", "content": "b"}],
             [{"role": "user", "content": "a"}, {"role": "user", "content": "a"}]]  # fmt: skip
    found = fingerprints(pa.array(chats))
    assert len(set(found.tolist())) == 4
    assert fingerprints(pa.array([chats[0]]))[0] == found[0]


def test_numbers_are_their_text() -> None:
    assert fingerprints(pa.array([1, 2])).tolist() == fingerprints(pa.array(["1", "2"])).tolist()


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [f"{i} " * (i % 40) for i in range(500)]
    whole = fingerprints(pa.array(texts))
    monkeypatch.setattr(hashing, "_BLOCK", 3)
    assert fingerprints(pa.array(texts)).tolist() == whole.tolist()


def test_they_are_the_same_in_every_run() -> None:
    """Files of different days meet in one diagnosis; were the function to change, these numbers would."""
    assert [int(value) for value in fingerprints(pa.array(["a", "what is 2 + 2?"]))] == PINNED
    assert int(mix(np.array([1]), np.array([2]))[0]) != int(mix(np.array([2]), np.array([1]))[0])


PINNED = [11252186497514830567, 17064811624917061881]
