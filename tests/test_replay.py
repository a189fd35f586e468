"""This server answers every recorded request as the reference did, unless the spec says no."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from codegen.capture import captures
from codegen.capture.replay import Replay, Replayed, write_result
from codegen.load import load

SPEC = Path(__file__).parent.parent / "spec"
GROUPS = [path.stem for path in sorted((SPEC / "captures").glob("*.json"))]


class Replays:
    """The replay, and what came out of it so far."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.done: dict[str, list[Replayed]] = {}


@pytest.fixture(scope="module")
def replays() -> Iterator[Replays]:
    with ExitStack() as stack:
        replays = Replays(Replay(load(SPEC), SPEC, stack))
        yield replays
    if set(replays.done) == set(GROUPS):
        write_result([r for group in replays.done.values() for r in group])


@pytest.mark.parametrize("group", GROUPS)
def test_answers_as_the_reference_did(replays: Replays, group: str) -> None:
    done = list(replays.replay.group(*captures.read(SPEC / "captures" / f"{group}.json")))
    replays.done[group] = done
    assert "\n".join(str(r) for r in done if r.fails) == ""
