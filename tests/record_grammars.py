"""Record what llama-server answers to bodies with grammars, for tests/test_grammar_replay.py.

Usage: python tests/record_grammars.py http://127.0.0.1:PORT
The server must run the made model: `-ctk f32 -ctv f32 -fa off -t 1 -np 1`.
"""

# ruff: noqa: E501 - one body after the other reads best as a table

import itertools
import json
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

Body = dict[str, Any]

PROMPTS = ["hello the", "an other thing in an other inn", "a", "<|im_start|>the"]

CHAINS: list[Body] = [
    {},
    {"temperature": 0},
    {"samplers": [], "temperature": 1.5},
    {"samplers": ["temperature"], "temperature": 2.5, "n_probs": 2},
    {"repeat_penalty": 1.3, "top_k": 12, "n_probs": 3, "post_sampling_probs": True},
    {"mirostat": 2, "mirostat_tau": 3},
]

JSON_GRAMMAR = r"""root ::= object
value ::= object | array | string | number | ("true" | "false" | "null") ws
object ::= "{" ws (string ":" ws value ("," ws string ":" ws value)*)? "}" ws
array ::= "[" ws (value ("," ws value)*)? "]" ws
string ::= "\"" ([^"\\\x7F\x00-\x1F] | "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4}))* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""

GRAMMARS = [
    JSON_GRAMMAR,
    'root ::= ("ab" | "a" [bc]){3,8}',
    'root ::= [ -~]{1,12} "." | root2\nroot2 ::= "the" root2 | "in"',
    "# all of it\nroot ::= line+\nline ::= [A-Za-z ]+ \"\\n\"",
    'root ::= [0-9]{4} "-" [0-9]{2} "-" [0-9]{2} ("T" [0-9]{2} ":" [0-9]{2})?',
    'root ::= <|im_start|> [a-z]{2,6} <|im_end|>',
    'root ::= !<|im_end|>{3,10} "the"',
    'root ::= "x"* "y"? | "z"+',
    'root ::= .{5}',
]  # fmt: skip

SCHEMAS: list[Any] = [
    {"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}},
     "required": ["a", "b"]},
    {"properties": {"name": {"type": "string", "maxLength": 4}, "n": {"type": "number"}}},
    {"type": "array", "items": {"type": "boolean"}, "minItems": 2, "maxItems": 4},
    {"enum": ["red", "green", 3, None]},
    {"const": {"the": [1, 2]}},
    {"type": "string", "pattern": "^[a-f]{2}(-[0-9]{1,3})*$"},
    {"type": "string", "format": "date-time"},
    {"type": "integer", "minimum": -12, "maximum": 3456},
    {"anyOf": [{"type": "null"}, {"type": "string", "format": "uuid"}]},
    {"$ref": "#/$defs/n", "$defs": {"n": {"properties": {
        "v": {"type": "integer", "maximum": 9, "minimum": 0}, "next": {"$ref": "#/$defs/n"}},
        "required": ["v"]}}},
    {},
    {"type": "object", "properties": {"x": {"type": "null"}}, "additionalProperties": {"const": 1}},
]  # fmt: skip

SHORT = 'root ::= "a" [b-d]{2,4} "."'
WORDS = 'root ::= [A-Z] ([a-z] | "\\n" | [0-9]){2,5} "!"'


def constrained() -> list[Body]:
    """Grammars and schemas, each with several chains."""
    bodies: list[Body] = []
    for grammar, chain in itertools.product(GRAMMARS, CHAINS):
        bodies.append({**chain, "grammar": grammar})
    for schema, chain in itertools.product(SCHEMAS, CHAINS):
        bodies.append({**chain, "json_schema": schema, "n_predict": 48})
    for schema in SCHEMAS[:4]:
        bodies.append({"json_schema": schema, "samplers": "t", "temperature": 5})
        bodies.append({"json_schema": schema, "logit_bias": [[126, -5], ["}", 3]]})
        bodies.append({"json_schema": schema, "generation_prompt": "{"})
        bodies.append({"grammar": 'root ::= "{" [a-z] "}"', "generation_prompt": "{"})
    return bodies


def lazy() -> list[Body]:
    """Lazy grammars and what triggers them."""
    free: Body = {"samplers": ["top_k", "temperature"], "top_k": 30, "grammar_lazy": True}
    bodies: list[Body] = []
    for kind, value in [
        (1, "M\n"), (1, "the U"), (2, "[A-M]\n"), (2, "([0-9])"), (2, "[a-z]([A-Z])?"), (2, "^.*Q"),
        (2, "(x)|(y)|([AEIOU].)"), (3, "[^]*([A-H])"), (3, r"[\s\S]*?(\d)[\s\S]*"), (3, ""), (3, "^a$"),
        (2, "(?=U)U(A)"), (2, r"\bU"), (2, "[[:upper:]]([[:digit:]])?"), (2, "zzz"), (2, "$"), (2, "^"),
        (2, r"(.)\1"), (2, "[^\\n]\n"), (2, ""), (1, "."), (1, "(*)"), (2, "."),
    ]:  # fmt: skip
        grammar = SHORT if value in ("^a$", "zzz") else WORDS
        bodies.append({**free, "grammar": grammar, "grammar_triggers": [{"type": kind, "value": value}]})
    for token in (13, 80, 0, 2, 100, 261):
        triggers = [{"type": 0, "value": "?", "token": token}]
        for grammar in (f"root ::= <[{token}]> [a-z]{{3}}", 'root ::= .? [a-f]{3,4} "\\n"'):
            bodies.append({**free, "grammar": grammar, "grammar_triggers": triggers})
    some = [{"type": 1, "value": "M"}, {"type": 2, "value": "[0-9]"}, {"type": 0, "value": "", "token": 88}]
    for seed in range(6):
        more = {"preserved_tokens": ["M", "<|im_end|>"], "grammar_triggers": some, "seed": seed}
        bodies.append({**free, "grammar": 'root ::= "M" "the"+ "M" | [0-9]{4}', **more})
        bodies.append({**free, "grammar": JSON_GRAMMAR, **more})
    bodies.append({"grammar_lazy": True, "grammar": SHORT})
    bodies.append({**free, "json_schema": SCHEMAS[0], "grammar_triggers": [{"type": 2, "value": "{"}]})
    bodies.append({**free, "json_schema": SCHEMAS[0], "grammar_triggers": [{"type": 1, "value": "{"}]})
    return bodies


def reasoning() -> list[Body]:
    """Budgets for what is between two tags, alone and with grammars."""
    tags: Body = {"reasoning_budget_start_tag": "M", "reasoning_budget_end_tags": ["the", "U"]}
    mixed: Body = {"samplers": ["top_k", "temperature"], "top_k": 40}
    bodies: list[Body] = []
    for budget, message in itertools.product((0, 1, 3, 8, -1), (None, "", " enough: ")):
        more = {} if message is None else {"reasoning_budget_message": message}
        bodies.append({**mixed, **tags, **more, "reasoning_budget_tokens": budget})
    for end in ("the", ["<|im_end|>"], ["A", "UA", "7"], [], [""], ["\n", "M\n"]):
        key = "reasoning_budget_end_tag" if isinstance(end, str) else "reasoning_budget_end_tags"
        bodies.append({**mixed, "reasoning_budget_start_tag": "\n", key: end,
                       "reasoning_budget_tokens": 2, "reasoning_budget_message": "!"})  # fmt: skip
    prompted = {"generation_prompt": "<|im_start|>M", **tags, "reasoning_budget_message": "."}
    bodies.append({**mixed, **prompted, "reasoning_budget_tokens": 4})
    bodies.append({**mixed, **prompted, "reasoning_budget_tokens": 0})
    bodies.append({**mixed, **prompted, "reasoning_control": True})
    bodies.append({**mixed, **prompted, "reasoning_budget_tokens": 4, "grammar": "root ::= [A-Z]{9}"})
    bodies.append({**mixed, **prompted, "reasoning_budget_tokens": 4, "json_schema": {"type": "null"}})
    for budget, kind in itertools.product((-1, 3), (1, 2)):
        value = "the" if kind == 1 else "[a-zA-Z]"
        bodies.append({**mixed, **prompted, "reasoning_budget_tokens": budget, "grammar_lazy": True,
                       "grammar": 'root ::= [a-zA-Z]{1,3} [0-9]{3}', "preserved_tokens": ["the"],
                       "grammar_triggers": [{"type": kind, "value": value}]})  # fmt: skip
    return bodies


def prefilled() -> list[Body]:
    """Grammars of the server's own kind, which begin with what the template wrote."""
    begun = {"grammar_type": "tool_calls", "grammar": 'root ::= "the" [a-f]{2} <|im_end|>?'}
    prompts = ("the", "thea", "x", "", "<|im_start|>", "theab", "theabc")
    bodies: list[Body] = [{**begun, "generation_prompt": text} for text in prompts]
    bodies += [{**begun, "grammar_type": "user", "generation_prompt": "the"}]
    bodies += [{"json_schema": {"const": "the"}, "generation_prompt": text} for text in ('"t', "t", '"the"')]
    return bodies


