"""What changed between two extracted builds: routes, fields, keys, options, texts, metrics."""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SAME, DIFFERENT, TROUBLE = 0, 1, 2
"""Exit statuses, as of diff(1)."""


_WORDS = ("added", "removed", "changed", "moved", "not compared")


class DiffError(Exception):
    """A folder that holds no readable extract."""


@dataclass(frozen=True)
class Change:
    """One change: `what` is one of _WORDS; `detail` says from what to what."""

    what: str
    subject: str
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.what} {self.subject}" + (f": {self.detail}" if self.detail else "")


def changes(old: Mapping[str, Json], new: Mapping[str, Json]) -> dict[str, list[Change]]:
    """Every change by area; areas without changes are there with an empty list."""
    found = {}
    for area, (file, compare) in _AREAS.items():
        unread = [*_unread("the old", old, file), *_unread("the new", new, file)]
        found[area] = unread or list(compare(old[file], new[file]))
    return found


def _unread(which: str, extract: Mapping[str, Json], file: str) -> Iterator[Change]:
    """Why a document of an extract is missing: nothing is said about what it would hold."""
    for problem in extract["build.json"].get("unread", {}).get(file, []):
        yield Change("not compared", f"{which} {file}", problem)


def _routes(old: Json, new: Json) -> Iterator[Change]:
    def key(route: Json) -> str:
        return f"{route['method']} {route['path'] or '$' + route['path_variable']}"

    yield from _entries(old["routes"], new["routes"], key, skip=("order", "method", "path"))
    yield from _values("public paths", old["public_paths"], new["public_paths"])


def _fields(old: Json, new: Json) -> Iterator[Change]:
    def flat(document: Json) -> list[Json]:
        rows = []
        for field in document["fields"]:
            rows.append({name: value for name, value in field.items() if name != "subfields"})
            for subfield in field.get("subfields", []):
                rows.append({**subfield, "name": f"{field['name']}.{subfield['name']}"})
        return rows

    def facts(field: Json) -> str:
        limits = field["limits"] or {}
        parts = [*field["aliases"], field["wire"] or field["kind"]]
        parts += [str(limits[part]) for part in ("kind", "min", "max") if part in limits]
        return " ".join(parts)

    name = "name"
    yield from _entries(flat(old), flat(new), lambda f: f[name], skip=("order",), facts=facts)


def _options(old: Json, new: Json) -> Iterator[Change]:
    skip = ("order", "printed", "examples")
    for part in ("options", "preset_only"):
        before = {option["name"]: option for option in old[part]}
        after = [_as_far_known(option, before.get(option["name"])) for option in new[part]]
        yield from _entries(old[part], after, lambda o: o["name"], skip=skip, facts=_spelt)


def _spelt(option: Json) -> str:
    """How an option is given."""
    spellings = [*option["spellings"], *option["negative_spellings"]]
    value = [hint or "VALUE" for hint in option["hints"]]
    variables = [f"${option[name]}" for name in ("env", "negative_env") if option[name]]
    return " ".join([", ".join(spellings), *value, *variables])


def _as_far_known(option: Json, before: Json | None) -> Json:
    """The option, with what only --help tells taken from before if one side lacks it."""
    if before is None:
        return option
    known = dict(option)
    if None in before["hints"] or None in option["hints"]:
        known["hints"] = before["hints"]
    one, other = before["default"], option["default"]
    if one and other and one["expression"] == other["expression"]:
        composed = one["printed"] is None or other["printed"] is None
        known["default"] = {**other, "printed": one["printed"]} if composed else other
    return known


def _functions(old: Json, new: Json) -> Iterator[Change]:
    """A line for each file and kind of change."""
    for file in sorted({*old["files"], *new["files"]}):
        if file not in new["files"] or file not in old["files"]:
            yield Change("added" if file in new["files"] else "removed", file)
            continue
        before, after = old["files"][file], new["files"][file]
        lists = {
            "removed": [name for name in before if name not in after],
            "added": [name for name in after if name not in before],
            "changed": [n for n in before if n in after and before[n] != after[n]],
        }
        for what, names in lists.items():
            if names:
                yield Change(what, file, ", ".join(names))


def _metrics(old: Json, new: Json) -> Iterator[Change]:
    yield from _entries(old["metrics"], new["metrics"], lambda m: m["name"], skip=("order",))


