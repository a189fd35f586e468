"""Rules that hold between the spec and the extracted facts of the pinned build."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from codegen.evidence import check_evidence
from codegen.model import Field, Spec
from codegen.options import Option
from codegen.problems import Problems

_SERVER_SETTING = re.compile(r"params_base\.(?:\w+\.)*(\w+)")


def check_decisions(spec: Spec, root: Path, problems: Problems) -> None:
    """Everything in the pinned build stands in the spec as it is there, and nothing else does.

    What the spec claims was shown by recorded answers, under `root`, the folder of the spec.

    A problem that `spec/exceptions.json` lists with a reason is none; a listed one that there
    isn't any more is one.
    """
    found = Problems()
    _check_routes(spec, found)
    _check_fields(spec, found)
    _check_options(spec, found)
    _check_errors(spec, found)
    _check_metrics(spec, found)
    _check_pin(spec, found)
    check_evidence(spec, root, found)
    known = [exception.problem for exception in spec.exceptions]
    problems.found += [problem for problem in found.found if problem not in known]
    with problems.at("spec/exceptions.json"):
        for problem in known:
            if problem not in found.found:
                problems.add(f"there is no such problem any more, take it out: {problem}")


def _check_routes(spec: Spec, problems: Problems) -> None:
    facts = {_route(fact): fact for fact in spec.upstream["routes"]["routes"]}
    ours = {f"{route.method} {route.path}": route for route in spec.routes}
    with problems.at("spec/routes.json"):
        _same([*facts], [*ours], "route", problems, ordered=False)
        for name, route in ours.items():
            fact = facts.get(name)
            if fact is not None:
                with problems.at(name):
                    _agree("public", route.public, fact["public"], problems)
                    _agree("router only", route.modes == ("router",), fact["router_only"], problems)


def _route(fact: dict[str, Any]) -> str:
    """An extracted route's method and path; one that only the environment names by its variable."""
    return f"{fact['method']} {fact['path'] or '/$' + fact['path_variable']}"


def _check_fields(spec: Spec, problems: Problems) -> None:
    settings = {o.setting: o for o in spec.options if o.setting}
    with problems.at("spec/fields/completion.json"):
        facts = spec.upstream["fields"]["fields"]
        _check_field_list(facts, spec.bodies["completion"].fields, settings, problems)


def _check_field_list(
    facts: list[dict[str, Any]],
    fields: Sequence[Field],
    settings: dict[str, Option],
    problems: Problems,
) -> None:
    _same([f["name"] for f in facts], [f.name for f in fields], "field", problems)
    ours = {f.name: f for f in fields}
    for fact in facts:
        mine = ours.get(fact["name"])
        if mine is not None:
            with problems.at(mine.name):
                _check_field(fact, mine, settings, problems)
                _check_field_list(fact.get("subfields", []), mine.subfields, settings, problems)


def _check_field(
    fact: dict[str, Any], mine: Field, settings: dict[str, Option], problems: Problems
) -> None:
    """One field's aliases, type, limits and default are the extracted ones."""
    _agree("aliases", list(mine.aliases), fact["aliases"], problems)
    _agree("compiled_out", mine.compiled_out, fact["compiled_out"], problems)
    if mine.wire != "custom" or not fact["custom_handler"]:
        _agree("wire", mine.wire, fact["wire"], problems)
    _check_limits(fact["limits"], mine, problems)
    if fact["default"] and not mine.compiled_out:
        _check_field_default(fact["default"], mine, settings, problems)


def _check_limits(fact: dict[str, Any] | None, mine: Field, problems: Problems) -> None:
    kind = {"hard": "reject", "soft": "clamp"}[fact["kind"]] if fact else None
    given = mine.schema["x-llama"].get("limits", {})
    _agree("kind of limits", next(iter(given), None), kind, problems)
    if fact and kind in given:
        for bound, end in zip(given[kind], ("min", "max"), strict=True):
            if bound not in (fact[f"{end}_value"], _bound(fact[end])):
                problems.add(f"{end} is {bound!r}, upstream's {fact[end]}")


def _bound(expression: str) -> str:
    """A bound's name in the spec, from upstream's expression for it."""
    known = {
        "std::numeric_limits<float>::infinity()": "INFINITY",
        "std::numeric_limits<int64_t>::max()": "INT64_MAX",
        "-std::numeric_limits<float>::max()": "-FLOAT_MAX",
    }
    return known.get(expression, expression.removeprefix("params_base."))


