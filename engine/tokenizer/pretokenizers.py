"""What each `tokenizer.ggml.pre` means: the patterns words are cut by, and the model's switches."""

from __future__ import annotations

from dataclasses import dataclass

from engine.tokenizer.presplit import DIGITS_FROM_RIGHT, KIMI_K2


@dataclass(frozen=True)
class PreTokenizer:
    """How a BPE vocabulary treats text before it merges.

    `clean_spaces` is used by `detokenize` alone, `byte_encode` false means that the vocabulary
    holds raw UTF-8 and `<0xXX>` tokens, `escape_space` that spaces are written as U+2581.
    """

    patterns: tuple[str, ...]
    ignore_merges: bool = False
    add_bos: bool = False
    add_sep: bool = False
    clean_spaces: bool = True
    byte_encode: bool = True
    escape_space: bool = False
    no_default_bos: bool = False
    whole_newlines: bool = False


_CONTRACTION = r"(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])"
_WORD = r"[^\r\n\p{L}\p{N}]?\p{L}+"
_OTHERS = r" ?[^\s\p{L}\p{N}]+[\r\n]*"
_SPACE_RUNS = r"\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_OTHERS}|{_SPACE_RUNS}"
_QWEN2 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}|{_OTHERS}|{_SPACE_RUNS}"
_QWEN35 = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?[\p{{L}}\p{{M}}]+|\p{{N}}"
    rf"| ?[^\s\p{{L}}\p{{M}}\p{{N}}]+[\r\n]*|{_SPACE_RUNS}"
)
_JAIS2 = (
    rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1,3}}|{_OTHERS}|\s*[\r\n]+"
    r"|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|\s{32}(?!\S)|\s{16}(?!\S)"
    r"|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
)
_DEEPSEEK_LETTERS = (
    "A\u002dZa\u002dzµÀ\u002dÖØ\u002döø\u002dƺƼ\u002dƿǄ\u002dʓʕ\u002dʯͰ\u002dͳͶͷͻ\u002dͽͿΆΈ"
    "\u002dΊΌΎ\u002dΡΣ\u002dϵϷ\u002dҁҊ\u002dԯԱ\u002dՖႠ\u002dჅᎠ\u002dᏵᏸ\u002dᏽᲐ\u002dᲺᲽ\u002dᲿ"
    "ᴀ\u002dᴫᵫ\u002dᵷᵹ\u002dᶚḀ\u002dἕἘ\u002dἝἠ\u002dὅὈ\u002dὍὐ\u002dὗὙὛὝὟ\u002d\u1f7dᾀ\u002dᾴ"
    "ᾶ\u002dᾼ\u1fbeῂ\u002dῄῆ\u002dῌῐ\u002d\u1fd3ῖ\u002d\u1fdbῠ\u002dῬῲ\u002dῴῶ\u002dῼℂℇℊ"
    "\u002dℓℕℙ\u002dℝℤ\u2126ℨ\u212a\u002dℭℯ\u002dℴℹℼ\u002dℿⅅ\u002dⅉⅎↃↄⰀ\u002dⱻⱾ\u002dⳤⳫ\u002d"
    "ⳮⳲⳳꙀ\u002dꙭꚀ\u002dꚛꜢ\u002dꝯꝱ\u002dꞇꞋ\u002dꞎꭰ\u002dꮿﬀ\u002dﬆﬓ\u002dﬗＡ\u002dＺａ\u002dｚ𐐀"
    "\u002d𐑏𐒰\u002d𐓓𐓘\u002d𐓻𐲀\u002d𐲲𐳀\u002d𐳲𑢠\u002d𑣟𞤀\u002d𞥃"
)
_DEEPSEEK_LLM = (
    "[\r\n]",
    rf"\s?[{_DEEPSEEK_LETTERS}]+",
    r"\s?[!-/:-~！-／：-～‘-‟　-。]+",
    r"\s+$",
    "[一-龥ࠀ-一가-퟿]+",
    r"\p{N}+",
)
_DEEPSEEK_CODER = ("[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+", r"\p{N}")
_PUNCTUATED = (
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
    rf"| ?[\p{{P}}\p{{S}}]+[\r\n]*|{_SPACE_RUNS}"
)
_DEEPSEEK3 = (r"\p{N}{1,3}", "[一-龥぀-ゟ゠-ヿ]+", _PUNCTUATED)
_CASED_WORD = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    rf"{_CONTRACTION}?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
    rf"{_CONTRACTION}?"
)
_YOUTU = (
    "[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿︰-﹏]+|[ㄅ-ㄯ]+|[一-龥぀-ゟ゠-ヿ]+",
    rf"{_CASED_WORD}|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE_RUNS}",
)
_TINY_AYA = (
    DIGITS_FROM_RIGHT,
    rf"{_CASED_WORD}|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE_RUNS}",
)


