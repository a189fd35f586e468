"""What the reference is asked about chats, and what its recorded answers are compared with."""
# ruff: noqa: E501

from pathlib import Path
from typing import Any

RECORDS = Path(__file__).parent / "data" / "chat"
TEMPLATES = {path.stem: path for path in sorted((RECORDS / "templates").glob("*.jinja"))}

BOS, EOS = "<|im_start|>", "<|im_end|>"
"""The texts of the made model's tokens."""


def template_source(name: str) -> str:
    """The text of a template, its line ends as they are."""
    return TEMPLATES[name].read_bytes().decode()


_SYSTEM = {"role": "system", "content": "Be brief."}
_USER = {"role": "user", "content": "Hello there"}
_ANSWER = {"role": "assistant", "content": "Hi! How can I help?"}
_THOUGHT = {"role": "assistant", "content": "Four.", "reasoning_content": "Two plus two."}
_MORE = {"role": "user", "content": "And three?"}
_TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Weather of a city",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "The <city>"},
                "days": {"type": "integer", "minimum": 1},
            },
            "required": ["city"],
        },
    },
}


def _call(id: str, arguments: Any) -> dict[str, Any]:
    function = {"name": "get_weather", "arguments": arguments}
    return {"id": id, "type": "function", "function": function}


def _parts(*texts: str) -> list[dict[str, str]]:
    return [{"type": "text", "text": text} for text in texts]


_TOOL_CHAT: list[dict[str, Any]] = [
    _USER,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [_call("abc123def", '{"city": "Köln", "days": 2}')],
    },
    {
        "role": "tool",
        "tool_call_id": "abc123def",
        "name": "get_weather",
        "content": '{"sky": "grey"}',
    },
    {"role": "assistant", "content": "Grey."},
    {"role": "user", "content": "Thanks"},
]


def _continued(message: dict[str, Any], how: Any) -> dict[str, Any]:
    return {
        "messages": [_SYSTEM, _USER, {"role": "assistant", **message}],
        "add_generation_prompt": False,
        "continue_final_message": how,
    }


