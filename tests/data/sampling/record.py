"""Record what llama-server answers to many sampling requests, for tests/test_sampling_replay.py.

Usage: python tests/data/sampling/record.py http://127.0.0.1:PORT
The server must run the made model: `-ctk f32 -ctv f32 -fa off -t 1 -np 1`.
"""

import itertools
import json
import random
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

TEXTS = [
    "hello the",
    "an other thing in an other inn",
    "the cat in the hat, the cat in the",
    "a",
    "one: two\nthree: one\none: two\nthree:",
    'She said "the end" * and then she said "the',
]

# Values under which each sampler has something to do.
ACTIVE: dict[str, dict[str, Any]] = {
    "penalties": {"repeat_penalty": 1.3, "frequency_penalty": 0.3, "presence_penalty": 0.2},
    "dry": {"dry_multiplier": 2.0, "dry_base": 1.5, "dry_allowed_length": 1},
    "top_n_sigma": {"top_n_sigma": 0.3},
    "top_k": {"top_k": 12},
    "typ_p": {"typical_p": 0.6},
    "top_p": {"top_p": 0.7},
    "min_p": {"min_p": 0.1},
    "xtc": {"xtc_probability": 0.6, "xtc_threshold": 0.1},
    "temperature": {"temperature": 1.4},
    "adaptive_p": {"adaptive_target": 0.3, "adaptive_decay": 0.8},
}
SEEDS = [0, 1, 2, 42, 123, 2**31 - 1, 2**31, 2**32 - 2, -2, -2147483648, 1234567890]

Body = dict[str, Any]


def alone() -> list[Body]:
    """Every sampler by itself, over its range and beyond."""
    values: dict[str, list[Body]] = {
        "penalties": [
            {"repeat_penalty": 1.1},
            {"repeat_penalty": 0.5},
            {"repeat_penalty": 5},
            {"repeat_penalty": 1.5, "repeat_last_n": 1},
            {"repeat_penalty": 1.5, "repeat_last_n": 0},
            {"repeat_penalty": 1.5, "repeat_last_n": 3},
            {"repeat_penalty": 1.5, "repeat_last_n": 2000},
            {"frequency_penalty": 0.7},
            {"frequency_penalty": -0.4},
            {"presence_penalty": 2.5},
            {"presence_penalty": -1},
            {"repeat_penalty": 0},
            {"repeat_penalty": -1},
            {"repeat_penalty": 1e-45},
            {"repeat_penalty": 1e39},
            {"frequency_penalty": 1e39},
            {"presence_penalty": -1e39},
        ],
        "dry": [
            {"dry_multiplier": 0.8},
            {"dry_multiplier": 5, "dry_allowed_length": 0},
            {"dry_multiplier": 5, "dry_allowed_length": 1},
            {"dry_multiplier": 5, "dry_allowed_length": 5},
            {"dry_multiplier": -2, "dry_allowed_length": 1},
            {"dry_multiplier": 3, "dry_base": 1.0, "dry_allowed_length": 1},
            {"dry_multiplier": 3, "dry_base": 0.5, "dry_allowed_length": 1},
            {"dry_multiplier": 3, "dry_base": 4, "dry_allowed_length": 1},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_penalty_last_n": 6},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_penalty_last_n": 0},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_penalty_last_n": 2000},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_sequence_breakers": ["the"]},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_sequence_breakers": ["t", "in"]},
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_sequence_breakers": [""]},
            {
                "dry_multiplier": 3,
                "dry_allowed_length": 1,
                "dry_sequence_breakers": ["e th", "ing"],
            },
            {"dry_multiplier": 3, "dry_allowed_length": 1, "dry_sequence_breakers": ["<|im_end|>"]},
        ],
        "top_n_sigma": [{"top_n_sigma": v} for v in (0.01, 0.1, 0.2, 1, 2, 0, -1, 50)],
        "top_k": [{"top_k": v} for v in (0, 1, 2, 3, 40, 100, 128, 129, 200, 265, 100000, -5)],
        "typ_p": [{"typical_p": v} for v in (0, 0.1, 0.3, 0.9, 0.99, 1, 2, -1)],
        "top_p": [{"top_p": v} for v in (0, 0.1, 0.5, 0.9, 0.99, 0.999999, 1, 1.5, -1)],
        "min_p": [{"min_p": v} for v in (0, 0.01, 0.3, 0.9, 1, 2, -1)],
        "xtc": [
            {"xtc_probability": 1, "xtc_threshold": 0.05},
            {"xtc_probability": 1, "xtc_threshold": 0},
            {"xtc_probability": 1, "xtc_threshold": 0.5},
            {"xtc_probability": 1, "xtc_threshold": 0.51},
            {"xtc_probability": 0.5, "xtc_threshold": 0.2},
            {"xtc_probability": 0.01, "xtc_threshold": 0.01},
            {"xtc_probability": 0},
        ],
        "temperature": [
            *({"temperature": v} for v in (0, 1e-9, 0.01, 0.5, 1, 2, 4, -1)),
            {"temperature": 1, "dynatemp_range": 0.5},
            {"temperature": 0.5, "dynatemp_range": 2},
            {"temperature": 1, "dynatemp_range": 0.9, "dynatemp_exponent": 2.5},
            {"temperature": 0, "dynatemp_range": 1},
            {"temperature": 1, "dynatemp_range": -1},
            {"temperature": 1, "dynatemp_range": 1, "dynatemp_exponent": 0},
            {"temperature": 1, "dynatemp_range": 1, "dynatemp_exponent": 60},
        ],
        "adaptive_p": [
            *({"adaptive_target": v} for v in (-1, 0.2, 0.5, 0.9, 1, 1.5)),
            *({"adaptive_target": 0.4, "adaptive_decay": v} for v in (0, 0.5, 0.99)),
        ],
        "infill": [{}, {"ignore_eos": True}],
    }
    return [{"samplers": [name], **value} for name, bodies in values.items() for value in bodies]


