"""Every command-line option that llama-server takes, in the order they are declared."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from codegen.extract.cpp import Source, Token, literal, spell
from codegen.extract.fields import sha256
from codegen.extract.functions import text_sha256
from codegen.extract.scopes import Function, conditions, functions
from codegen.extract.structs import Structs, Value
from codegen.extract.tree import Tree

ARG = "common/arg.cpp"
MACROS = "common/arg.h"
PARSER = "common_params_parser_init"
PRESETS = "common_params_add_preset_options"
EXAMPLE = "LLAMA_EXAMPLE_SERVER"
COMMON = "LLAMA_EXAMPLE_COMMON"
PARAMS = "common_params"

SECTIONS = ("common", "sampling", "speculative", "server")
"""As --help prints them; upstream heads the last one "example-specific params"."""

_HANDLERS = {
    ("params",): "flag",
    ("params", "int"): "int",
    ("params", "bool"): "bool",
    ("params", "string"): "string",
    ("params", "string", "string"): "string, string",
}
_FLAGS = {"set_sampling": "sampling", "set_spec": "spec", "set_preset_only": "preset_only"}
_CONVERSION = re.compile(r"%(?:\.\d+)?(?:zu|[a-z])")
_CHANGES = frozenset(("=", "+=", "|=", "-="))
_CHANGING_CALLS = frozenset(("push_back", "emplace_back", "insert", "emplace", "clear", "erase"))


@dataclass
class Option:
    """One option as declared."""

    spellings: list[str]
    negative: list[str]
    hints: list[str | None]
    help: tuple[Token, ...]
    handler: tuple[int, int]
    value: str
    env: str | None = None
    examples: list[str] = field(default_factory=lambda: [COMMON])
    excludes: list[str] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    when: list[str] = field(default_factory=list)

    @property
    def of_server(self) -> bool:
        """Whether llama-server takes the option."""
        taken = EXAMPLE in self.examples or COMMON in self.examples
        return taken and EXAMPLE not in self.excludes

    @property
    def section(self) -> str:
        """The section of --help that it stands in."""
        if "sampling" in self.flags:
            return "sampling"
        if "spec" in self.flags:
            return "speculative"
        return "server" if EXAMPLE in self.examples else "common"


def extract_options(tree: Tree, structs: Structs) -> dict[str, Any]:
    """`options.json`; everything that isn't understood becomes a problem of the tree."""
    return _Reader(tree, structs).document()