CONVERSATIONS: dict[str, dict[str, Any]] = {
    "user": {"messages": [_USER]},
    "system": {"messages": [_SYSTEM, _USER]},
    "system alone": {"messages": [_SYSTEM]},
    "turns": {"messages": [_SYSTEM, _USER, _ANSWER, {"role": "user", "content": "  Two?\n\n"}]},
    "reasoning": {"messages": [_USER, _THOUGHT, _MORE, _THOUGHT, _USER]},
    "parts": {
        "messages": [
            {"role": "system", "content": _parts("One.", "Two.")},
            {"role": "user", "content": _parts("a", "", "b")},
        ]
    },
    "user's parts": {"messages": [{"role": "user", "content": _parts("a", "b")}]},
    "no content": {"messages": [{"role": "user", "content": None}, _ANSWER, _USER]},
    "empty content": {"messages": [{"role": "user", "content": ""}]},
    "no messages": {"messages": []},
    "developer": {"messages": [{"role": "developer", "content": "Dev."}, _USER]},
    "another role": {"messages": [{"role": "critic", "content": "x"}, _USER]},
    "two users": {"messages": [_USER, _USER]},
    "other characters": {
        "messages": [
            {"role": "user", "content": "Grüße 👋 <b>&amp;</b> \"q\" 'a'", "name": "Zoë"},
            {"role": "assistant", "content": "日本語"},
            {"role": "user", "content": "\u00a0x\u2028"},
        ]
    },
    "tool calls": {"messages": _TOOL_CHAT},
    "arguments that are an object": {
        "messages": [
            _USER,
            {
                "role": "assistant",
                "tool_calls": [_call("abc", {"city": "Köln", "x": [1, 2.5, None, True, {}]})],
            },
            {"role": "tool", "tool_call_id": "abc", "content": "x"},
        ]
    },
    "arguments that are no JSON": {
        "messages": [
            _USER,
            {"role": "assistant", "content": "", "tool_calls": [_call("abc", '{"city":')]},
        ]
    },
    "results out of order": {
        "messages": [
            _USER,
            {
                "role": "assistant",
                "content": "Let me see",
                "reasoning_content": "hm",
                "tool_calls": [_call("one", '{"city":"A"}'), _call("two", '{"city":"B"}')],
            },
            {"role": "tool", "tool_call_id": "two", "content": "2"},
            {"role": "tool", "tool_call_id": "one", "content": "1"},
            {"role": "assistant", "content": "Both."},
        ]
    },
    "tools that may not be called": {
        "messages": [_SYSTEM, *_TOOL_CHAT],
        "tools": [_TOOL, {"type": "function", "function": {"name": "noop"}}],
        "tool_choice": "none",
    },
    "no thinking": {
        "messages": [_SYSTEM, _USER],
        "chat_template_kwargs": {"enable_thinking": False},
    },
    "variables": {
        "messages": [_USER],
        "chat_template_kwargs": {"number": 1.5, "text": "é", "nothing": None, "list": [1]},
    },
    "variables in a list": {"messages": [_USER], "chat_template_kwargs": ["a"]},
    "effort": {"messages": [_USER], "reasoning_effort": "low"},
    "no effort": {"messages": [_USER], "reasoning_effort": "none"},
    "effort of another type": {"messages": [_USER], "reasoning_effort": 3},
    "reasoning kept": {
        "messages": [_USER, _THOUGHT, _MORE],
        "chat_template_kwargs": {"preserve_reasoning": True},
    },
    "reasoning dropped": {
        "messages": [_USER, _THOUGHT, _MORE],
        "chat_template_kwargs": {"preserve_reasoning": False},
    },
    "no generation prompt": {"messages": [_USER, _ANSWER, _MORE], "add_generation_prompt": False},
    "prefill": {"messages": [_USER, {"role": "assistant", "content": "The answer"}]},
    "prefilled parts": {
        "messages": [_USER, {"role": "assistant", "content": _parts("The", "answer")}]
    },
    "prefilled reasoning": {
        "messages": [_USER, {"role": "assistant", "content": "", "reasoning_content": "Let me"}]
    },
    "nothing prefilled": {"messages": [_USER, {"role": "assistant", "content": ""}]},
    "continued": _continued({"content": "The answer"}, True),
    "continued reasoning": _continued({"content": "", "reasoning_content": "Let me"}, True),
    "continued content": _continued({"content": "So", "reasoning_content": "Hm"}, "content"),
    "reasoning of content": _continued(
        {"content": "So", "reasoning_content": "Hm"}, "reasoning_content"
    ),
    "continued user": {
        "messages": [_USER],
        "add_generation_prompt": False,
        "continue_final_message": True,
    },
}

_U = [{"role": "user", "content": "x"}]


def _assistant(*calls: Any) -> dict[str, Any]:
    return {"messages": [{"role": "assistant", "tool_calls": list(calls)}]}


