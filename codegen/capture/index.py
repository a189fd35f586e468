"""Tells which captures stand behind an entry of the spec."""

from pathlib import Path

from codegen.capture import captures
from codegen.capture.canonical import Replies
from codegen.capture.covers import replies_of
from codegen.capture.probes import read_setups
from codegen.load import load


def index(root: Path) -> dict[str, list[str]]:
    """`field:NAME`, `field:BODY.NAME`, `route:METHOD PATH` and `reply:NAME` to names group/capture.

    `root` is the folder of the spec. A reply counts where an answer was read as it.
    """
    spec = load(root)
    replies = Replies.read(root)
    setups = read_setups(root).by_name
    found: dict[str, list[str]] = {}
    for group, recorded in captures.read_all(root):
        for capture in recorded:
            replies.met.clear()
            replies.answer(
                capture.answer, replies_of(spec, capture.probe.request, setups[group.setup])
            )
            name = f"{group.name}/{capture.probe.name}"
            for entry in (*capture.probe.covers, *(f"reply:{r}" for r in sorted(replies.met))):
                found.setdefault(entry, []).append(name)
    return {entry: found[entry] for entry in sorted(found)}