def _check_field_default(
    fact: dict[str, Any], mine: Field, settings: dict[str, Option], problems: Problems
) -> None:
    """The default is upstream's: the same setting, with the same value, or the same value."""
    member = _SERVER_SETTING.fullmatch(fact["server"] or "")
    setting = member[1] if member and member[1] in settings else None
    value = mine.default
    if setting is not None:
        _agree("default", value, {"server": setting}, problems)
        value = settings[setting].default
    if fact["value"] is not None and not isinstance(value, dict) and value != fact["value"]:
        source = f"default of {settings[setting].spellings[-1]}" if setting else "default"
        problems.add(f"{source} is {value!r}, upstream's {fact['value']!r}")


def _check_options(spec: Spec, problems: Problems) -> None:
    facts = spec.upstream["options"]["options"]
    ours = [option for option in spec.options if option.section != "own"]
    with problems.at("spec/options.json"):
        names = [" ".join(option.spellings) for option in ours]
        _same([" ".join(fact["spellings"]) for fact in facts], names, "option", problems)
        by_name = dict(zip(names, ours, strict=True))
        for fact in facts:
            mine = by_name.get(" ".join(fact["spellings"]))
            if mine is not None:
                with problems.at(mine.spellings[-1]):
                    _check_option(fact, mine, problems)


def _check_option(fact: dict[str, Any], mine: Option, problems: Problems) -> None:
    _agree("section", mine.section, fact["section"], problems)
    _agree("negative", list(mine.negative), fact["negative_spellings"], problems)
    _agree("env", mine.env, fact["env"], problems)
    _agree("value", list(mine.value), fact["hints"], problems)
    for member in fact["sets"]:
        if member["member"].split(".")[-1] == mine.setting and member["initial"] is not None:
            initial = member["initial"]
            if mine.type == "on_off_auto" and initial == -1:
                initial = None
            default = list(mine.default) if isinstance(mine.default, tuple) else mine.default
            _agree("default", default, initial, problems)


def _check_errors(spec: Spec, problems: Problems) -> None:
    facts = {
        fact["name"].removeprefix("ERROR_TYPE_").lower(): fact
        for fact in spec.upstream["errors"]["kinds"]
    }
    ours = {kind.name: kind for kind in spec.error_kinds.values() if kind.shape == "handler"}
    with problems.at("spec/errors.json"):
        _same([*facts], [*ours], "error kind", problems, ordered=False)
        for name, kind in ours.items():
            if name in facts:
                with problems.at(name):
                    _agree("type", kind.type, facts[name]["type"], problems)
                    _agree("code", kind.code, facts[name]["status"], problems)


def _check_metrics(spec: Spec, problems: Problems) -> None:
    facts = spec.upstream["metrics"]
    ours = {series.name: series for series in spec.metrics}
    with problems.at("spec/metrics.json"):
        _agree("prefix", spec.metrics_prefix, facts["prefix"], problems)
        _same([fact["name"] for fact in facts["metrics"]], [*ours], "series", problems)
        for fact in facts["metrics"]:
            if fact["name"] in ours:
                with problems.at(fact["name"]):
                    _agree("kind", ours[fact["name"]].kind, fact["kind"], problems)


def _check_pin(spec: Spec, problems: Problems) -> None:
    """The facts are of the build that the answers are of, and as many as when last decided."""
    build = spec.upstream["build"]
    with problems.at("spec/pin.json"):
        _agree("build of the recorded answers", spec.pin.recorded_build, build["build"], problems)
        for document, counts in spec.pin.counts.items():
            for what, decided in counts.items():
                now = (build["counts"].get(document) or {}).get(what)
                if now != decided:
                    problems.add(f"{decided} {document} {what} were decided, there are {now}")


def _agree(what: str, ours: object, upstream: object, problems: Problems) -> None:
    if ours != upstream or isinstance(ours, bool) != isinstance(upstream, bool):
        problems.add(f"{what} is {ours!r}, upstream's {upstream!r}")


def _same(
    upstream: list[str], ours: list[str], what: str, problems: Problems, *, ordered: bool = True
) -> None:
    """Both lists hold the same things, and in the same order where that means something."""
    for name in upstream:
        if name not in ours:
            problems.add(f"{what} {name!r} of the pinned build has no decision: add its status")
    for name in ours:
        if name not in upstream:
            problems.add(f"{what} {name!r} is not in the pinned build")
    if ordered and sorted(upstream) == sorted(ours) and upstream != ours:
        first = next(a for a, b in zip(upstream, ours, strict=True) if a != b)
        problems.add(f"order differs from upstream's, first at {what} {first!r}")