BODIES: dict[str, Any] = {
    "list": [],
    "text": "x",
    "empty": {},
    "messages null": {"messages": None},
    "messages object": {"messages": {}},
    "message number": {"messages": [1]},
    "message empty": {"messages": [{}]},
    "role missing": {"messages": [{"content": "x"}]},
    "role number": {"messages": [{"role": 1, "content": "x"}]},
    "role null": {"messages": [{"role": None, "content": "x"}]},
    "assistant empty": {"messages": [{"role": "assistant"}]},
    "assistant null calls": {"messages": [{"role": "assistant", "tool_calls": None}]},
    "content number": {"messages": [{"role": "user", "content": 1}]},
    "content object": {"messages": [{"role": "user", "content": {}}]},
    "part number": {"messages": [{"role": "user", "content": [1]}]},
    "part unknown": {"messages": [{"role": "user", "content": [{"type": "audio"}]}]},
    "part without text": {"messages": [{"role": "user", "content": [{"type": "text"}]}]},
    "part text number": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": 1}]}]
    },
    "part image": {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
    "part sound": {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]},
    "part film": {"messages": [{"role": "user", "content": [{"type": "input_video"}]}]},
    "part marker": {
        "messages": [{"role": "user", "content": [{"type": "media_marker", "text": "x"}]}]
    },
    "name number": {"messages": [{"role": "user", "content": "x", "name": 1}]},
    "reasoning null": {"messages": [{**_U[0], "reasoning_content": None}]},
    "call id null": {"messages": [{"role": "tool", "content": "x", "tool_call_id": None}]},
    "calls object": {"messages": [{"role": "assistant", "tool_calls": {"a": 1}}]},
    "calls number": {"messages": [{"role": "assistant", "tool_calls": 1}]},
    "call empty": _assistant({}),
    "call of another type": _assistant({"type": "x"}),
    "call type null": _assistant({"type": None}),
    "call without function": _assistant({"type": "function"}),
    "call function number": _assistant({"type": "function", "function": 1}),
    "call without name": _assistant({"type": "function", "function": {}}),
    "call name number": _assistant({"type": "function", "function": {"name": 1}}),
    "call without arguments": _assistant({"type": "function", "function": {"name": "f"}}),
    "call id number": _assistant(
        {"type": "function", "id": 1, "function": {"name": "f", "arguments": "{}"}}
    ),
    "late mistake": {"messages": [*_U, {"role": "user"}]},
    "two mistakes": {"messages": [{"role": 1, "content": "x"}, {"role": "user"}]},
    "tools object": {"messages": _U, "tools": {}},
    "tools text": {"messages": _U, "tools": "x"},
    "tools empty": {"messages": _U, "tools": []},
    "tool empty": {"messages": _U, "tools": [{}]},
    "tool number": {"messages": _U, "tools": [1]},
    "tool of another type": {"messages": _U, "tools": [{"type": "x"}]},
    "tool type number": {"messages": _U, "tools": [{"type": 1}]},
    "tool without function": {"messages": _U, "tools": [{"type": "function"}]},
    "tool without name": {"messages": _U, "tools": [{"type": "function", "function": {}}]},
    "tool name number": {
        "messages": _U,
        "tools": [{"type": "function", "function": {"name": 1}}],
    },
    "tool description number": {
        "messages": _U,
        "tools": [{"type": "function", "function": {"name": "f", "description": 1}}],
    },
    "tool choice unknown": {"messages": _U, "tool_choice": "x"},
    "tool choice object": {"messages": _U, "tool_choice": {"type": "function"}},
    "tool choice and mistake": {"messages": [{}], "tool_choice": "x"},
    "grammar and tools": {"messages": _U, "tools": [_TOOL], "grammar": ""},
    "grammar and no tools": {
        "messages": _U,
        "tools": [_TOOL],
        "tool_choice": "none",
        "grammar": "",
    },
    "schema and grammar": {"json_schema": {}, "grammar": "x"},
    "schema and no grammar": {"messages": 1, "json_schema": {}, "grammar": 1},
    "format unknown": {"response_format": {"type": "x"}},
    "format text": {"messages": _U, "response_format": {"type": "text"}},
    "format number": {"messages": _U, "response_format": 1},
    "format type number": {"messages": _U, "response_format": {"type": 1}},
    "format null": {"messages": _U, "response_format": None},
    "format and mistake": {"messages": 1, "response_format": {"type": "json_object"}},
    "generation prompt number": {"messages": _U, "add_generation_prompt": 0},
    "generation prompt null": {"messages": _U, "add_generation_prompt": None},
    "continue and generate": {"messages": _U, "continue_final_message": True},
    "continue unknown": {"messages": _U, "continue_final_message": "x"},
    "continue false": {"messages": _U, "continue_final_message": False},
    "continue number": {"messages": _U, "continue_final_message": 1},
    "two answers": {"messages": [_ANSWER, _ANSWER]},
    "reasoning format unknown": {"messages": _U, "reasoning_format": "x"},
    "reasoning format null": {"messages": _U, "reasoning_format": None},
    "reasoning format number": {"messages": _U, "reasoning_format": 1},
    "reasoning format and continue": {
        "messages": _U,
        "continue_final_message": True,
        "reasoning_format": "x",
    },
    "thinking text": {"messages": _U, "chat_template_kwargs": {"enable_thinking": "yes"}},
    "thinking number": {"messages": _U, "chat_template_kwargs": {"enable_thinking": 0}},
    "thinking null": {"messages": _U, "chat_template_kwargs": {"enable_thinking": None}},
    "kwargs number": {"messages": _U, "chat_template_kwargs": 1},
    "kwargs null": {"messages": _U, "chat_template_kwargs": None},
    "effort null": {"messages": _U, "reasoning_effort": None},
    "effort empty": {"messages": _U, "reasoning_effort": ""},
    "top without logprobs": {"messages": _U, "top_logprobs": 2},
    "top null": {"messages": _U, "top_logprobs": None},
    "logprobs number": {"messages": _U, "logprobs": 1, "top_logprobs": 2},
    "logprobs": {"messages": _U, "logprobs": True, "top_logprobs": 2},
    "logprobs stream": {
        "messages": _U,
        "logprobs": True,
        "stream": True,
        "tools": [_TOOL],
        "tool_choice": "none",
    },
    "logprobs and template": {"messages": [*_U, *_U], "top_logprobs": 2},
}