def together() -> list[Body]:
    """Every ordered pair, some with one sampler twice, then random selections in random order."""
    bodies: list[Body] = []
    for first, second in itertools.permutations(ACTIVE, 2):
        bodies.append({"samplers": [first, second], **ACTIVE[first], **ACTIVE[second]})
    for name, value in ACTIVE.items():
        bodies.append({"samplers": [name, name], **value})
    chance = random.Random(11)
    for _ in range(90):
        names = chance.sample(list(ACTIVE), chance.randint(3, len(ACTIVE)))
        body: Body = {"samplers": names}
        for name in names:
            body |= ACTIVE[name]
        body["min_keep"] = chance.choice([0, 0, 0, 1, 3, 10])
        body["top_k"] = chance.choice([5, 40, 140])
        body["temperature"] = chance.choice([0.3, 0.8, 1.5, 2])
        bodies.append(body)
    for name in ("top_k", "top_p", "min_p"):
        bodies.append({"samplers": [name, "infill"], **ACTIVE[name]})
        bodies.append({"samplers": [name, "infill"], **ACTIVE[name], "ignore_eos": True})
    return bodies


def others() -> list[Body]:
    """Seeds, Mirostat, biases, least numbers to keep, spellings."""
    bodies: list[Body] = [{"seed": seed} for seed in SEEDS]
    bodies += [{"seed": seed, "samplers": []} for seed in SEEDS]
    for version, tau, eta in itertools.product((1, 2), (0.5, 3, 5, 8), (0.1, 0.9)):
        bodies.append({"mirostat": version, "mirostat_tau": tau, "mirostat_eta": eta})
    for version, temperature in itertools.product((1, 2, 3), (0, 1, 2.5)):
        bodies.append({"mirostat": version, "temperature": temperature})
    bodies += [
        {"mirostat": 2, "ignore_eos": True, "repeat_penalty": 2},
        {"ignore_eos": True},
        {"ignore_eos": True, "samplers": ["typ_p"], "typical_p": 0.5},
        {"logit_bias": [[70, 8], [71, -3.5], [70, 1]]},
        {"logit_bias": [["the", 9], ["Q", False]]},
        {"logit_bias": {"80": 7.25, "13": False, "99999": 100}},
        {"logit_bias": [[80, 1e30]]},
        {"logit_bias": [[100, 12]], "samplers": ["top_k"], "top_k": 3},
    ]
    for name in ("top_p", "min_p", "typ_p", "xtc"):
        for least in (1, 2, 8, 300):
            bodies.append({"samplers": [name], **ACTIVE[name], "min_keep": least})
    for samplers in ("kfypmxt", "edskypmxt", "t", "tk", "?", "mpk", "ak", "KT", ""):
        bodies.append({"samplers": samplers, **ACTIVE["adaptive_p"], "temperature": 1.3})
    for names in (["top-k", "Temp"], ["TOPP", "typical"], ["nucleus"], ["typ", "typ-p", "minp"]):
        bodies.append({"samplers": names, "typical_p": 0.5, "top_p": 0.6, "top_k": 4})
    return bodies


def probabilities() -> list[Body]:
    """Probabilities before and after sampling."""
    chains: list[Body] = [
        {},
        {"samplers": []},
        {"temperature": 0},
        {"samplers": ["top_k"], "top_k": 4},
        {"samplers": ["temperature", "top_k"], "top_k": 1},
        {"samplers": ["penalties"], **ACTIVE["penalties"]},
        {"samplers": ["typ_p", "temperature"], **ACTIVE["typ_p"]},
        {"samplers": ["xtc"], "xtc_probability": 1, "xtc_threshold": 0.05},
        {"samplers": ["top_n_sigma"], "top_n_sigma": 0.2},
        {"samplers": ["top_p", "adaptive_p"], **ACTIVE["adaptive_p"]},
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 1},
        {"logit_bias": [[70, 8], [80, False]]},
    ]
    sizes = ((False, 1), (False, 5), (True, 3), (True, 1000))
    return [
        {**chain, "n_probs": n, "post_sampling_probs": post, "n_predict": 6}
        for chain in chains
        for post, n in sizes
    ] + [{"n_probs": 300, "n_predict": 1}, {"n_probs": -1, "n_predict": 3}]


