"""What the bench makes of what it measured; nothing is measured here."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.bench import results
from tests.bench.load import LoadError, Stream, speed
from tests.bench.results import Figure, Goal, Report


def test_tokens_are_counted_while_all_streams_run() -> None:
    # From 1.0, when the second has its first token, to 3.0, when the first ends: 2 and 4 tokens.
    assert speed([[0.0, 2.0, 3.0], [1.0, 1.5, 2.0, 2.5, 3.0, 3.5]], 3) == pytest.approx(
        (2 * 3 / 3 + 4 * 3 / 6) / 2
    )
    with pytest.raises(LoadError, match=r"^the streams didn't run together: ask for more tokens$"):
        speed([[0.0, 1.0], [1.0, 2.0]], 2)


def stream(*pieces: bytes) -> Stream:
    received = [(float(moment), piece) for moment, piece in enumerate(pieces)]
    return Stream(connection=None, sent=-1.0, received=received)  # type: ignore[arg-type]


def test_a_frame_counts_when_its_end_has_come() -> None:
    head = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    native = stream(
        head,
        b'17\r\ndata: {"content":"a"}\n\n\r\n17\r\ndata: {"con',
        b'tent":"b"}\n\n\r\n15\r\ndata: {"content":""}\n\n\r\n',
    )
    assert (native.status, native.moments(), native.first_token) == (200, [1.0, 2.0], 2.0)
    openai = stream(head, b'data: {"choices": [{"text": "a"}]}\n\n', b"data: [DONE]\n\n")
    assert openai.moments() == [1.0]
    with pytest.raises(LoadError, match=r"^no text came: b'HTTP/1.1 400 Bad Request'$"):
        stream(b"HTTP/1.1 400 Bad Request").moments()


def report(**changes: object) -> Report:
    figures = (
        Figure("1 stream", "mlx-llama-server", (4.0, 2.0, 3.0)),
        Figure("1 stream", "other", (1.5, 1.5, 1.5)),
    )
    goals = (Goal("ours / other", 2.0, 1.5, at_least=True), Goal("slower by", 4.0, 3.0, unit="%"))
    values: dict[str, object] = {"figures": figures, "goals": goals, **changes}
    return Report(part="streams", title="Streams", unit="tokens/s", **values)  # type: ignore[arg-type]


def test_figures_stand_beside_their_goals() -> None:
    rows = [" ".join(line.split()) for line in report().text().splitlines()]
    assert rows == [
        "Streams",
        "median tokens/s min – max ours is",
        "1 stream mlx-llama-server 3.000 2.000 – 4.000",
        "1 stream other 1.500 1.500 – 1.500 2.00 ×",
        "ours / other 2.00 × at least 1.5 ×: met",
        "slower by 4.00 % at most 3 %: NOT met",
    ]


@pytest.mark.parametrize("curve", [(), ((0.0, 200.0), (100.0, 210.0))])
def test_a_report_is_kept_and_drawn(
    curve: tuple[tuple[float, float], ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "FOLDER", tmp_path)
    report(curve=curve, curve_axes=("requests", "MiB")).show()
    kept = json.loads((tmp_path / "streams.json").read_text())
    assert [goal["met"] for goal in kept["goals"]] == [True, False]
    drawn = ElementTree.parse(tmp_path / "streams.svg").getroot()
    assert drawn.tag == "{http://www.w3.org/2000/svg}svg"
    page = (tmp_path / "index.html").read_text()
    assert "not met" in page and page.count("<svg") == 1