REFUSED: list[Body] = [
    {"grammar": "root ::= ["}, {"grammar": "root ::= root"}, {"grammar": "x ::= [a]"},
    {"grammar": "root ::= a"}, {"grammar": 5}, {"grammar": None, "json_schema": {}}, {"grammar": ""},
    {"grammar": 'root ::= "a"', "json_schema": {}}, {"grammar": 'root ::= "a"', "json_schema": None},
    {"json_schema": {"type": "x"}}, {"json_schema": True}, {"json_schema": "x"}, {"json_schema": []},
    {"json_schema": {"$ref": "x"}}, {"json_schema": {"$ref": 5}}, {"json_schema": {"pattern": "^(a$"}},
    {"grammar_triggers": []}, {"grammar_triggers": [], "grammar_lazy": True}, {"grammar_triggers": 5},
    {"grammar_triggers": [5]}, {"grammar_triggers": [{}]}, {"grammar_triggers": [{"type": 1}]},
    {"grammar_triggers": [{"type": 1, "value": "a"}]}, {"grammar_triggers": [{"type": 0, "value": "a"}]},
    {"grammar_triggers": [{"type": 1, "value": "a"}], "preserved_tokens": ["a"]},
    {"grammar_triggers": [{"type": "1", "value": "a"}]}, {"grammar_triggers": [{"type": 1.7, "value": "ab"}]},
    {"grammar_triggers": {"a": {"type": True, "value": "abc"}}}, {"grammar_lazy": 1},
    {"grammar_lazy": True, "grammar": "root ::= ["}, {"reasoning_budget_end_tags": 5},
    {"reasoning_budget_end_tags": [5]}, {"reasoning_budget_start_tag": 5}, {"reasoning_budget_tokens": -2},
    {"reasoning_budget_tokens": "x"}, {"reasoning_budget_message": 5}, {"reasoning_control": 5},
    {"preserved_tokens": 5}, {"preserved_tokens": ["<|im_end|>", "a", "zz"]},
]  # fmt: skip