GRAMMARS = [
    'root ::= "yes" | "no"',
    "root ::= [a-z]+",
    'root ::= item (", " item)* "."\nitem ::= [a-f]{2,5} | [0-9] item?',
    """root ::= object
value ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" (string ":" value ("," string ":" value)*)? "}"
array ::= "[" (value ("," value)*)? "]"
string ::= "\\"" [^"\\\\\\x7F\\x00-\\x1F]* "\\""
number ::= "-"? [0-9]+""",
    'root ::= "the" | " the" root | [^t] root',
    "root ::= <[259]> root | !<[260]>{1,9}",
    'root ::= "a" | <[262]> "z" | "é" .*',
    'root ::= (.{3} "\\n")*',
    'root ::= ""',
    'root ::= "x',
    "root ::= root",
    "other ::= [a-z]",
]


def grammars() -> list[Body]:
    """Grammars that are followed and grammars that are refused, with several chains."""
    chains: list[Body] = [
        {},
        {"temperature": 0},
        {"samplers": [], "n_probs": 3, "post_sampling_probs": True},
        {"mirostat": 2},
        {"samplers": ["penalties", "adaptive_p"], **ACTIVE["penalties"], **ACTIVE["adaptive_p"]},
        {"samplers": ["xtc"], **ACTIVE["xtc"], "ignore_eos": True},
    ]
    return [{**chain, "grammar": grammar} for grammar in GRAMMARS for chain in chains]


def bodies() -> list[Body]:
    """All requests; those that don't name a prompt, seed or length take them in turn."""
    listed = [*alone(), *together(), *others(), *probabilities(), *grammars()]
    return [
        {
            "prompt": number % len(TEXTS),
            "seed": (7 * number) % 1000,
            "n_predict": 24 + number % 3 * 8,
            **body,
        }
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
    """The tokens streamed before an error: text that isn't ASCII fails, see the made model."""
    data = json.dumps({**body, "stream": True}).encode()
    tokens: list[int] = []
    with urllib.request.urlopen(urllib.request.Request(url, data)) as reply:
        for line in reply:
            if line.startswith(b"data: "):
                tokens += json.loads(line[6:]).get("tokens", [])
    return tokens


def is_ascii(token: int) -> bool:
    """Whether the made model's token is special, an ASCII byte or one of the merges."""
    return token < 3 + 128 or token >= 3 + 256


def short(entry: Body) -> Any:
    """One token of completion_probabilities as [id, p, [[id, p], …]], rounded."""
    kind = "logprob" if "logprob" in entry else "prob"
    top = entry["top_" + kind + "s"]
    return [entry["id"], round(entry[kind], 6), [[t["id"], round(t[kind], 6)] for t in top]]


def main() -> None:
    server = sys.argv[1]
    prompts = [ask(server + "/tokenize", {"content": text})[1]["tokens"] for text in TEXTS]
    fixed = {"cache_prompt": False, "return_tokens": True}
    _, plain = ask(server + "/completion", {"prompt": prompts[0], "n_predict": 1, **fixed})
    defaults = plain["generation_settings"]
    cases = []
    for body in bodies():
        prompt = prompts[body["prompt"]]
        status, reply = ask(server + "/completion", {**body, "prompt": prompt, **fixed})
        case: Body = {"body": body}
        if status == 200:
            settings = reply["generation_settings"]
            case["settings"] = {k: v for k, v in settings.items() if v != defaults[k]}
            for key in ("max_tokens", "n_predict"):
                case["settings"].pop(key, None)
            case["tokens"] = reply["tokens"]
            case["content"] = reply["content"]
            case["stop_type"] = reply["stop_type"]
            if "completion_probabilities" in reply:
                case["probs"] = [short(entry) for entry in reply["completion_probabilities"]]
        elif status == 400:
            case["error"] = reply["error"]["message"]
        else:
            # Settings as of the same request cut down to no text that could fail.
            quiet = {**body, "prompt": prompt, **fixed, "n_predict": 1, "samplers": ["top_k"]}
            _, shown = ask(server + "/completion", {**quiet, "top_k": 1})
            settings = shown["generation_settings"]
            case["settings"] = {k: v for k, v in settings.items() if v != defaults[k]}
            case["settings"] |= {k: body.get(k, defaults[k]) for k in ("samplers", "top_k")}
            for key in ("max_tokens", "n_predict"):
                case["settings"].pop(key, None)
            tokens = streamed(server + "/completion", {**body, "prompt": prompt, **fixed})
            # Tokens of cut-off characters are held back: only what comes before them is whole.
            case["tokens"] = list(itertools.takewhile(is_ascii, tokens))
        cases.append(case)
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in cases)
    head = json.dumps({"prompts": prompts, "defaults": defaults}, separators=(",", ":"))
    text = f'{head[:-1]},"cases":[\n{lines}\n]}}\n'
    Path(__file__).with_name("replies.json").write_text(text)
    print(len(cases), "cases,", len(text), "bytes")


if __name__ == "__main__":
    main()