def _ascii_cased_word(members: str, contraction: str) -> str:
    upper, lower = rf"((?=[{members}])([^a-z]))", rf"((?=[{members}])([^A-Z]))"
    lead = r"[^\r\n\p{L}\p{N}]?"
    return f"{lead}{upper}*{lower}+{contraction}|{lead}{upper}+{lower}*{contraction}"


_TEKKEN = (
    _ascii_cased_word(r"\p{L}", "") + rf"|\p{{N}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE_RUNS}"
)
_AFTER_CASED = rf"|\p{{N}}{{1,3}}| ?[^\s\p{{L}}\p{{N}}]+[\r\n/]*|{_SPACE_RUNS}"
_GPT4O = _ascii_cased_word(r"\p{L}", f"{_CONTRACTION}?") + _AFTER_CASED
_GRANITE_MULTI = _ascii_cased_word(r"\p{L}\p{M}", f"{_CONTRACTION}?") + _AFTER_CASED
_CHAMELEON = (
    "<sentinel:[0-9]+>",
    "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    "([\\t\\n]|    |  )",
    r"\p{N}",
    r"[\p{P}!-/:-@\[-`{-~]",
    _GPT2,
)
_AFMOE = (
    DIGITS_FROM_RIGHT,
    "[一-鿿㐀-䶿豈-﫿぀-ゟ゠-ヿ･-ﾟ⼀-⿟เ-๿຀-໿ក-៿က-႟ꩠ-ꩿꧠ-꧿가-힯ᄀ-ᇿ]+",
    _PUNCTUATED,
)
_BAILING = (
    rf"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|{_WORD}|\p{{N}}|{_OTHERS}"
    r"|\s*[\r\n]|\s+(?!\S)|\s+"
)
_SEED = rf"{_CONTRACTION}|{_WORD}|\p{{N}}{{1}}| ?[^\s\p{{L}}\p{{N}}\r\n]+|{_SPACE_RUNS}"
_EXAONE_MOE = (
    rf"{_CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?(?:\p{{L}}\p{{M}}*(?: \p{{L}}\p{{M}}*)*)+|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
)
_MINICPM5 = rf"{_CONTRACTION}|{_WORD}|\p{{N}}+|{_OTHERS}|{_SPACE_RUNS}"
_LINES = r"[^\n]+|[\n]+"
_BLOOM = r" ?[^(\s|.,!?…。，、।۔،)]+"
_DEFAULT = (r"[\p{P}\$\+<=>\^~\|]+", _GPT2, r"\p{N}+", "[0-9][0-9][0-9]")

_gpt2 = PreTokenizer((_GPT2,))
_gpt2_kept = PreTokenizer((_GPT2,), clean_spaces=False)
_digits_gpt2 = PreTokenizer((r"\p{N}", _GPT2))
_digits_gpt2_kept = PreTokenizer((r"\p{N}", _GPT2), clean_spaces=False)
_gpt2_sep = PreTokenizer((_GPT2,), add_sep=True)
_llama3 = PreTokenizer((_LLAMA3,), ignore_merges=True, add_bos=True)
_llama3_plain = PreTokenizer((_LLAMA3,))
_chatglm = PreTokenizer((_LLAMA3,), no_default_bos=True)
_qwen2 = PreTokenizer((_QWEN2,), clean_spaces=False)
_qwen2_cleaned = PreTokenizer((_QWEN2,))
_deepseek3 = PreTokenizer(_DEEPSEEK3, clean_spaces=False)
_gpt4o = PreTokenizer((_GPT4O,), clean_spaces=False)
_bailing = PreTokenizer((_BAILING,), clean_spaces=False)
_tiny_aya = PreTokenizer(_TINY_AYA, clean_spaces=False)
_gemma4 = PreTokenizer((_LINES,), byte_encode=False, escape_space=True, whole_newlines=True)

