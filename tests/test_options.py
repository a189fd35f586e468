"""The command line: what is accepted, what it sets, what is refused, and what the user is told."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from generated.cli import CommandLineExit
from generated.cli_help import help_text
from generated.cli_option import Option
from generated.options import OPTIONS, Settings, parse

SUPPORTED = [o for o in OPTIONS if o.status == "supported"]


def refused(*argv: str, **environ: str) -> str:
    """What the server says when it doesn't start."""
    with pytest.raises(CommandLineExit) as caught:
        parse(argv, environ)
    assert (caught.value.status, caught.value.out) == (1, "")
    return caught.value.err


def printed(*argv: str) -> CommandLineExit:
    with pytest.raises(CommandLineExit) as caught:
        parse(argv, {}, devices=lambda: ["MLX0: a GPU (1 MiB, 1 MiB free)"])
    assert caught.value.status == 0
    return caught.value


# --- settings ---


def test_nothing_given() -> None:
    assert parse([], {}) == Settings()


DAILY_SETTINGS = (
    "model", "model_alias", "hostname", "port", "n_ctx", "n_parallel", "temp", "top_k", "api_keys",
    "endpoint_metrics", "endpoint_slots", "ui", "use_jinja",
)  # fmt: skip


def test_a_daily_command_line() -> None:
    line = (
        "-m model.gguf -a small,  --host 0.0.0.0 --port 8081 -c 4096 -np 2 --temp 0.5 --top-k 20 "
        "--api-key one,two --metrics --no-slots --no-webui --jinja"
    )
    assert parse(line.split(), {}) == Settings(
        model="model.gguf",
        model_alias=("small",),
        hostname="0.0.0.0",
        port=8081,
        n_ctx=4096,
        n_parallel=2,
        temp=0.5,
        top_k=20,
        api_keys=("one", "two"),
        endpoint_metrics=True,
        endpoint_slots=False,
        ui=False,
        given=frozenset(DAILY_SETTINGS),
    )


def test_underscores_are_dashes_after_two_dashes_only() -> None:
    assert parse(["--ctx_size", "7"], {}).n_ctx == 7
    assert refused("-no_kvu") == "error: invalid argument: -no_kvu\n"


def test_a_value_may_look_like_an_option() -> None:
    assert parse(["--path", "--port"], {}).public_path == "--port"


def test_the_last_of_several_numbers_counts_and_lists_grow() -> None:
    settings = parse(["--top-k", "1", "--top-k", "2", "-r", "a", "--reverse-prompt", "b"], {})
    assert (settings.top_k, settings.antiprompt) == (2, ("a", "b"))


def test_escapes_in_stop_strings_unless_told_otherwise() -> None:
    argv = ["-r", r"a\n\x41\q", "--dry-sequence-breaker", r"\t"]
    settings = parse(argv, {})
    assert (settings.antiprompt, settings.dry_sequence_breakers) == (("a\nA\\q",), ("\t",))
    settings = parse([*argv, "--no-escape"], {})
    assert (settings.antiprompt, settings.dry_sequence_breakers) == ((r"a\n\x41\q",), (r"\t",))


def test_sequence_breakers_replace_the_defaults() -> None:
    argv = ["--dry-sequence-breaker", "none", "--dry-sequence-breaker", "x"]
    assert parse(argv[:2], {}).dry_sequence_breakers == ()
    assert parse(argv, {}).dry_sequence_breakers == ("x",)


