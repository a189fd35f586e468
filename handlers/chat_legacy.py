"""Formats chats without Jinja (`--no-jinja`): about fifty known formats, recognised by their texts.

The formats, their names and the signs they are known by are those of llama.cpp's `llama-chat.cpp`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from handlers.chat_messages import Message
from handlers.chat_peg import SPACE

Turn = tuple[str, str]
"""Role and content."""
Format = Callable[[Sequence[Turn], bool], str]


def legacy_prompt(
    source: str, messages: Sequence[Message], add_generation_prompt: bool
) -> str | None:
    """The prompt, or None if the template is of no known format."""
    format = FORMATS.get(recognised(source))
    if format is None:
        return None
    turns = [(message.role, _content(message)) for message in messages]
    return format(turns, add_generation_prompt)


def _content(message: Message) -> str:
    content = message.content
    for part in message.parts:
        content += f"\n{part}" if content else part
    return content


@dataclass(frozen=True)
class _Roles:
    """A format that writes each turn by itself.

    A pattern holds `{role}` and `{content}`; roles without one get `other`, which may be nothing.
    """

    patterns: Mapping[str, str] = field(default_factory=dict)
    other: str = ""
    asked: str = ""
    start: str = ""
    trims: bool | tuple[str, ...] = False
    role: Callable[[str], str] = str

    def __call__(self, turns: Sequence[Turn], add_generation_prompt: bool) -> str:
        written = self.start + "".join(self._turn(*turn) for turn in turns)
        return written + self.asked if add_generation_prompt else written

    def _turn(self, role: str, content: str) -> str:
        if self.trims is True or (self.trims and role in self.trims):
            content = content.strip(SPACE)
        pattern = self.patterns.get(role, self.other)
        before, _, after = pattern.partition("{content}")
        name = self.role(role)
        whole = before.replace("{role}", name) + content + after.replace("{role}", name)
        return whole if pattern else ""


def _roles(system: str, user: str, assistant: str, asked: str = "", **more: str) -> _Roles:
    return _Roles({"system": system, "user": user, "assistant": assistant, **more}, asked=asked)


def _mistral(*, leading: str = "", trailing: str = "", trims: bool = False) -> Format:
    def write(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
        written, inside = "", False
        for role, content in turns:
            if not inside:
                written += f"{leading}[INST]{trailing}"
                inside = True
            if role == "system":
                written += f"{content}\n\n"
            elif role == "user":
                written += f"{content}{leading}[/INST]"
            else:
                written += f"{trailing}{content.strip(SPACE) if trims else content}</s>"
                inside = False
        return written

    return write


def _llama2(
    *, system: str = "<<SYS>>\n{}\n<</SYS>>\n\n", bos: str = "", trims: bool = False
) -> Format:
    def write(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
        written, inside = "[INST] ", True
        for role, content in turns:
            content = content.strip(SPACE) if trims else content
            if not inside:
                written += f"{bos}[INST] "
                inside = True
            if role == "system":
                before, _, after = system.partition("{}")
                written += before + content + after
            elif role == "user":
                written += f"{content} [/INST]"
            else:
                written += f"{content}</s>"
                inside = False
        return written

    return write


def _monarch(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    written = "<s>".join(f"{role}\n{content}</s>\n" for role, content in turns)
    return written + "<s>assistant\n" if add_generation_prompt else written


def _gemma(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    written = system = ""
    for role, content in turns:
        if role == "system":
            system += content.strip(SPACE)
            continue
        role = "model" if role == "assistant" else role
        written += f"<start_of_turn>{role}\n"
        if system and role != "model":
            written += f"{system}\n\n"
            system = ""
        written += f"{content.strip(SPACE)}<end_of_turn>\n"
    return written + "<start_of_turn>model\n" if add_generation_prompt else written


def _orion(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    written = system = ""
    for role, content in turns:
        if role == "system":
            system += content
        elif role == "user":
            written += "Human: " + (f"{system}\n\n" if system else "")
            written += f"{content}\n\nAssistant: </s>"
            system = ""
        else:
            written += f"{content}</s>"
    return written


def _rwkv(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    names = {"system": "System", "user": "User", "assistant": "Assistant"}
    written = "".join(
        f"{names[role]}: {content.strip(SPACE)}\n\n" for role, content in turns if role in names
    )
    return written + "Assistant:" if turns and turns[-1][0] == "user" else written


def _gigachat(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    has_system = bool(turns) and turns[0][0] == "system"
    written = f"<s>{turns[0][1]}<|message_sep|>" if has_system else "<s>"
    for role, content in turns[has_system:]:
        if role == "user":
            written += f"user<|role_sep|>{content}<|message_sep|>"
            written += "available functions<|role_sep|>[]<|message_sep|>"
        elif role == "assistant":
            written += f"assistant<|role_sep|>{content}<|message_sep|>"
    return written + "assistant<|role_sep|>" if add_generation_prompt else written


def _bailing2(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    if not turns or turns[0][0] != "system":
        turns = [("system", "detailed thinking off"), *turns]
    return _BAILING2(turns, add_generation_prompt)


def _hunyuan_dense(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    written = ""
    for index, (role, content) in enumerate(turns):
        if index == 0 and role == "system":
            written += f"{content}<｜hy_place▁holder▁no▁3｜>"
        elif role == "assistant":
            written += f"<｜hy_Assistant｜>{content}<｜hy_place▁holder▁no▁2｜>"
        elif role == "user":
            written += f"<｜hy_User｜>{content}<｜hy_Assistant｜>"
    return written


def _hunyuan_vl(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    ends = {"user": "<｜hy_User｜>", "assistant": "<｜hy_Assistant｜>"}
    written = "<｜hy_begin▁of▁sentence｜>"
    for index, (role, content) in enumerate(turns):
        if index == 0 and role == "system":
            written += f"{content}<｜hy_place▁holder▁no▁3｜>"
        elif role in ends:
            written += content + ends[role]
    return written


def _pangu(turns: Sequence[Turn], add_generation_prompt: bool) -> str:
    start = "[unused9]系统：[unused10]" if turns and turns[0][0] != "system" else ""
    return start + _PANGU(turns, add_generation_prompt)


def _capitalised(role: str) -> str:
    return role[:1].upper() + role[1:]


def _bailing_role(role: str) -> str:
    return "HUMAN" if role == "user" else role.upper()


def _asked_roles(pattern: str, asked: str, **more: object) -> _Roles:
    return _Roles(other=pattern, asked=asked, **more)  # type: ignore[arg-type]


_EXAONE = "{content}[|endofturn|]\n"
_COMMAND_R = "<|START_OF_TURN_TOKEN|><|{}|>{{content}}<|END_OF_TURN_TOKEN|>"
_BAILING = "<role>{role}</role>{content}"
_GRANITE_ASKED = "<|start_of_role|>assistant<|end_of_role|>"
_GRANITE = "<|start_of_role|>{role}<|end_of_role|>{content}<|end_of_text|>\n"
_BAILING2 = _Roles(
    other=_BAILING + "<|role_end|>", asked="<role>ASSISTANT</role>", role=_bailing_role
)
_PANGU = _roles(
    "[unused9]系统：{content}[unused10]",
    "[unused9]用户：{content}[unused10]",
    "[unused9]助手：{content}[unused10]",
    "[unused9]助手：",
    tool="[unused9]工具：{content}[unused10]",
    function="[unused9]方法：{content}[unused10]",
)
_KIMI = "<|im_{}|>{}<|im_middle|>{{content}}<|im_end|>"


def _granite_4() -> _Roles:
    called = _GRANITE_ASKED + "<|tool_call|>{content}<|end_of_text|>\n"
    return _Roles({"assistant_tool_call": called}, other=_GRANITE, asked=_GRANITE_ASKED)


FORMATS: dict[str, Format] = {
    "chatml": _asked_roles(
        "<|im_start|>{role}\n{content}<|im_end|>\n", "<|im_start|>assistant\n"
    ),
    "llama2": _llama2(system="{}\n"),
    "llama2-sys": _llama2(),
    "llama2-sys-bos": _llama2(bos="<s>"),
    "llama2-sys-strip": _llama2(trims=True),
    "mistral-v1": _mistral(leading=" ", trailing=" "),
    "mistral-v3": _mistral(trailing=" ", trims=True),
    "mistral-v3-tekken": _mistral(),
    "mistral-v7": _Roles(
        {
            "system": "[SYSTEM_PROMPT] {content}[/SYSTEM_PROMPT]",
            "user": "[INST] {content}[/INST]",
        },
        other=" {content}</s>",
    ),
    "mistral-v7-tekken": _Roles(
        {
            "system": "[SYSTEM_PROMPT]{content}[/SYSTEM_PROMPT]",
            "user": "[INST]{content}[/INST]",
        },
        other="{content}</s>",
    ),
    "phi3": _asked_roles("<|{role}|>\n{content}<|end|>\n", "<|assistant|>\n"),
    "phi4": _asked_roles(
        "<|im_start|>{role}<|im_sep|>{content}<|im_end|>", "<|im_start|>assistant<|im_sep|>"
    ),
    "falcon3": _asked_roles("<|{role}|>\n{content}\n", "<|assistant|>\n"),
    "zephyr": _asked_roles("<|{role}|>\n{content}<|endoftext|>\n", "<|assistant|>\n"),
    "monarch": _monarch,
    "gemma": _gemma,
    "orion": _orion,
    "openchat": _Roles(
        {"system": "{content}<|end_of_turn|>"},
        other="GPT4 Correct {role}: {content}<|end_of_turn|>",
        asked="GPT4 Correct Assistant:",
        role=_capitalised,
    ),
    "vicuna": _roles(
        "{content}\n\n", "USER: {content}\n", "ASSISTANT: {content}</s>\n", "ASSISTANT:"
    ),
    "vicuna-orca": _roles(
        "SYSTEM: {content}\n", "USER: {content}\n", "ASSISTANT: {content}</s>\n", "ASSISTANT:"
    ),
    "deepseek": _roles(
        "{content}",
        "### Instruction:\n{content}\n",
        "### Response:\n{content}\n<|EOT|>\n",
        "### Response:\n",
    ),
    "deepseek2": _roles(
        "{content}\n\n",
        "User: {content}\n\n",
        "Assistant: {content}<｜end▁of▁sentence｜>",
        "Assistant:",
    ),
    "deepseek3": _roles(
        "{content}\n\n",
        "<｜User｜>{content}",
        "<｜Assistant｜>{content}<｜end▁of▁sentence｜>",
        "<｜Assistant｜>",
    ),
    "deepseek-ocr": _asked_roles("{content}", ""),
    "command-r": _Roles(
        {
            "system": _COMMAND_R.format("SYSTEM_TOKEN"),
            "user": _COMMAND_R.format("USER_TOKEN"),
            "assistant": _COMMAND_R.format("CHATBOT_TOKEN"),
        },
        asked="<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>",
        trims=True,
    ),
    "llama3": _asked_roles(
        "<|start_header_id|>{role}<|end_header_id|>\n\n{content}<|eot_id|>",
        "<|start_header_id|>assistant<|end_header_id|>\n\n",
        trims=True,
    ),
    "chatglm3": _asked_roles("<|{role}|>\n {content}", "<|assistant|>", start="[gMASK]sop"),
    "chatglm4": _asked_roles("<|{role}|>\n{content}", "<|assistant|>\n", start="[gMASK]<sop>"),
    "glmedge": _asked_roles("<|{role}|>\n{content}", "<|assistant|>"),
    "minicpm": _Roles({"user": "<用户>{content}<AI>"}, other="{content}", trims=True),
    "exaone3": _Roles(
        {
            "system": "[|system|]" + _EXAONE,
            "user": "[|user|]{content}\n",
            "assistant": "[|assistant|]" + _EXAONE,
        },
        asked="[|assistant|]",
        trims=True,
    ),
    "exaone4": _Roles(
        {
            "system": "[|system|]" + _EXAONE,
            "user": "[|user|]{content}\n",
            "assistant": "[|assistant|]" + _EXAONE,
            "tool": "[|tool|]" + _EXAONE,
        },
        asked="[|assistant|]",
        trims=True,
    ),
    "exaone-moe": _Roles(
        {
            role: f"<|{role}|>\n{{content}}<|endofturn|>\n"
            for role in ("system", "user", "assistant", "tool")
        },
        asked="<|assistant|>\n",
        trims=True,
    ),
    "rwkv-world": _rwkv,
    "granite": _Roles(
        {"assistant_tool_call": _GRANITE.replace("{content}", "<|tool_call|>{content}")},
        other=_GRANITE,
        asked=_GRANITE_ASKED,
    ),
    "granite-4.0": _granite_4(),
    "granite-4.1": _granite_4(),
    "gigachat": _gigachat,
    "megrez": _asked_roles(
        "<|role_start|>{role}<|role_end|>{content}<|turn_end|>",
        "<|role_start|>assistant<|role_end|>",
    ),
    "yandex": _Roles(
        {"user": " Пользователь: {content}\n\n", "assistant": " Ассистент: {content}\n\n"},
        asked=" Ассистент:[SEP]",
    ),
    "bailing": _Roles(other=_BAILING, asked="<role>ASSISTANT</role>", role=_bailing_role),
    "bailing-think": _Roles(
        other=_BAILING, asked="<role>ASSISTANT</role><think>", role=_bailing_role
    ),
    "bailing2": _bailing2,
    "llama4": _asked_roles(
        "<|header_start|>{role}<|header_end|>\n\n{content}<|eot|>",
        "<|header_start|>assistant<|header_end|>\n\n",
        trims=True,
    ),
    "smolvlm": _Roles(
        {"system": "{content}\n\n", "user": "User: {content}<end_of_utterance>\n"},
        other="Assistant: {content}<end_of_utterance>\n",
        asked="Assistant:",
        start="<|im_start|>",
    ),
    "dots1": _Roles(
        {
            "system": "<|system|>{content}<|endofsystem|>",
            "user": "<|userprompt|>{content}<|endofuserprompt|>",
        },
        other="<|response|>{content}<|endofresponse|>",
        asked="<|response|>",
    ),
    "hunyuan-moe": _Roles(
        {"system": "<|startoftext|>{content}<|extra_4|>", "assistant": "{content}<|eos|>"},
        other="<|startoftext|>{content}<|extra_0|>",
    ),
    "gpt-oss": _Roles(
        {"assistant": "<|start|>assistant<|message|>{content}<|return|>"},
        other="<|start|>{role}<|message|>{content}<|end|>",
        asked="<|start|>assistant",
    ),
    "hunyuan-dense": _hunyuan_dense,
    "hunyuan-vl": _hunyuan_vl,
    "kimi-k2": _Roles(
        {
            "system": _KIMI.format("system", "system"),
            "user": _KIMI.format("user", "user"),
            "assistant": _KIMI.format("assistant", "assistant"),
            "tool": _KIMI.format("system", "tool"),
        },
        other="{content}<|im_end|>",
        asked="<|im_assistant|>assistant<|im_middle|>",
    ),
    "seed_oss": _asked_roles(
        "<seed:bos>{role}\n{content}<seed:eos>", "<seed:bos>assistant\n", trims=("assistant",)
    ),
    "grok-2": _Roles(
        {
            "system": "System: {content}<|separator|>\n\n",
            "user": "Human: {content}<|separator|>\n\n",
            "assistant": "Assistant: {content}<|separator|>\n\n",
        },
        asked="Assistant:",
        trims=("system", "user"),
    ),
    "pangu-embedded": _pangu,
    "solar-open": _asked_roles(
        "<|begin|>{role}<|content|>{content}<|end|>", "<|begin|>assistant"
    ),
}
"""By the names that `--chat-template` takes; only `dots1` has none there."""


def recognised(source: str) -> str:
    """The format's name: the template itself may be one, else its texts tell; else empty."""
    if source in FORMATS and source != "dots1":
        return source
    bracketed = "[INST]" in source or source.startswith("mistral")
    if bracketed and "<|im_start|>" not in source:
        return _bracketed(source)
    for signs, name in _SIGNS:
        if all(sign in source for sign in signs):
            return name
    return ""