SPOKEN = (
    "yes",
    "  yes \n",
    "<think>hm</think>yes",
    "<think>\nhm\n</think>\n\nyes",
    "hm</think>yes </think> no",
    "hm[/THINK]\nyes",
    "<think></think>yes",
    "<think>\n\n</think>\n\nyes",
    "hm </thin x",
    "hm</th",
    "yes<think>hm</think>no",
    "<response>yes</response>",
    "<thought>hm</thought><response>yes</response>",
    "all\nyes",
    " to=self<|message|>hm<|eom|><|start|>assistant to=user<|message|>yes<|eot|>",
    "<|channel|>analysis<|message|>hm<|end|><|start|>assistant<|channel|>final<|message|>yes",
    "<|channel|>commentary to=functions.f<|message|>{}<|end|>",
    "hm<|END_THINKING|><|START_TEXT|>yes<|END_TEXT|>",
    "hm<|close|>think<|sep|><|open|>response<|sep|>yes<|close|>response<|sep|>"
    "<|close|>message<|sep|><|end_of_msg|>",
    "<|channel>thought\nhm<channel|>yes<|channel>thought\n<channel|>",
    "<mm:think> hm</mm:think>yes",
    "hm<tool_call>x",
)
"""What a model is made to say, by a grammar."""

N_ELSEWHERE = 8
"""How many of them it says in the chats after the first."""

SPOKEN_ABOUT: dict[str, dict[str, Any]] = {
    "asked": {"messages": _U},
    "not to think": {"messages": _U, "chat_template_kwargs": {"enable_thinking": False}},
    "raw": {"messages": _U, "reasoning_format": "none"},
    "continued": _continued({"content": "So "}, True),
    "continued with echo": {**_continued({"content": "So "}, True), "echo": True},
    "prefilled": {"messages": [*_U, {"role": "assistant", "content": "So "}]},
    "continued reasoning": _continued({"content": "", "reasoning_content": "Well "}, True),
}
"""The chats in which it says it."""

BROKEN = (
    "{% if x %}",
    "{% if x",
    "{{ x",
    "{{ 'a",
    "{{ 'a\\q' }}",
    "{# x",
    "{{ x ? y }}",
    "{% unknown %}",
    "{% for x of y %}{% endfor %}",
    "{% endif %}",
    "{{ }}",
    "ä {{ [1, 2 }}",
    "{% set x = 1",
    "{{ +",
    "{{ {1 2} }}",
    "{% macro f( %}{% endmacro %}",
    "{% %}",
    "{{ 1e3 }}",
    "{{ (1,) }}",
    "{{ - 3 }}",
    "{{ 1 is in [1] }}",
    "{{ 7 // 2 }}",
    "{% raw %}{% endraw %}",
    "{% include 'x' %}",
    "{{ 99999999999999999999 }}",
    "{% call 1() %}{% endcall %}",
)
"""Templates that can't be parsed."""