PRE_TOKENIZERS: dict[str, PreTokenizer] = {
    "": PreTokenizer(_DEFAULT),
    "default": PreTokenizer(_DEFAULT),
    "minicpm5": PreTokenizer((r"\p{N}{1,3}", _MINICPM5), ignore_merges=True),
    "llama3": _llama3,
    "llama-v3": _llama3,
    "llama-bpe": _llama3,
    "falcon3": _llama3,
    "falcon-h1": _llama3,
    "pixtral": _llama3,
    "midm-2.0": _llama3,
    "lfm2": _llama3,
    "jina-v5-nano": _llama3,
    "deepseek-llm": PreTokenizer(_DEEPSEEK_LLM, clean_spaces=False),
    "deepseek-coder": PreTokenizer(_DEEPSEEK_CODER, clean_spaces=False),
    "deepseek-v3": _deepseek3,
    "youtu": PreTokenizer(_YOUTU, clean_spaces=False, ignore_merges=True),
    "falcon": PreTokenizer((r"[\p{P}\$\+<=>\^~\|`]+", _GPT2, "[0-9][0-9][0-9]")),
    "mpt": _gpt2,
    "starcoder": _digits_gpt2,
    "gpt-2": _gpt2,
    "phi-2": _gpt2,
    "jina-es": _gpt2,
    "jina-de": _gpt2,
    "gigachat": _gpt2,
    "jina-v2-es": _gpt2,
    "jina-v2-de": _gpt2,
    "a.x-4.0": _gpt2,
    "mellum": _gpt2,
    "modern-bert": _gpt2,
    "jais-2": PreTokenizer((_JAIS2,)),
    "gemma4": _gemma4,
    "granite-embed-multi-311m": _gemma4,
    "sarvam-moe": PreTokenizer((_LINES,), byte_encode=False, escape_space=True, clean_spaces=False),
    "jina-v1-en": _gpt2_sep,
    "jina-v2-code": _gpt2_sep,
    "roberta-bpe": _gpt2_sep,
    "whitespace": PreTokenizer((r"\S+",), byte_encode=False),
    "refact": _digits_gpt2,
    "command-r": _digits_gpt2_kept,
    "qwen2": _qwen2,
    "deepseek-r1-qwen": _qwen2,
    "kormo": _qwen2,
    "f2llmv2": _qwen2,
    "qwen35": PreTokenizer((_QWEN35,), clean_spaces=False),
    "stablelm2": _qwen2_cleaned,
    "olmo": _gpt2,
    "dbrx": _llama3_plain,
    "smaug-bpe": _llama3_plain,
    "poro-chat": PreTokenizer((_BLOOM,), clean_spaces=False),
    "glm4": _chatglm,
    "chatglm-bpe": _chatglm,
    "viking": PreTokenizer((_BLOOM, r"\p{N}"), clean_spaces=False),
    "jais": _gpt2,
    "tekken": PreTokenizer((_TEKKEN,), clean_spaces=False, ignore_merges=True, add_bos=True),
    "smollm": _digits_gpt2_kept,
    "codeshell": _digits_gpt2,
    "bloom": PreTokenizer((_BLOOM,)),
    "gpt3-finnish": PreTokenizer((_BLOOM,)),
    "exaone": _digits_gpt2,
    "exaone4": _gpt2,
    "exaone-moe": PreTokenizer((_EXAONE_MOE,)),
    "chameleon": PreTokenizer(_CHAMELEON, clean_spaces=False, add_bos=True),
    "minerva-7b": _digits_gpt2,
    "megrez": _qwen2_cleaned,
    "gpt-4o": _gpt4o,
    "llama4": _gpt4o,
    "kanana2": _gpt4o,
    "talkie": _gpt4o,
    "granite-embed-multi-97m": PreTokenizer(
        (_GRANITE_MULTI,), clean_spaces=False, ignore_merges=True
    ),
    "tiny_aya": _tiny_aya,
    "cohere2moe": _tiny_aya,
    "superbpe": PreTokenizer((r"\p{N}+", r"(?=(\d{3})+(?!\d))"), clean_spaces=False),
    "trillion": _gpt2_kept,
    "granite-docling": _gpt2_kept,
    "bailingmoe": _bailing,
    "bailingmoe2": _bailing,
    "llada-moe": _bailing,
    "seed-coder": PreTokenizer((_SEED,), clean_spaces=False),
    "hunyuan": _qwen2,
    "hunyuan-dense": _deepseek3,
    "joyai-llm": _deepseek3,
    "kimi-k2": PreTokenizer((KIMI_K2,), clean_spaces=False),
    "grok-2": _qwen2,
    "afmoe": PreTokenizer(_AFMOE, clean_spaces=False),
    "laguna": PreTokenizer((_LINES, _QWEN2), clean_spaces=False),
    "minimax-m2": _gpt4o,
    "solar-open": _qwen2,
    "mellum2": _digits_gpt2,
}
