"""What each kind of speculation guesses; the drafts are those of llama.cpp's own code."""

from array import array
from pathlib import Path

import pytest

from engine.errors import ModelError
from engine.running.runner import Runner
from engine.speculation import NgramSizes, make_speculator
from engine.speculation.drafter import Drafter
from engine.speculation.ngram_cache import LookupFileError, NgramCache, read_lookup_file
from engine.speculation.ngram_map import NgramMap
from engine.speculation.ngram_mod import NgramMod
from engine.speculation.ngram_simple import NgramSimple
from engine.speculation.ordered_counts import OrderedCounts
from engine.speculation.search import find_last
from tests.tiny_llama import N_VOCAB, model_here, speculation

SMALL = NgramSizes(size_n=2, size_m=4, min_hits=1)
COUNTED = [1, 2, 3, 4, 5, 6, 7, 8, 9]


def draft(drafter: Drafter, tokens: list[int], last: int) -> list[int]:
    return drafter.draft(0, tokens, last, 1000)


def test_simple_takes_what_followed_last() -> None:
    tokens = [0, 1, 2, 3, 4, 5, 6, 0, 1, 2, 7, 8, 9, 9, 1]
    assert draft(NgramSimple(SMALL), tokens, 2) == [7, 8, 9, 9]


@pytest.mark.parametrize(
    ("tokens", "last", "expected"),
    [
        ([5, 1, 2, 3, 4, 1], 2, []),  # too short to look at
        ([5, 1, 2, 3, 4, 5, 6, 1], 2, [3, 4, 5, 6]),
        ([1, 2, 3, 4, 5, 6, 7, 1], 2, []),  # the first place counts as none
        ([0, 0, 0, 0, 0, 1, 2, 3, 1], 2, [3, 1]),
        ([0, 0, 0, 0, 0, 0, 1, 2, 1], 2, []),  # fewer than size_n follow
    ],
)
def test_simple_at_its_limits(tokens: list[int], last: int, expected: list[int]) -> None:
    assert draft(NgramSimple(SMALL), tokens, last) == expected


def test_a_map_drafts_no_more_than_was_right_the_last_time() -> None:
    drafter = NgramMap(SMALL, key_only=True)
    tokens = [0, *COUNTED, 0, 1]
    drafter.begin(0, tokens)
    assert draft(drafter, tokens, 2) == [3, 4, 5, 6]
    drafter.accepted(0, 3)
    tokens += [2, 3, 4, 5, 0, 0, 1]
    assert draft(drafter, tokens, 2) == [3, 4, 5]
    assert draft(drafter, tokens, 8) == []


def test_a_map_of_values_drafts_what_followed_most_often() -> None:
    drafter = NgramMap(SMALL, key_only=False)
    often, once = [1, 2, 3, 3, 3, 3], [1, 2, 4, 4, 4, 4]
    drafter.begin(0, tokens := [0, *often, *often, *once, 0, 0, 0, 0, 1])
    assert draft(drafter, tokens, 2) == [4, 4, 4, 4]
    drafter.begin(1, tokens := [0, *often, *once, 0, 0, 0, 0, 1])
    assert drafter.draft(1, tokens, 2, 1000) == []


def test_values_need_hits() -> None:
    drafter = NgramMap(NgramSizes(size_n=2, size_m=4, min_hits=2), key_only=False)
    tokens = [0, *COUNTED, 0, 1]
    drafter.begin(0, tokens)
    assert draft(drafter, tokens, 2) == []
    assert draft(drafter, tokens, 2) == [3, 4, 5, 6]


def test_a_map_survives_that_its_text_is_shifted() -> None:
    drafter = NgramMap(SMALL, key_only=True)
    drafter.begin(0, tokens := [0, *COUNTED, *COUNTED, 0, 1])
    assert draft(drafter, tokens, 2) == [3, 4, 5, 6]
    assert draft(drafter, [0, 0, *COUNTED, 0, 1], 2) == [3, 4, 5, 6]


def test_mod_follows_its_table_for_all_slots() -> None:
    drafter = NgramMod(n_match=2, n_max=4, n_min=2)
    drafter.begin(0, [0, *COUNTED, 0])
    assert drafter.draft(1, [5, 1], 2, 1000) == [3, 4, 5, 6]
    assert drafter.draft(1, [5, 6], 7, 1000) == [8, 9, 0]
    assert drafter.draft(1, [5, 8], 9, 1000) == []  # only one token is known
    assert drafter.draft(1, [5], 9, 1000) == []


