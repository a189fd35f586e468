"""Text leaves the engine in whole characters, and nothing of a stop string leaves it."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from engine.text import TextStream, cut_off_at, partial_stop_at


def pieces_of(data: bytes, cuts: list[int]) -> list[bytes]:
    """`data` cut at the given places, each modulo its length."""
    at = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    return [data[start:end] for start, end in pairwise(at)]


def shown_by(stream: TextStream, pieces: list[bytes]) -> tuple[list[bytes], str | None]:
    """All that was shown up to the stop string, if one came."""
    chunks = []
    for piece in pieces:
        shown = stream.add(piece, last=False)
        if shown.complete:
            chunks.append(shown.text)
        if shown.stopped_by is not None:
            return chunks, shown.stopped_by
    return chunks, None


@given(st.text(), st.lists(st.integers(0, 1000)))
def test_text_split_anywhere_comes_out_in_whole_characters(text: str, cuts: list[int]) -> None:
    chunks, _ = shown_by(TextStream((), 0), pieces_of(text.encode(), cuts))
    assert "".join(chunk.decode() for chunk in chunks) == text


@given(
    st.text("ab\u00e9\U0001f600"),
    st.lists(st.text("ab\u00e9\U0001f600", min_size=1, max_size=3), max_size=3),
    st.lists(st.integers(0, 1000)),
)
def test_nothing_of_a_stop_string_is_shown(text: str, stop: list[str], cuts: list[int]) -> None:
    stream = TextStream(stop, 0)
    chunks, stopped_by = shown_by(stream, pieces_of(text.encode(), cuts))
    shown = b"".join(chunks).decode()
    assert text.startswith(shown)
    assert not any(word in shown for word in stop)
    if stopped_by is None:
        assert not any(word in text for word in stop)
        assert stream.whole() == text
    else:
        assert text.startswith(shown + stopped_by)
        assert stream.whole() == shown


@given(st.binary(), st.lists(st.integers(0, 1000)))
def test_bytes_that_are_no_characters_read_the_same_in_pieces(data: bytes, cuts: list[int]) -> None:
    stream = TextStream(("stop",), 0)
    chunks, _ = shown_by(stream, pieces_of(data, cuts))
    shown = "".join(chunk.decode(errors="replace") for chunk in chunks)
    assert shown + stream.held_back() == stream.whole()


def test_the_last_token_lets_go_of_what_was_held_back() -> None:
    stream = TextStream(("<end>",), 0)
    assert [stream.add(p, last=False).text for p in (b"a<", b"e")] == [b"", b""]
    assert stream.add(b"", last=True).text == b"a<e"


def test_the_earliest_of_two_stop_strings_counts() -> None:
    stream = TextStream(("cd", "bc"), 0)
    shown = stream.add(b"abcd", last=False)
    assert (shown.text, shown.stopped_by) == (b"a", "bc")


def test_where_a_character_is_cut_off() -> None:
    cases = {b"": 0, b"a": 1, b"a\xc3": 1, b"\xc3\xa9": 2, b"a\xf0\x9f\x98": 1, b"\x80": 1}
    assert {text: cut_off_at(text) for text in cases} == cases


def test_where_a_stop_string_may_begin() -> None:
    assert partial_stop_at(b"one <en", b"<end>") == 4
    assert partial_stop_at(b"one", b"<end>") == -1


def test_a_line_indented_too_little_is_cut_off() -> None:
    stream = TextStream((), 2)
    broken = []
    for piece in (b"a\n", b"  b\n", b" ", b"c"):
        stream.add(piece, last=False)
        broken.append(stream.breaks_indentation())
    assert broken == [False, False, False, True]
    assert stream.whole() == "a\n  b\n "