class _Reader:
    def __init__(self, tree: Tree, structs: Structs) -> None:
        self.tree = tree
        self.structs = structs
        self.source = tree.source(ARG).live
        self.functions = {function.name: function for function in functions(self.source)}
        self.overrides: dict[str, Value] = {}
        self.lists: dict[str, list[str]] = {}
        self.names = _string_macros(tree)

    def document(self) -> dict[str, Any]:
        self.lists = self._example_lists()
        parser = self.functions.get(PARSER)
        presets = self.functions.get(PRESETS)
        if parser is None:
            self.tree.missing(ARG, f"{PARSER}() isn't there")
        declared = self._declared(parser, "add_opt", "(") if parser else []
        preset_only = self._declared(presets, "args", ".", "push_back", "(") if presets else []
        if parser:
            self.overrides = self._server_overrides(parser)
            self._check_all_read(parser, len(declared))
        options = [option for option in declared if option.of_server]
        self._check_unique(options)
        counts = dict.fromkeys(SECTIONS, 0)
        for option in options:
            counts[option.section] += 1
        return {
            "source": ARG,
            "counts": {
                "declared": len(declared),
                "of_server": len(options),
                "sections": counts,
                "conditional": sum(bool(option.when) for option in options),
                "preset_only": len(preset_only),
            },
            "options": [self._json(option, n) for n, option in enumerate(options)],
            "preset_only": [self._json(option, n) for n, option in enumerate(preset_only)],
        }

    def _check_all_read(self, parser: Function, read: int) -> None:
        source = self.source
        made = [
            i
            for i in source.find("common_arg", "(", start=parser.start, end=parser.end)
            if source.text(i - 1) == "("
        ]
        calls = [
            i
            for i in source.find("add_opt", "(", start=parser.start, end=parser.end)
            if not source.matches(i + 2, "common_arg")
        ]
        for i in calls:
            self.tree.problem(source, i, "add_opt() of something that is no common_arg(...)")
        if len(made) != read and not self.tree.problems:
            self.tree.missing(ARG, f"{len(made)} options are made, {read} were read")

    def _check_unique(self, options: list[Option]) -> None:
        seen: set[str] = set()
        for option in options:
            for spelling in [*option.spellings, *option.negative]:
                if spelling in seen and not option.when:
                    self.tree.missing(ARG, f"{spelling} is declared twice")
                seen.add(spelling)

    def _example_lists(self) -> dict[str, list[str]]:
        """Named lists of examples: `static std::initializer_list<...> name = {...};`."""
        source = self.source
        lists = {}
        for i in source.find("=", "{"):
            names = [token.text for token in source.slice(i + 2, source.close(i + 1))]
            examples = names[::2]
            if examples and all(name.startswith("LLAMA_EXAMPLE_") for name in examples):
                lists[source.text(i - 1)] = examples
        return lists

    def _server_overrides(self, parser: Function) -> dict[str, Value]:
        """Settings that start differently in llama-server: member → value."""
        source = self.source
        found = {}
        for i in source.find("params", ".", start=parser.start, end=parser.end):
            if source.text(i - 1) not in (";", "{", "}"):
                continue
            if self._when(parser, i) != []:
                continue
            equals = next(source.find("=", start=i))
            end = next(source.find(";", start=i))
            if equals < end and conditions(source, parser, i):
                value = self.structs.value(source.slice(equals + 1, end))
                found[spell(source.slice(i + 2, equals))] = value
        return found

    def _when(self, parser: Function, i: int) -> list[str] | None:
        """The conditions at `i` that depend on more than the example; None if it's another's."""
        open_conditions = []
        for text in conditions(self.source, parser, i):
            verdict = _of_server(text)
            if verdict is False:
                return None
            if verdict is None:
                open_conditions.append(text)
        return open_conditions

    def _declared(self, function: Function, *call: str) -> list[Option]:
        source = self.source
        options = []
        start = len(call)
        for i in source.find(*call, start=function.start, end=function.end):
            made = i + start
            if not source.matches(made, "common_arg", "("):
                if call[0] != "add_opt":
                    self.tree.problem(source, i, "something that is no common_arg(...) is added")
                continue
            when = self._when(function, i)
            option = self._option(made)
            if option is None:
                continue
            if when is None:
                option.excludes.append(EXAMPLE)
            else:
                option.when = when
                if any(not _is_condition(text) for text in when):
                    self.tree.problem(source, i, "an option is added in a block that is no if")
            options.append(option)
        return options

    def _option(self, i: int) -> Option | None:
        """The option whose `common_arg(` is at `i`."""
        source = self.source
        close = source.close(i + 1)
        spans = source.split(i + 2, close)
        lists: list[list[str]] = []
        while spans and source.text(spans[0][0]) == "{":
            names = self._strings(*spans[0])
            if names is None:
                break
            lists.append(names)
            spans = spans[1:]
        texts, handler = spans[:-1], spans[-1] if spans else (close, close)
        hints = [literal(source.slice(*span)) for span in texts[:-1]]
        value = self._handler(handler)
        readable = (
            len(lists) in (1, 2)
            and len(texts) in (1, 2, 3)
            and (len(lists) == 1 or len(texts) == 1)
            and all(self._is_hint(span) for span in texts[:-1])
            and value is not None
        )
        if not readable:
            self.tree.problem(source, i, "unreadable arguments of an option")
            return None
        option = Option(
            spellings=lists[0],
            negative=lists[1] if len(lists) == 2 else [],
            hints=hints,
            help=source.slice(*texts[-1]),
            handler=handler,
            value=value or "",
        )
        if not any(token.kind == "str" for token in option.help):
            self.tree.problem(source, texts[-1][0], "an option's description has no text")
        self._chain(option, close + 1)
        return option

    def _strings(self, start: int, end: int) -> list[str] | None:
        spans = self.source.split(start + 1, end - 1)
        texts = [literal(self.source.slice(*span)) for span in spans]
        return [t for t in texts if t is not None] if None not in texts and texts else None

    def _is_hint(self, span: tuple[int, int]) -> bool:
        """Whether the name of a value is literal, or a call that composes it."""
        tokens = self.source.slice(*span)
        return literal(tokens) is not None or tokens[-1].text == ")"

    def _handler(self, span: tuple[int, int]) -> str | None:
        """The kind of value that the handler takes, by its parameters."""
        source = self.source
        start, _ = span
        if not source.matches(start, "[", "]", "("):
            return None
        kinds = []
        for begin, end in source.split(start + 3, source.close(start + 2)):
            words = {token.text for token in source.slice(begin, end)}
            named = {"common_params": "params", "string": "string", "int": "int", "bool": "bool"}
            kinds.append(next((kind for word, kind in named.items() if word in words), "?"))
        return _HANDLERS.get(tuple(kinds))

    def _chain(self, option: Option, i: int) -> None:
        """Apply the calls that follow an option's constructor."""
        source = self.source
        while source.text(i) == ".":
            name = source.text(i + 1)
            close = source.close(i + 2)
            argument = source.slice(i + 3, close)
            if name in ("set_examples", "set_excludes"):
                names = self._examples(argument)
                if names is None:
                    self.tree.problem(source, i, f"unreadable list of {option.spellings[0]}")
                elif name == "set_examples":
                    option.examples = names
                else:
                    option.excludes = names
            elif name == "set_env" and argument:
                option.env = literal(argument) or self.names.get(spell(argument))
                if option.env is None:
                    self.tree.problem(source, i, "unreadable environment variable")
            elif name in _FLAGS and not argument:
                option.flags.add(_FLAGS[name])
            else:
                self.tree.problem(source, i, f"unknown method on option {option.spellings[0]}")
            i = close + 1
        if source.text(i) != ")":
            self.tree.problem(source, i, f"unreadable end of option {option.spellings[0]}")

    def _examples(self, argument: tuple[Token, ...]) -> list[str] | None:
        if len(argument) == 1 and argument[0].text in self.lists:
            return self.lists[argument[0].text]
        names = [token.text for token in argument[1:-1:2]]
        braced = bool(argument) and argument[0].text == "{" and argument[-1].text == "}"
        return names if braced and all(n.startswith("LLAMA_EXAMPLE_") for n in names) else None

    def _json(self, option: Option, order: int) -> dict[str, Any]:
        negative_env = None
        if option.env and option.negative:
            negative_env = option.env.replace("LLAMA_ARG_", "LLAMA_ARG_NO_")
        return {
            "name": longest(option.spellings),
            "order": order,
            "section": option.section,
            "spellings": option.spellings,
            "negative_spellings": option.negative,
            "env": option.env,
            "negative_env": negative_env,
            "value": option.value,
            "hints": option.hints,
            "default": self._default(option),
            "sets": self._sets(option),
            "when": option.when,
            "removed": self._is_removed(option),
            "examples": option.examples,
            "handler_text_sha256": text_sha256(self.source, *option.handler),
            "description_sha256": sha256(_texts(option.help)),
        }

    def _is_removed(self, option: Option) -> bool:
        """Whether using the option is an error whatever its value: its handler only throws."""
        brace = next(self.source.find("{", start=option.handler[0]))
        return self.source.text(brace + 1) in ("throw", "arg_removed")

    def _sets(self, option: Option) -> list[dict[str, Any]]:
        """The settings that the handler changes, with their types and initial values."""
        source = self.source
        found: dict[str, dict[str, Any]] = {}
        for i in source.find("params", ".", start=option.handler[0], end=option.handler[1]):
            end = i + 3
            while source.text(end) == "." and source[end + 1].kind == "id":
                end += 2
            is_call = source.text(end) == "("
            path = [token.text for token in source.slice(i + 2, end)[::2]]
            if is_call:
                if path[-1] not in _CHANGING_CALLS:
                    continue
                path = path[:-1]
            elif source.text(end) == "[":
                end = source.close(end) + 1
                if source.text(end) not in _CHANGES:
                    continue
            elif source.text(end) not in _CHANGES:
                continue
            name = ".".join(path)
            member = self.structs.member(PARAMS, path)
            if member is None:
                self.tree.problem(source, i, f"setting {name} isn't declared")
                continue
            value = self.overrides.get(name, member.value)
            facts = {"member": name, "type": member.type, "initial": value}
            if value is None and member.initial is not None:
                facts["initial_expression"] = member.initial
            found.setdefault(name, facts)
        return list(found.values())

    def _default(self, option: Option) -> dict[str, Any] | None:
        """The default that the description prints, and where its value comes from."""
        text, arguments = self._format(option.help)
        found = find_default(text)
        if found is None:
            return None
        first = len(_CONVERSION.findall(text[: _default_at(text)].replace("%%", "")))
        used = arguments[first : first + len(_CONVERSION.findall(found))]
        if not used:
            return {"printed": found, "expression": None, "value": None}
        values = iter([self._evaluate(argument) for argument in used])
        printed = [_print(conversion, next(values)) for conversion in _CONVERSION.findall(found)]
        texts = iter([text or "" for text in printed])
        return {
            "printed": None if None in printed else _CONVERSION.sub(lambda _: next(texts), found),
            "expression": spell(used[0]),
            "value": self._setting(used[0]),
        }

    def _format(self, help_: tuple[Token, ...]) -> tuple[str, list[tuple[Token, ...]]]:
        """The description's text and the arguments it is formatted with."""
        source = Source(ARG, help_)
        if not source.matches(0, "string_format", "(") or source.close(1) != len(source) - 1:
            return _texts(help_), []
        first, *rest = source.split(2, len(source) - 1)
        arguments = [source.slice(*span) for span in rest]
        format_ = source.slice(*first)
        if len(format_) > 3 and format_[1].text == "==" and format_[3].text == "?":
            choice = Source(ARG, format_)
            colon = next(choice.find(":"))
            yes = _of_server(spell(choice.slice(0, 3)))
            format_ = choice.slice(4, colon) if yes else choice.slice(colon + 1, len(choice))
        return _texts(format_), arguments

    def _setting(self, tokens: tuple[Token, ...]) -> Value:
        """The value of the setting behind a printed default; a choice shows its condition's."""
        source = Source(ARG, tokens)
        question = next(source.find("?"), None)
        return self._evaluate(tokens if question is None else tokens[:question])

    def _evaluate(self, tokens: tuple[Token, ...]) -> Value:
        """The value of a setting, a literal, or `setting ? "yes" : "no"`; None if unknown."""
        source = Source(ARG, tokens)
        question = next(source.find("?"), None)
        if question is not None:
            colon = next(source.find(":", start=question))
            condition = self._evaluate(tokens[:question])
            if not isinstance(condition, bool):
                return None
            return literal(tokens[question + 1 : colon] if condition else tokens[colon + 1 :])
        equal = next(source.find("=="), None)
        if equal is not None:
            left, right = self._evaluate(tokens[:equal]), self._evaluate(tokens[equal + 1 :])
            return None if left is None or right is None else left == right
        if source.text(0) == "(" and source.close(0) < len(tokens) - 1:
            return self._evaluate(tokens[source.close(0) + 1 :])  # a cast
        if len(tokens) > 4 and spell(tokens[-4:]) == ".c_str()":
            return self._evaluate(tokens[:-4])
        if source.text(0) == "params":
            path = [token.text for token in tokens[2::2]]
            member = self.structs.member(PARAMS, path)
            name = ".".join(path)
            return self.overrides.get(name, member.value if member else None)
        return self.structs.value(tokens)