def _kinds(old: Json, new: Json) -> Iterator[Change]:
    yield from _entries(old["kinds"], new["kinds"], lambda kind: kind["name"], skip=())


def _texts(old: Json, new: Json) -> Iterator[Change]:
    def text(entry: Json) -> str:
        facts = [str(entry[name]) for name in ("kind", "status") if name in entry]
        body = json.dumps(entry["text"], ensure_ascii=False) if "text" in entry else "forwarded"
        if "text" not in entry:
            facts.append(entry["expression"])
        return f"{entry['how']} {body}" + (f" ({', '.join(facts)})" if facts else "")

    yield from _lists(old, new, lambda entries: [text(entry) for entry in entries])


def _bodies(old: Json, new: Json) -> Iterator[Change]:
    def text(read: Json) -> str:
        facts = [f"{name} {read[name]}" for name in ("default", "as") if name in read]
        return f"{read['object']}.{read['accessor']} {read['key']!r}" + (
            f" ({', '.join(facts)})" if facts else ""
        )

    yield from _lists(old, new, lambda reads: [text(read) for read in reads])


def _replies(old: Json, new: Json) -> Iterator[Change]:
    def keys(entry: Json) -> list[str]:
        literals = [key for literal in entry["literals"] for key in literal]
        return [repr(key) for key in literals] + [f"set {key}" for key in entry["assigned"]]

    yield from _lists(old, new, keys)


_AREAS: dict[str, tuple[str, Callable[[Json, Json], Iterator[Change]]]] = {
    "Routes": ("routes.json", _routes),
    "Request fields": ("fields.json", _fields),
    "Keys read from bodies": ("bodies.json", _bodies),
    "Keys written into replies": ("reply_keys.json", _replies),
    "Options": ("options.json", _options),
    "Kinds of error": ("errors.json", _kinds),
    "Error texts": ("errors.json", _texts),
    "Metrics": ("metrics.json", _metrics),
    "Functions, by file": ("functions.json", _functions),
}

FILES = ("build.json", *dict.fromkeys(file for file, _ in _AREAS.values()))
"""What an extract consists of."""


def _entries(
    old: Sequence[Json],
    new: Sequence[Json],
    key: Callable[[Json], str],
    skip: Sequence[str],
    facts: Callable[[Json], str] = lambda entry: "",
) -> Iterator[Change]:
    """Changes between two lists of entries that have a name each.

    `facts` is what is said of an entry that came or went.
    """
    before = {key(entry): entry for entry in old}
    after = {key(entry): entry for entry in new}
    for name in before:
        if name not in after:
            yield Change("removed", name, facts(before[name]))
    for name in after:
        if name not in before:
            texts = [_added(after, name), facts(after[name])]
            yield Change("added", name, "; ".join(filter(None, texts)))
    for name in before:
        if name not in after:
            continue
        for fact in dict.fromkeys([*before[name], *after[name]]):
            one, other = before[name].get(fact), after[name].get(fact)
            if fact in skip or one == other:
                continue
            detail = f" {_show(one)} → {_show(other)}"
            if fact.endswith("_sha256"):
                detail = ""
            elif fact.endswith("_uses"):
                detail = _came_and_went(one or [], other or [])
            yield Change("changed", name, fact.removesuffix("_sha256") + detail)
    yield from _moves(list(before), list(after))


def _came_and_went(old: Sequence[str], new: Sequence[str]) -> str:
    """Of two lists whose order means nothing, the differences."""
    gone = [f"-{text}" for text in old if text not in new]
    return " " + " ".join([*gone, *(f"+{text}" for text in new if text not in old)])


def _added(after: Mapping[str, Json], name: str) -> str:
    """Behind which entry a new one stands."""
    names = list(after)
    position = names.index(name)
    return f"after {names[position - 1]}" if position else "first"