def _bracketed(source: str) -> str:
    """Which of the formats with `[INST]`."""
    if "[SYSTEM_PROMPT]" in source:
        return "mistral-v7"
    if "' [INST] ' + system_message" in source or "[AVAILABLE_TOOLS]" in source:
        if " [INST]" in source:
            return "mistral-v1"
        return "mistral-v3-tekken" if '"[INST]"' in source else "mistral-v3"
    if "content.strip()" in source:
        return "llama2-sys-strip"
    if "bos_token + '[INST]" in source:
        return "llama2-sys-bos"
    return "llama2-sys" if "<<SYS>>" in source else "llama2"


_ROLE = "<role>ASSISTANT</role>"
_SIGNS: tuple[tuple[tuple[str, ...], str], ...] = (
    (("<|im_start|>", "<|im_sep|>"), "phi4"),
    (("<|im_start|>", "<end_of_utterance>"), "smolvlm"),
    (("<|im_start|>",), "chatml"),
    (("<|assistant|>", "<|end|>"), "phi3"),
    (("[gMASK]<sop>",), "chatglm4"),
    (("<|assistant|>", "<|user|>", "<|tool_declare|>"), "exaone-moe"),
    (("<|assistant|>", "<|user|>", "</s>"), "falcon3"),
    (("<|assistant|>", "<|user|>"), "glmedge"),
    (("<|{{ item['role'] }}|>", "<|begin_of_image|>"), "glmedge"),
    (("<|user|>", "<|endoftext|>"), "zephyr"),
    (("bos_token + message['role']",), "monarch"),
    (("<start_of_turn>",), "gemma"),
    (("'\\n\\nAssistant: ' + eos_token",), "orion"),
    (("GPT4 Correct ",), "openchat"),
    (("USER: ", "ASSISTANT: ", "SYSTEM: "), "vicuna-orca"),
    (("USER: ", "ASSISTANT: "), "vicuna"),
    (("### Instruction:", "<|EOT|>"), "deepseek"),
    (("<|START_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"), "command-r"),
    (("<|start_header_id|>", "<|end_header_id|>"), "llama3"),
    (("[gMASK]sop",), "chatglm3"),
    (("<用户>",), "minicpm"),
    (("'Assistant: ' + message['content'] + eos_token",), "deepseek2"),
    (("<｜Assistant｜>", "<｜User｜>", "<｜end▁of▁sentence｜>"), "deepseek3"),
    (("[|system|]", "[|assistant|]", "[|endofturn|]", "[|tool|]"), "exaone4"),
    (("[|system|]", "[|assistant|]", "[|endofturn|]"), "exaone3"),
    (("rwkv-world",), "rwkv-world"),
    (("{{- 'User: ' + message['content']|trim + '\\n\\n' -}}",), "rwkv-world"),
    (("<|start_of_role|>", "<tool_call>", "g4_default_system_message"), "granite-4.0"),
    (("<|start_of_role|>", "<tools>", "g4_default_system_message"), "granite-4.0"),
    (("<|start_of_role|>", "<tool_call>"), "granite-4.1"),
    (("<|start_of_role|>", "<tools>"), "granite-4.1"),
    (("<|start_of_role|>",), "granite"),
    (
        (
            "message['role'] + additional_special_tokens[0] + message['content']"
            " + additional_special_tokens[1]",
        ),
        "gigachat",
    ),
    (("<|role_start|>",), "megrez"),
    ((" Ассистент:",), "yandex"),
    ((_ROLE, "'HUMAN'"), "bailing"),
    ((_ROLE, '"HUMAN"', "<think>"), "bailing-think"),
    ((_ROLE, "<role>HUMAN</role>", "<|role_end|>"), "bailing2"),
    (("<|header_start|>", "<|header_end|>"), "llama4"),
    (("<|endofuserprompt|>",), "dots1"),
    (("<|extra_0|>", "<|extra_4|>"), "hunyuan-moe"),
    (("<|start|>", "<|channel|>"), "gpt-oss"),
    (("<｜hy_Assistant｜>", "<｜hy_begin▁of▁sentence｜>"), "hunyuan-vl"),
    (("<｜hy_Assistant｜>", "<｜hy_place▁holder▁no▁3｜>"), "hunyuan-dense"),
    (("<|im_assistant|>assistant<|im_middle|>",), "kimi-k2"),
    (("<seed:bos>",), "seed_oss"),
    (("'Assistant: '  + message['content'] + '<|separator|>",), "grok-2"),
    (("[unused9]系统：[unused10]",), "pangu-embedded"),
    (("<|begin|>", "<|end|>", "<|content|>"), "solar-open"),
)