def longest(spellings: list[str]) -> str:
    """The spelling that names an option: the first with two dashes, else the first."""
    return next((spelling for spelling in spellings if spelling.startswith("--")), spellings[0])


def find_default(text: str) -> str | None:
    """The value that a description gives as default, quotes stripped, or None."""
    position = _default_at(text)
    if position is None:
        return None
    rest = text[position:]
    quoted = re.match(r"'([^']*)'|\"([^\"]*)\"", rest)
    if quoted:
        return quoted.group(1) if quoted.group(1) is not None else quoted.group(2)
    depth = 0
    for n, character in enumerate(rest):
        if character == "(":
            depth += 1
        elif character == ")":
            if depth == 0:
                return rest[:n].strip()
            depth -= 1
        elif (character in ",;" and depth == 0 and rest[n + 1 : n + 2] in (" ", "\n", "")) or (
            character == "\n" and depth == 0
        ):
            return rest[:n].strip()
    return rest.strip()


def _default_at(text: str) -> int | None:
    match = re.search(r"\bdefault(?::\s+|=)", text)
    return match.end() if match else None


def _of_server(condition: str) -> bool | None:
    """What a condition on the example says for llama-server; None if it is about more."""
    match = re.fullmatch(r"(!\()?ex == (LLAMA_EXAMPLE_\w+)\)?", condition)
    if match is None:
        return None
    return (match.group(2) == EXAMPLE) != bool(match.group(1))


def _string_macros(tree: Tree) -> dict[str, str]:
    """The macros of arg.h that are one string."""
    try:
        text = (tree.root / MACROS).read_text(encoding="utf-8")
    except OSError:
        return {}
    return dict(re.findall(r'^#define[ \t]+(\w+)[ \t]+"([^"\n]*)"', text, re.MULTILINE))


def _is_condition(text: str) -> bool:
    return not text.endswith("{") and not text.startswith(("for (", "while (", "switch ("))


def _texts(tokens: tuple[Token, ...]) -> str:
    """The string literals, joined; a macro like PRIu32 stands for its conversion."""
    return "".join(
        token.value if token.kind == "str" else token.text[3]
        for token in tokens
        if token.kind == "str" or re.fullmatch(r"PRI[a-z]\d+", token.text)
    )


def _print(conversion: str, value: Value) -> str | None:
    """The value printed as C's printf would."""
    kind = conversion[-1]
    if kind == "s":
        return value if isinstance(value, str) else None
    if isinstance(value, bool):
        value = int(value)
    if kind in "fg" and isinstance(value, int | float):
        return conversion % value
    if kind in "dui" and isinstance(value, int):
        if kind == "d" and value > 2**31 - 1:
            value -= 2**32
        return str(value)
    return None