SNIPPETS = (
    # texts and white space
    "a {%- if true %} b {% endif -%} c",
    "  {% if true %}\n  x\n  {% endif %}\n  y",
    "a {# c #} b {#- d -#} e",
    "{{ '{{' }}{{ \"a\\n\\t\\\"b\" }}{{ 'a' 'b' }}",
    "{% generation %}x{% endgeneration %}y",
    # printing
    "{{ 1 }} {{ 1.0 }} {{ 1.25 }} {{ true }} {{ none }}|{{ missing }}|{{ [1, 'a', [2]] }}",
    "{{ {'a': 1} }}|{{ {'a': 1} | string }}|{{ [1, 'a', none, 2.5, true, 'it\\'s'] | string }}",
    "{{ (1, 2) | string }}{{ [] | string }}{{ 3 | string }}{{ 2.50 | string }}",
    "{{ 100000000 * 10 }} {{ 0.1 + 0.2 }} {{ 1 / 3 }} {{ 10 / 2 }} {{ 7 % 3 }} {{ -7 % 3 }}",
    "{{ 1 / 0 }} {{ 5 % 0 }}",
    "{{ 9007199254740993 + 0 }} {{ 2 * 1.5 }} {{ -3 }} {{ -3.5 }} {{ 3 - 1 }} {{ 3 -1 }}",
    # operators
    "{{ 'a' + 'b' ~ 1 }} {{ 'a' ~ true }} {{ 'a' + none }}|{{ missing + 'a' }}|{{ 'ab' * 3 }}",
    "{{ 1 ~ 2 }}",
    "{{ 1 + none }}",
    "{{ missing + 1 }}",
    "{{ [1] + [2, 3] }} {{ [1] * 2 }}",
    "{{ 1 == 1.0 }} {{ 1 == true }} {{ 'a' == 'a' }} {{ none == none }} {{ none == missing }}",
    "{{ [1, 2] == [1, 2] }} {{ [[1]] == [[1]] }} {{ {'a': 1} == {'a': 1} }} {{ (1, 2) == [1, 2] }}",
    "{{ 1 < 2 }} {{ 2 >= 2.0 }} {{ 'a' != 'b' }} {{ not 'a' }} {{ not '' }} {{ not [] }}",
    "{{ 'a' < 'b' }}",
    "{{ 'b' in 'abc' }} {{ 'x' not in 'abc' }} {{ 1 in [1] }} {{ 'a' in {'a': 1} }} {{ 1 in missing }}",
    "{{ missing in 'a' }}",
    "{{ 1 in 'a' }}",
    "{{ [1] in {'a': 1} }}",
    "{{ 'a' and 'b' }} {{ '' or 'c' }} {{ 0 or none or 'd' }} {{ missing and 1 }}|",
    "{{ 'y' if true else 'n' }}{{ 'y' if false else 'n' }}|{{ 'y' if false }}|{{ 'y' if true }}",
    # members and slices
    "{{ {'a': {'b': 1}}.a.b }} {{ {'a': 1}['a'] }} {{ {'items': 2}['items'] }} {{ missing.a.b }}|",
    "{{ [1, 2, 3][0] }} {{ [1, 2, 3][-1] }} {{ [1][5] }}| {{ 'abc'[1] }} {{ 'abc'[-1] }}|",
    "{{ 'abcdef'[1:4] }} {{ 'abcdef'[:-2] }} {{ 'abcdef'[-2:] }} {{ 'abcdef'[::-1] }} {{ 'abcdef'[::2] }}",
    "{{ [1, 2, 3, 4][1:] }} {{ [1, 2, 3, 4][::-1] }} {{ [1, 2, 3, 4][3:0:-1] }} {{ [1, 2][-9:9] }}",
    "{{ 'äö' | length }} {{ 'äö'[0:2] }}|{{ 'äö' | upper }}",
    "{{ 'a'.b }}|{{ 1.real }}",
    "{{ missing.items() }}|{{ missing() }}",
    "{{ [1]['a'] }}|{{ [1][1.5] }}",
    "{{ {'a': 1}[[1]] }}",
    "{{ {[{}]: 1} }}",
    # filters and methods of texts
    "{{ ' a b ' | trim }}|{{ ' a '.strip() }}|{{ 'xxaxx'.strip('x') }}|{{ ' a '.lstrip() }}|{{ ' a '.rstrip() }}|",
    "{{ 'aBc' | upper }} {{ 'aBc' | lower }} {{ 'aBc dEF' | title }} {{ 'aBc dEF' | capitalize }}",
    "{{ 'a,b,c'.split(',') }} {{ 'a,b,c'.split(',', 1) | tojson }} {{ 'a b'.split() | tojson }}",
    "{{ 'a,b,c'.rsplit(',', 1) | tojson }} {{ 'abc'.split('') }}",
    "{{ 'abcabc' | replace('b', 'x') }} {{ 'abc'.replace('', '-') }}",
    "{{ 'abc' | replace('b', 'x', 1) }}",
    "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith('bc') }} {{ 'abc'.startswith(1) }}",
    "{{ 'a{}b{}'.format(1, 'x') }} {{ '{0}'.format(1) }}",
    "{{ '12' | int + 1 }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ 'ff' | int(0, 16) }} {{ ' 7z' | int }}",
    "{{ '1.5' | float + 1 }} {{ 'x' | float }} {{ 3 | float }} {{ 3.9 | int }} {{ true | int }}",
    "{{ 'a\nb\n\nc' | indent }}|{{ 'a\nb' | indent(2, true) }}|{{ 'a\n\nb\n' | indent('> ', blank=true) }}",
    "{{ '<b>' | e }}",
    "{{ '<b>' | safe }} {{ 'abc' | length }} {{ 'abc' | count }}",
    "{{ 'abc' | reverse }}",
    "{{ 'abc' | first }}",
    "{{ 'a-b' | join(',') }}",
    "{{ 5 | lower }}{{ true | upper }}{{ none | trim }}{{ [1] | trim }}",
    "{{ 'a' | nothing }}",
    "{{ 'a' | wordcount }}",
    # default
    "{{ missing | default('d') }} {{ none | default('d') }} {{ '' | default('d') }}|{{ '' | default('d', true) }}",
    "{{ missing | d(1) }} {{ 0 | default(2, boolean=true) }} {{ false | default('x', true) }}",
    "{{ {} | default('d') }}",
    # arrays
    "{{ [3, 1, 2] | sort }} {{ [3, 1, 2] | sort(reverse=true) }} {{ ['b', 'A', 'a'] | sort }} {{ [1, 2] | reverse }}",
    "{{ [{'a': 2}, {'a': 1}] | sort(attribute='a') | map(attribute='a') | join(',') }}",
    "{{ [1, 2, 3] | first }} {{ [1, 2, 3] | last }} {{ [] | first }}|{{ [1, 2] | length }} {{ [1, 2] | list }}",
    "{{ ['a', 1, 2.5] | join(', ') }} {{ [1, 2] | join }} {{ [{'a': 1}] | join(',', attribute='a') }}",
    "{{ [none] | join }}",
    "{{ [{'r': 'u', 'c': 1}, {'r': 'a', 'c': 2}] | selectattr('r', 'equalto', 'a') | map(attribute='c') | list }}",
    "{{ [{'r': 1}, {'r': 0}, {}] | selectattr('r') | list | length }} {{ [{'r': 0}] | rejectattr('r') | list | length }}",
    "{{ [1, 'a', 2] | select('string') | list }}",
    "{{ [1, 5] | select('gt', 2) | list }} {{ [1, 5] | reject('gt', 2) | list }}",
    "{{ [1] | selectattr('a') }}",
    "{{ [{}] | selectattr('a', 'nothing', 1) }}",
    "{{ [1, 2] | map('string') }}",
    "{{ [{'a': 1}, {}] | map(attribute='a', default='x') | list }} {{ [[1, 2]] | map(attribute=1) | list }}",
    "{{ [2, 1, 3] | min }} {{ [2, 1, 3] | max }} {{ [] | min }}| {{ [1] | unique }}",
    "{% set a = [1] %}{% set _ = a.append(2) %}{{ a }} {{ a.pop() }} {{ a }} {{ a.pop(0) }}{{ a }}",
    "{{ [].pop() }}",
    "{{ (1, 2).append(3) }}",
    "{{ ['a', true] | sort }} {{ [true, false] | sort }}",
    "{{ [1, 2] | sum }}",
    # objects
    "{% for k, v in {'b': 1, 'a': 2}.items() %}{{ k }}={{ v }};{% endfor %}{% for k in {'b': 1} %}{{ k }}{% endfor %}",
    "{{ {'b': 1, 'a': 2} | dictsort }}{% for k, v in {'b': 1, 'a': 2} | dictsort %}{{ k }}{% endfor %}",
    "{{ {'b': 1, 'a': 2} | dictsort(by='value', reverse=true) | items }} {{ {'a': 1}.keys() }} {{ {'a': 1}.values() }}",
    "{{ {'a': 1}.get('a') }} {{ {'a': 1}.get('b') }}| {{ {'a': 1}.get('b', 2) }} {{ {'a': 1} | length }}",
    "{{ {1: 'x', true: 'y'} | string }} {{ {'a': 1, 'a': 2} | tojson }} {{ {'a': 1} | join }}",
    "{{ {'a': 1} | first }}",
    "{{ none.items() }}|{{ none | items }}|{{ none | tojson }}|{{ none.x }}",
    # JSON
    "{{ {'a': [1, 2.5, none, true, 'é\"\\n\\\\'], 'b': {}, 'c': []} | tojson }}",
    "{{ {'a': [1, {'b': 2}], 'c': {}, 'd': []} | tojson(indent=2) }}",
    "{{ [1, 2] | tojson(separators=(',', ':')) }} {{ {'a': 1} | tojson(separators=(',', ':')) }}",
    "{{ 'é👋' | tojson(ensure_ascii=true) }} {{ [1] | tojson(indent=0) }} {{ missing | tojson }}",
    "{{ {'b': 1} | tojson(sort_keys=true) }}",
    "{{ 1000000.0 | tojson }} {{ 0.1 | tojson }} {{ 1234567.5 | tojson }} {{ '\\b\\f' | tojson }} {{ '</' | tojson }}",
    # tests
    "{{ 1 is number }} {{ 1 is integer }} {{ 1.5 is float }} {{ true is number }} {{ true is boolean }} {{ 'a' is string }}",
    "{{ [1] is iterable }} {{ {} is iterable }} {{ 'a' is sequence }} {{ {} is mapping }} {{ missing is iterable }}",
    "{{ missing is defined }} {{ missing is not defined }} {{ none is none }} {{ none is defined }} {{ 1 is undefined }}",
    "{{ 3 is odd }} {{ 3 is even }} {{ 4 is divisibleby(2) }} {{ true is true }} {{ 1 is true }} {{ false is false }}",
    "{{ 'a' is lower }} {{ 'A' is upper }} {{ 1 is eq(1) }} {{ 2 is gt(1) }} {{ 'a' is in('abc') }}",
    "{{ 'a' is lessthan('b') }} {{ 1 is ne(2) }} {{ 1 is equalto('1') }} {{ namespace is callable }}",
    "{{ 'a' is odd }}",
    "{{ 1 is sameas(1) }}",
    "{{ 1 is nothing }}",
    # statements
    "{% for x in [1, 2, 3] %}{{ loop.index }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }}{{ loop.length }} {% endfor %}",
    "{% for x in [1, 2, 3] %}{{ loop.previtem }}<{{ x }}>{{ loop.nextitem }}{% endfor %}",
    "{% for x in [] %}x{% else %}none{% endfor %}{% for x in missing %}x{% else %}none{% endfor %}",
    "{% for x in [1, 2, 3, 4] if x % 2 == 0 %}{{ x }}/{{ loop.length }}{% else %}no{% endfor %}",
    "{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for a, b in [[1, 2], [3, 4]] %}{{ a }}-{{ b }} {% endfor %}",
    "{% for a, b in [[1]] %}{% endfor %}",
    "{% for a, b in [1] %}{% endfor %}",
    "{% for x in 'abc' %}{{ x }}{% endfor %}",
    "{% for x in 5 %}{% endfor %}",
    "{% set x = 1 %}{% for i in [1, 2] %}{% set x = x + 1 %}{{ x }}{% endfor %}{{ x }}",
    "{% set ns = namespace(n=0, t='') %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}{{ ns.t }}{{ ns.u }}",
    "{% set a, b = [1, 2] %}{{ a }}{{ b }}{% set c %}x{{ a }}{% endset %}{{ c }}",
    "{% set a, b = [1] %}",
    "{% set d = {} %}{% set d.x = 1 %}{{ d.x }}{% set d['y'] = 1 %}",
    "{% if 0 %}a{% elif '' %}b{% elif [] %}c{% else %}d{% endif %}{% if {} %}x{% endif %}{% if 0.0 %}y{% endif %}",
    "{% macro f(a, b=2) %}{{ a }}{{ b }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(1, b=4) }} {{ f(b=5, a=6) }}",
    "{% macro f(a) %}{{ a }}{{ y }}{% endmacro %}{% set y = 2 %}{{ f(1) }}",
    "{% macro f(a) %}{% endmacro %}{{ f() }}",
    "{% macro f() %}[{{ caller('x') }}]{% endmacro %}{% call(v) f() %}<{{ v }}>{% endcall %}",
    "{% filter upper %}a{{ 'b' }}{% endfilter %}{% filter replace('a', 'b') %}aa{% endfilter %}",
    "{{ range(3) }} {{ range(1, 3) }} {{ range(5, 0, -2) }} {{ range(0) }}|",
    "{{ range(1, 2, 0) }}",
    "{{ raise_exception('no: ' + 'ä') }}",
    "{{ raise_exception(1) }}",
    "{{ namespace(1) }}",
    "{{ f(*[1]) }}",
    "{{ strftime_now('%%') }} {{ strftime_now('') }}",
    "{{ 'a'\n   .b()\n}}",
    "{% for x in [1] %}\n  {{ x.y.z() }}\n{% endfor %}",
    "{{ namespace | string }}",
    "{{ not 1 == 2 }} {{ 1 + 2 * 3 }} {{ (1 + 2) * 3 }} {{ 'a' ~ 1 + 2 }} {{ 2 * 3 | string }} {{ -1 | abs }}",
    "{{ [1, 2, 3][1:] | first }} {{ ('a', 'b') | join('-') }} {{ {'a': [1]}.a[0] }} {{ ['x'] | first | upper }}",
)
"""Pieces of a template, each rendered alone."""