def test_api_keys_are_a_csv_row_and_come_from_files_too(tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    keys.write_text("# ours\nfrom file\n\n#no\n last ")
    argv = ["--api-key", 'a,"b,""c",,d"e', "--api-key-file", str(keys)]
    assert parse(argv, {}).api_keys == ("a", 'b,"c', 'd"e', "from file", " last ")


def test_logit_biases() -> None:
    assert parse(["-l", "15043+1", "-l", "7-0.5"], {}).logit_bias == ((15043, 1.0), (7, -0.5))


def test_reasoning_options_feed_the_chat_template() -> None:
    argv = ["--chat-template-kwargs", '{"a": [1], "reasoning_effort": "low"}', "--reasoning", "off"]
    settings = parse([*argv, "--reasoning-effort", "default", "--reasoning-preserve"], {})
    assert settings.enable_reasoning is False
    assert settings.default_template_kwargs == {
        "a": [1],
        "enable_thinking": False,
        "preserve_reasoning": True,
    }
    assert parse(["--reasoning", "auto"], {}).default_template_kwargs == {}


def test_a_template_file_is_read(tmp_path: Path) -> None:
    template = tmp_path / "chat.jinja"
    template.write_text("{{ messages }}\n")
    assert parse(["--chat-template-file", str(template)], {}).chat_template == "{{ messages }}\n"


# --- environment ---


def test_the_environment_is_read_and_arguments_win() -> None:
    environ = {"LLAMA_ARG_CTX_SIZE": "5", "LLAMA_ARG_PORT": "9"}
    settings = parse(["-c", "7"], environ)
    assert (settings.n_ctx, settings.port) == (7, 9)
    assert settings.announcements == (
        "warn: LLAMA_ARG_CTX_SIZE environment variable is set, but will be overwritten by "
        "command line argument -c",
    )


@pytest.mark.parametrize("word", ["on", "enabled", "true", "1"])
def test_words_that_switch_on(word: str) -> None:
    settings = parse([], {"LLAMA_ARG_ENDPOINT_METRICS": word, "LLAMA_ARG_KV_UNIFIED": word})
    assert (settings.endpoint_metrics, settings.kv_unified) == (True, True)


@pytest.mark.parametrize("word", ["off", "disabled", "false", "0"])
def test_words_that_switch_off(word: str) -> None:
    assert parse([], {"LLAMA_ARG_UI": word}).ui is False


def test_a_flag_in_the_environment_that_is_no_such_word_is_ignored() -> None:
    assert parse([], {"LLAMA_ARG_ENDPOINT_METRICS": "yes"}).endpoint_metrics is False


def test_the_negative_variable_switches_off_whatever_it_holds() -> None:
    assert parse([], {"LLAMA_ARG_NO_UI": "", "LLAMA_ARG_UI": "1"}).ui is False


# --- what isn't supported ---


def test_inert_options_are_named_once() -> None:
    settings = parse(["-ngl", "99", "--no-mmap", "-m", "m"], {"LLAMA_ARG_FLASH_ATTN": "on"})
    assert settings.announcements == (
        "without effect here (--help says why): LLAMA_ARG_FLASH_ATTN, -ngl, --no-mmap",
    )
    assert settings.given == {"model"}


def test_an_inert_option_given_its_default_is_not_worth_a_word() -> None:
    assert parse(["-ngl", "auto", "-fa", "auto", "--mmap"], {}).announcements == ()


def test_variables_that_other_programs_share_are_not_announced() -> None:
    assert parse([], {"HF_TOKEN": "secret"}).announcements == ()


def test_deferred_options_are_refused_all_at_once() -> None:
    argv = ["--lora", "a.gguf", "--log-prompts-dir", ".", "--port", "1"]
    assert refused(*argv, LLAMA_ARG_POOLING="cls") == (
        "error: LLAMA_ARG_POOLING is not supported yet: embeddings aren't built yet\n"
        "error: --lora is not supported yet: LoRA adapters aren't built yet\n"
        "error: --log-prompts-dir is not supported yet: prompts aren't logged yet\n"
    )


def test_deferred_options_may_be_given_their_default() -> None:
    argv = "--no-context-shift --sleep-idle-seconds -1 --spec-type none --reasoning-format auto"
    assert parse(argv.split(), {}).announcements == ()


def test_a_warning_comes_before_the_error() -> None:
    assert refused("--top-k", "1", "--top-k", "2", "--nope") == (
        "DEPRECATED: argument '--top-k' specified multiple times, use comma-separated values "
        "instead (only last value will be used)\n"
        "error: invalid argument: --nope\n"
    )


PORT_REFUSED = """\
error while handling argument "--port": stoi

usage:
--port PORT                       Port to listen on; 0 takes a free one. (default: 8080; env:
                                  LLAMA_ARG_PORT)


to show complete usage, run with -h
"""


def test_the_usage_of_the_option_at_fault_is_shown() -> None:
    assert refused("--port", "many") == PORT_REFUSED


def test_chat_template_variables_must_be_an_object() -> None:
    argument, _, _ = refused("--chat-template-kwargs", "[1]").partition("\n")
    assert argument == (
        'error while handling argument "--chat-template-kwargs": must be a JSON object'
    )


# --- what is printed ---


HELP_BEGINNING = """\
----- common params -----

-h,    --help, --usage            Print this help and exit.
--version                         Print the version and the pinned build, and exit.
-cl,   --cache-list               List the downloaded models and exit. [not supported yet: there
                                  is no download cache yet]
"""
HELP_ON_SLOTS = """
--slots, --no-slots               Serve /slots. (default: on; env: LLAMA_ARG_ENDPOINT_SLOTS)
--slot-save-path PATH             Folder in which slots are saved and restored.
"""


def test_help() -> None:
    text = printed("--port", "1", "-h").out
    assert text.startswith(HELP_BEGINNING)
    assert HELP_ON_SLOTS in text
    assert [line for line in text.splitlines() if len(line) > 100] == []


def test_help_comes_after_all_arguments_are_read() -> None:
    assert refused("-h", "--nope") == "error: invalid argument: --nope\n"
    assert printed("-h", "--lora", "x").out == help_text(OPTIONS)


def test_version_comes_at_once() -> None:
    lines = printed("--version", "--nope").err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("version: ") and "(build " in lines[0] and ", commit " in lines[0]
    assert lines[1].startswith("built with MLX ")


def test_devices() -> None:
    assert printed("--list-devices").out == (
        "Available devices:\n  MLX0: a GPU (1 MiB, 1 MiB free)\n"
    )


def test_the_completion_script_knows_every_spelling() -> None:
    script = printed("--completion-bash").out
    words = script.split('compgen -W "')[1].split('"')[0].split()
    assert words == [s for o in OPTIONS for s in (*o.spellings, *o.negative)]
    assert "|-m|--model|" in script


# --- every option ---

EXAMPLES = {
    "<0|1>": "1", "<0...100>": "7", "N": "2", "PORT": "7", "SEED": "7", "INDEX": "7",
    "SIMILARITY": "0.5", "SECONDS": "7", "P": "0.5", "[on|off|auto]": "off", "[on|off]": "off",
    "TOKEN_ID(+/-)BIAS": "5+1", "SAMPLERS": "temperature", "SEQUENCE": "t", "STRING": "{}",
    "START": "1", "END": "2", "MODE": "mmap", "FORMAT": "none",
}  # fmt: skip


def example(option: Option, hint: str, folder: str, file: str) -> str:
    """Text that is fit for a value of the option."""
    if hint.startswith("{"):
        return hint[1:-1].split(",")[-1]
    if option.spellings[0] == "--numa":
        return "isolate"
    if "cache type" in option.description or hint == "TYPE":
        return "q8_0"
    if option.spellings[0] == "--spec-type":
        return "ngram-mod"
    if option.spellings[0] in ("--slot-save-path", "--media-path"):
        return folder
    return EXAMPLES.get(hint, file)


def test_every_spelling_is_read(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("text\n")
    for option in OPTIONS:
        if option.action is not None or "Gone upstream" in option.description:
            continue
        for spelling in (*option.spellings, *option.negative):
            texts = [example(option, hint, str(tmp_path), str(file)) for hint in option.value]
            try:
                settings = parse([spelling, *texts], {})
            except CommandLineExit as stopped:
                assert option.status in ("deferred", "not_applicable"), stopped.err
                assert stopped.err.startswith(f"error: {spelling} is not supported")
            else:
                if option.setting is not None:
                    assert option.setting in settings.given, spelling


INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
FLOAT32 = st.floats(width=32, allow_nan=False, allow_infinity=False, allow_subnormal=False)
TEXT = st.text(st.characters(blacklist_categories=("Cs",), blacklist_characters="\\"))
STRATEGIES: dict[str, st.SearchStrategy[object]] = {
    "n_ctx": INT32, "n_predict": INT32, "n_batch": INT32, "n_keep": INT32, "top_k": INT32,
    "port": INT32, "timeout_read": INT32, "verbosity": INT32, "mirostat": INT32,
    "penalty_last_n": st.integers(0, (1 << 31) - 1), "seed": st.integers(0, (1 << 32) - 1),
    "top_p": FLOAT32, "min_p": FLOAT32, "penalty_freq": FLOAT32, "dynatemp_range": FLOAT32,
    "temp": FLOAT32.filter(lambda x: x >= 0), "model": TEXT, "hostname": TEXT,
    "chat_template": TEXT, "api_prefix": TEXT, "cors_headers": TEXT,
    "antiprompt": st.lists(TEXT, min_size=1).map(tuple),
    "endpoint_slots": st.booleans(), "cache_prompt": st.booleans(), "ui": st.booleans(),
}  # fmt: skip


def arguments(option: Option, value: object) -> list[str]:
    """The arguments that give the option this value."""
    if isinstance(value, bool):
        return [option.spellings[-1] if value else option.negative[-1]]
    values = value if isinstance(value, tuple) else (value,)
    return [text for item in values for text in (option.spellings[-1], str(item))]


@examples(deadline=None, max_examples=60)
@given(st.fixed_dictionaries({}, optional=STRATEGIES), st.randoms(use_true_random=False))
def test_what_is_given_is_what_is_set(values, random) -> None:  # type: ignore[no-untyped-def]
    plain = [o for o in SUPPORTED if "file" not in o.spellings[-1]]
    feeds = {o.setting: o for o in reversed(plain) if o.setting}
    feeds["verbosity"] = next(o for o in SUPPORTED if "-lv" in o.spellings)
    names = list(values)
    random.shuffle(names)
    argv = [text for name in names for text in arguments(feeds[name], values[name])]
    settings = parse(argv, {})
    assert {name: getattr(settings, name) for name in values} == values
    assert settings.given == set(values)


# --- config files ---


class Config:
    """A user's config file."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "llama.cpp/config.ini"
        self.path.parent.mkdir()
        self.environ = {"XDG_CONFIG_HOME": str(folder)}

    def write(self, text: str) -> None:
        self.path.write_text(text)


@pytest.fixture
def config(tmp_path: Path) -> Config:
    return Config(tmp_path)


def test_a_config_file_is_read_first(config: Config) -> None:
    config.write(
        "; mine\nversion = 1\nctx-size = 5 # five\ntop-k=6\nLLAMA_ARG_PORT = 7\nno-webui = true\n"
        "slots = off\n\n[*]\nctx-size = 1\nmetrics = off\nalias = a b\n[other]\nctx-size = 2\n"
    )
    settings = parse(["--port", "9"], {**config.environ, "LLAMA_ARG_TOP_K": "8"})
    assert (settings.n_ctx, settings.top_k, settings.port) == (5, 8, 9)
    assert (settings.ui, settings.endpoint_slots, settings.endpoint_metrics) == (False, False, True)
    assert settings.model_alias == ("a b",)
    assert settings.announcements == (f"using config file: {config.path}",)


def test_a_repeated_header_empties_its_section(config: Config) -> None:
    config.write("c = 5\n[default]\nn = 4\n")
    settings = parse([], config.environ)
    assert (settings.n_ctx, settings.n_predict) == (0, 4)


def test_of_two_spellings_in_a_config_file_the_later_by_name_counts(config: Config) -> None:
    config.write("ctx-size = 5\nc = 6\n")
    assert parse([], config.environ).n_ctx == 5


def test_unknown_and_inert_options_in_a_config_file_are_told(config: Config) -> None:
    config.write("shine = 1\nthreads-batch = 4\n")
    assert parse([], config.environ).announcements == (
        f"using config file: {config.path}",
        f"ignoring option 'shine' from {config.path}: not supported by this program",
        f"without effect here (--help says why): threads-batch in {config.path}",
    )


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("no sense\n", "failed to parse server config file: {path}\n"),
        (" c = 3\n", "failed to parse server config file: {path}\n"),
        ("c = x\n", 'error while handling option "c" in {path}: stoi\n'),
        ("mm = x\n", "error: mm in {path} is not supported yet: {reason}\n"),
    ],
)
def test_a_config_file_that_can_not_be_used(config: Config, text: str, error: str) -> None:
    config.write(text)
    said = refused(**config.environ)
    reason = next(o.reason for o in OPTIONS if "-mm" in o.spellings)
    assert said == f"using config file: {config.path}\n" + error.format(
        path=config.path, reason=reason
    )