PATTERNS = [
    "(a", "a)", "[a", "a{", "a{2", "a{x}", "a{2,1}", "*a", "+", "a**", "(?<n>a)", "(?", "(", "\\", "[\\",
    "\\x1", "\\u12", "\\c", "\\1", "(a)\\2", "(a\\1)", "[b-a]", "[[:foo:]]", "[[:alpha:]]", "[\\d-z]",
    "[a-\\d]", "[[.a.]]", "[[=a=]]", "[z--]", "[]", "a|*", "{", "}", "]", "a{2}{3}", "(*a)", "\\q",
    "a{99999}", "[[:alpha", "[[:alpha:]", "^*", "\\b*", "x{,3}", "(?i)a", "[-q]", "[q-]", "[q-r-s]",
    "[\\0-]", "\\_", "(?=a)*", "(?!", "(?:a", "(?:a|b)*c", "[^\\W\\d_]\\w{9}",
]  # fmt: skip


def bodies() -> list[Body]:
    """All requests; those that don't name a prompt, seed or length take them in turn."""
    patterns = [
        {"grammar": SHORT, "grammar_lazy": True, "temperature": 0, "n_predict": 2,
         "grammar_triggers": [{"type": 2, "value": pattern}]}
        for pattern in PATTERNS
    ]  # fmt: skip
    listed = [*constrained(), *lazy(), *reasoning(), *prefilled(), *REFUSED, *patterns]
    return [
        {"prompt": number % len(PROMPTS), "seed": 7 * number, "n_predict": 32, **body}
        for number, body in enumerate(listed)
    ]


def ask(url: str, body: Body) -> tuple[int, Any]:
    """POST `body`; the status and the decoded answer."""
    request = urllib.request.Request(
        url, json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, json.load(reply)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def streamed(url: str, body: Body) -> list[int]:
    """The tokens streamed before a failure."""
    data = json.dumps({**body, "stream": True}).encode()
    tokens: list[int] = []
    with urllib.request.urlopen(urllib.request.Request(url, data)) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                tokens += json.loads(line[6:]).get("tokens", [])
    return tokens


def short(entry: Body) -> Any:
    """One token of completion_probabilities as [id, p, [[id, p], …]], rounded."""
    kind = "logprob" if "logprob" in entry else "prob"
    top = entry["top_" + kind + "s"]
    return [entry["id"], round(entry[kind], 6), [[t["id"], round(t[kind], 6)] for t in top]]


def record(server: str, body: Body) -> Body:
    """One case: the body and what came of it."""
    sent = {**body, "prompt": PROMPTS[body["prompt"]], "cache_prompt": False, "return_tokens": True}
    status, reply = ask(server + "/completion", sent)
    case: Body = {"body": body}
    if status == 200:
        settings = reply["generation_settings"]
        shown = ("grammar", "grammar_lazy", "grammar_triggers", "preserved_tokens")
        case["settings"] = {key: settings[key] for key in shown if settings[key]}
        case |= {key: reply[key] for key in ("tokens", "content", "stop_type")}
        if "completion_probabilities" in reply:
            case["probs"] = [short(entry) for entry in reply["completion_probabilities"]]
        return case
    case["error"] = reply["error"]["message"]
    if status == 500:
        # Tokens of cut-off characters are held back: only what comes before them is whole.
        tokens = streamed(server + "/completion", sent)
        case["tokens"] = list(itertools.takewhile(lambda t: t < 131 or t >= 259, tokens))
    return case


def main() -> None:
    cases = [record(sys.argv[1], body) for body in bodies()]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    prompts = [ask(sys.argv[1] + "/tokenize", {"content": text, "add_special": True,
                                               "parse_special": True})[1]["tokens"]
               for text in PROMPTS]  # fmt: skip
    head = json.dumps({"prompts": prompts}, separators=(",", ":"))
    path = Path(__file__).parent / "data/grammar/replies.json"
    path.write_text(f'{head[:-1]},"cases":[\n{lines}\n]}}\n')
    print(len(cases), "cases,", sum("error" in case for case in cases), "with errors")


if __name__ == "__main__":
    main()