def _moves(old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    """Names that are in both lists and stand elsewhere among the others."""
    before = [name for name in old if name in set(new)]
    after = [name for name in new if name in set(old)]
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    kept = {
        name for block in matcher.get_matching_blocks() for name in before[block.a :][: block.size]
    }
    for name in after:
        if name not in kept:
            position = after.index(name)
            where = f"after {after[position - 1]}" if position else "to the front"
            yield Change("moved", name, where)


def _lists(old: Json, new: Json, texts: Callable[[Any], list[str]]) -> Iterator[Change]:
    """Changes between file → function → things, each thing shown as a text.

    What left one function and came into another of the same file has moved.
    """
    for file in sorted({*old["files"], *new["files"]}):
        before, after = old["files"].get(file, {}), new["files"].get(file, {})
        removed: list[tuple[str, str]] = []
        added: list[tuple[str, str]] = []
        reordered: list[str] = []
        for function in [*before, *(name for name in after if name not in before)]:
            one = texts(before[function]) if function in before else []
            other = texts(after[function]) if function in after else []
            gone = [text for text in dict.fromkeys(one) if text not in other]
            come = [text for text in dict.fromkeys(other) if text not in one]
            removed += [(function, text) for text in gone]
            added += [(function, text) for text in come]
            if not gone and not come and one != other:
                reordered.append(function)
        for function, text in removed:
            target = next((to for to, moved in added if moved == text), None)
            if target is None:
                yield Change("removed", f"{file} {function}()", text)
            else:
                added.remove((target, text))
                yield Change("moved", f"{file} {function}()", f"to {target}(): {text}")
        yield from (Change("added", f"{file} {function}()", text) for function, text in added)
        yield from (Change("changed", f"{file} {name}()", "order or number") for name in reordered)


def _values(subject: str, old: Sequence[str], new: Sequence[str]) -> Iterator[Change]:
    yield from (Change("removed", subject, value) for value in old if value not in new)
    yield from (Change("added", subject, value) for value in new if value not in old)


def _show(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def as_text(found: Mapping[str, list[Change]], title: str) -> str:
    """The report for a terminal."""
    lines = [title]
    for area, list_ in found.items():
        lines.append(f"\n{area}: {count(list_)}")
        lines += [f"  {change}" for change in list_]
    return "\n".join(lines) + "\n"


def as_markdown(found: Mapping[str, list[Change]], title: str) -> str:
    """The report for a pull request."""
    lines = [f"# {title}"]
    for area, list_ in found.items():
        lines += ["", f"## {area}", "", count(list_)]
        lines += [""] if list_ else []
        for change in list_:
            detail = f": {code(change.detail)}" if change.detail else ""
            lines.append(f"- {change.what} {code(change.subject)}{detail}")
    return "\n".join(lines) + "\n"


def code(text: str) -> str:
    """`text` as a code span, fenced by more backticks than it holds."""
    longest = max(map(len, re.findall("`+", text)), default=0)
    fence = "`" * (longest + 1)
    space = " " if longest else ""
    return f"{fence}{space}{text}{space}{fence}"


def count(list_: Sequence[Change]) -> str:
    counts = {word: sum(change.what == word for change in list_) for word in _WORDS}
    return ", ".join(f"{n} {word}" for word, n in counts.items() if n) or "no change"


def read_extract(folder: Path) -> dict[str, Json]:
    """The documents of an extract; raises DiffError."""
    documents: dict[str, Json] = {}
    for name in FILES:
        if name in documents.get("build.json", {}).get("unread", {}):
            continue
        try:
            documents[name] = json.loads((folder / name).read_text(encoding="utf-8"))
        except OSError as error:
            raise DiffError(f"{folder / name} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise DiffError(f"{folder / name} is not JSON: {error}") from error
    return documents


def main(argv: Sequence[str]) -> int:
    """Run the command; 0 if nothing changed, 1 if something did, 2 if it can't be told."""
    parser = argparse.ArgumentParser(
        prog="python -m codegen diff", description="Compare two extracts of llama.cpp builds."
    )
    parser.add_argument("old", type=Path, help="folder that extract wrote")
    parser.add_argument("new", type=Path, help="folder that extract wrote")
    parser.add_argument("--markdown", action="store_true", help="print Markdown")
    arguments = parser.parse_args(argv)
    try:
        old, new = read_extract(arguments.old), read_extract(arguments.new)
        found = changes(old, new)
    except DiffError as error:
        print(error, file=sys.stderr)
        return TROUBLE
    except (KeyError, TypeError, AttributeError) as error:
        print(f"an extract has another shape than expected: {error!r}", file=sys.stderr)
        return TROUBLE
    builds = [document["build.json"].get("build") or "unknown" for document in (old, new)]
    title = f"llama.cpp {builds[0]} → {builds[1]}"
    sys.stdout.write((as_markdown if arguments.markdown else as_text)(found, title))
    return DIFFERENT if any(found.values()) else SAME