def test_mod_empties_its_table_when_guesses_keep_going_wrong() -> None:
    drafter = NgramMod(n_match=2, n_max=4, n_min=2)
    drafter.begin(0, [0, *COUNTED, 0])
    for _ in range(4):
        assert drafter.draft(0, [5, 1], 2, 1000) == [3, 4, 5, 6]
        drafter.accepted(0, 0)
    assert drafter.draft(0, [5, 1], 2, 1000) == [3, 4, 5, 6]
    drafter.accepted(0, 0)
    assert drafter.draft(0, [5, 1], 2, 1000) == []


def test_cache_counts_within_what_comes_together() -> None:
    drafter = NgramCache({}, {})
    assert draft(drafter, [1, 2, 3, 1, 2, 3, 1, 2], 3) == [1, 2, 3, 1, 2, 3, 1, 2]
    assert draft(drafter, [1, 2, 3, 1, 2, 3, 1, 2, 3], 9) == []
    assert draft(NgramCache({}, {}), [], 1) == []


def test_lookup_files_are_read_and_asked(tmp_path: Path) -> None:
    path = tmp_path / "static"
    # After 1, 2 came 7 nine times and 8 once.
    path.write_bytes(array("i", [1, 2, -1, -1, 2, 7, 9, 8, 1]).tobytes())
    table = read_lookup_file(str(path))
    assert draft(NgramCache(table, {}), [5, 1], 2) == [7]
    assert draft(NgramCache({}, table), [5, 1], 2) == [7]
    assert draft(NgramCache({}, {}), [5, 1], 2) == []


NEVER_COUNTED = array("i", [1, 2, -1, -1, 1, 7, 0]).tobytes()


@pytest.mark.parametrize("content", [b"abc", b"abcd", NEVER_COUNTED])
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "none"
    path.write_bytes(content)
    with pytest.raises(LookupFileError, match=f"^{path} is no lookup cache$"):
        read_lookup_file(str(path))
    settings = speculation("ngram-cache", lookup_static=str(tmp_path / "missing"))
    with pytest.raises(ModelError, match=r"^couldn't read .*missing: No such file"):
        make_speculator(settings, Runner(model_here().model, N_VOCAB), None)


def test_counts_are_in_the_order_of_libstdcxx() -> None:
    counts = OrderedCounts()
    for token in (1, 2, 14, 3, 1):
        counts.add(token, 1)
    # 14 shares a bucket with 1, the oldest one.
    assert list(counts.items()) == [(3, 1), (2, 1), (14, 1), (1, 2)]
    for token in range(20, 30):
        counts.add(token, 1)
    # With the fourteenth token the table grew, which turned the order of the older ones round.
    grown = [29, 1, 14, 27, 2, 28, 3, 20, 21, 22, 23, 24, 25, 26]
    assert [token for token, _ in counts.items()] == grown


@pytest.mark.parametrize(
    ("wanted", "above", "highest", "place"),
    [([2], 0, 9, 4), ([2], 0, 3, 1), ([2], 1, 3, None), ([2, 3], 0, 9, 1), ([9], 0, 9, None)],
)
def test_the_last_place_is_found(
    wanted: list[int], above: int, highest: int, place: int | None
) -> None:
    assert find_last([2, 2, 3, 0, 2], wanted, above, highest) == place


def test_nothing_is_found_across_tokens() -> None:
    assert find_last([0, 0x01000000, 0x02000000, 0], [0x00000001], 0, 3) is None
    assert find_last([0, 1, 0x01000000, 0], [1], 0, 3) == 1


def test_the_first_kind_that_says_something_is_taken() -> None:
    sizes = NgramSizes(size_n=2, size_m=3, min_hits=1)
    settings = speculation("ngram-map-k", "ngram-simple", simple=SMALL, map_k=sizes)
    speculator = make_speculator(settings, Runner(model_here().model, N_VOCAB), None)
    assert speculator is not None
    speculator.begin(0, tokens := [0, *COUNTED, 0, 1])
    assert speculator.draft(0, tokens, 2, 100) == [3, 4, 5, 6]
    assert speculator.draft(0, tokens, 2, 2) == [3, 4]
    speculator.accepted(0, 1)
    assert speculator.n_max == 4