def snippets_source() -> str:
    """One template that renders the piece whose number the variable `snippet` has."""
    cases = "".join(
        f"{{%- {'elif' if number else 'if'} snippet == {number} -%}}{piece}"
        for number, piece in enumerate(SNIPPETS)
    )
    return f"[{cases}{{%- endif -%}}]"


LEGACY: dict[str, dict[str, Any]] = {
    "turns": CONVERSATIONS["turns"],
    "two systems": {"messages": [_SYSTEM, _USER, _ANSWER, _SYSTEM, _MORE, _THOUGHT, _USER]},
    "no system": {"messages": [_USER, {"role": "assistant", "content": " Hi \n"}, _MORE]},
    "parts": CONVERSATIONS["parts"],
    "results": {
        "messages": [
            _USER,
            {"role": "assistant_tool_call", "content": "f()"},
            {"role": "tool", "content": " 1 "},
            {"role": "function", "content": "2"},
        ]
    },
    "prefill": CONVERSATIONS["prefill"],
    "no messages": {"messages": []},
    "system alone": {"messages": [_SYSTEM], "add_generation_prompt": False},
}
"""Chats for the formats that need no Jinja."""


def compact(deltas: list[Any]) -> list[Any]:
    """A stream's deltas, shorter: `["content", "ab"]` is one for each character.

    What comes in one piece is `["content", ["ab"]]`.
    """
    made: list[Any] = []
    for delta in deltas:
        if not isinstance(delta, dict) or len(delta) != 1 or "error" in delta:
            made.append(delta)
            continue
        ((key, text),) = delta.items()
        if len(text) != 1:
            made.append([key, [text]])
        elif made and isinstance(made[-1], list) and made[-1][0] == key and isinstance(
            made[-1][1], str
        ):
            made[-1][1] += text
        else:
            made.append([key, text])
    return made
