"""The extractor reads an invented tree of a tea server, and is loud about what it can't read."""

import shutil
from pathlib import Path

import pytest

from codegen.extract import main

DATA = Path(__file__).parent / "data" / "extract"
EXPECTED = DATA / "expected"

ARG = "common/arg.cpp"
HTTP = "tools/server/server-http.cpp"
SCHEMA = "tools/server/server-schema.cpp"
SERVER = "tools/server/server.cpp"
COMMON = "tools/server/server-common.cpp"
CONTEXT = "tools/server/server-context.cpp"
TASK = "tools/server/server-task.cpp"


def read_all(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the invented tree, to be spoilt."""
    return Path(shutil.copytree(DATA / "tree", tmp_path / "tree"))


def spoil(tree: Path, path: str, old: str, new: str) -> None:
    file = tree / path
    text = file.read_text(encoding="utf-8")
    assert text.count(old) == 1
    file.write_text(text.replace(old, new), encoding="utf-8")


def test_the_invented_tree_gives_the_reviewed_facts(tmp_path: Path) -> None:
    help_text = str(DATA / "help.txt")
    assert main([str(DATA / "tree"), "--help-text", help_text, "--out", str(tmp_path)]) == 0
    assert read_all(tmp_path) == read_all(EXPECTED)


def test_running_twice_changes_nothing(tmp_path: Path) -> None:
    arguments = [str(DATA / "tree"), "--out", str(tmp_path)]
    assert main(arguments) == 0
    first = read_all(tmp_path)
    assert main(arguments) == 0
    assert read_all(tmp_path) == first


def test_without_package_metadata_the_version_is_null(tree: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main([str(tree), "--out", str(out)]) == 0
    start = '{\n  "package": null,\n  "version": null,\n  "build": null,\n'
    assert (out / "build.json").read_text(encoding="utf-8").startswith(start)


LOUD = [
    pytest.param(
        SCHEMA,
        '->set_desc("how long")',
        '->set_unit("ms")',
        f"{SCHEMA}:25: unknown method in field 't_limit': set_unit(\"ms\"))",
        id="unknown method of a field",
    ),
    pytest.param(
        SCHEMA,
        'new field_num("n_cups", params.n_cups)',
        'new field_range("n_cups", params.n_cups)',
        f"{SCHEMA}:20: unknown kind of field: "
        'new field_range("n_cups", params.n_cups))->set_hard_limits(1',
        id="unknown kind of field",
    ),
    pytest.param(
        SCHEMA,
        'new field_num("n_cups", params.n_cups)',
        "new field_num(CUPS, params.n_cups)",
        f"{SCHEMA}:20: unreadable arguments of field_num: "
        "new field_num(CUPS, params.n_cups))->set_hard_limits(1",
        id="field without a literal name",
    ),
    pytest.param(
        SCHEMA,
        'new field_num("n_cups", params.n_cups)',
        'new field_num("n_cups", params.cups)',
        f"{SCHEMA}: field 'n_cups': params.cups isn't declared",
        id="field of an undeclared member",
    ),
    pytest.param(
        SCHEMA,
        'new field_num("n_cups", params.n_cups)',
        'new field_num("n_cups", params.spoons)',
        f"{SCHEMA}: field 'n_cups': params.spoons has unknown type 'std::map<int, float>'",
        id="field of an unknown type",
    ),
    pytest.param(
        SCHEMA,
        '->set_desc("how many cups"));',
        '->set_desc("how many cups");',
        f"{SCHEMA}:54: '}}' stands where '(' of line 20 is to be closed",
        id="live field with a missing bracket",
    ),
    pytest.param(
        SCHEMA,
        "    return fields;",
        '    if (params_base.port) {\n        add((new field_json("extra")));\n    }\n'
        "    return fields;",
        f'{SCHEMA}:54: a field is added under a condition: add((new field_json("extra")))',
        id="field under a condition",
    ),
    pytest.param(
        SCHEMA,
        "    return fields;",
        "    add(milk_field());\n    return fields;",
        f"{SCHEMA}:53: add() of something that is no new field: add(milk_field())",
        id="field made elsewhere",
    ),
    pytest.param(
        SCHEMA,
        "    params.verbose   = params_base.port > 9;",
        '    keep(new field_json("later"));',
        f'{SCHEMA}:60: a field is made where none is expected: new field_json("later"))',
        id="field outside the schema",
    ),
    pytest.param(
        TASK,
        "    return res;",
        '    keep(new field_json("later"));',
        f'{TASK}:18: a field is made where none is expected: new field_json("later"))',
        id="field in another file",
    ),
    pytest.param(
        SERVER,
        '"/pour",   ex_wrapper(routes.post_pour)',
        "POUR_PATH, ex_wrapper(routes.post_pour)",
        f"{SERVER}:14: unreadable registration of a route: "
        "ctx_http.post(POUR_PATH, ex_wrapper(routes.post_pour))",
        id="route without a literal path",
    ),
    pytest.param(
        SERVER,
        '"/pour",   ex_wrapper(routes.post_pour)',
        '"/pour", routes.post_pour',
        f"{SERVER}:14: unreadable registration of a route: "
        'ctx_http.post("/pour", routes.post_pour)',
        id="route without ex_wrapper",
    ),
    pytest.param(
        SERVER,
        "ctx_http.register_gcp_compat();",
        'ctx_http.put("/pour", ex_wrapper(routes.put_pour));',
        f'{SERVER}:24: unknown use of ctx_http: ctx_http.put("/pour", ex_wrapper(routes.put_pour))',
        id="unknown HTTP method",
    ),
    pytest.param(
        SERVER,
        "ctx_http.register_gcp_compat();",
        "add_more_routes(ctx_http);",
        f"{SERVER}:24: ctx_http is passed on, so routes may be registered elsewhere: ctx_http)",
        id="routes registered elsewhere",
    ),
    pytest.param(
        SERVER,
        "ctx_http.register_gcp_compat();",
        'ctx_http.get ("/health", ex_wrapper(routes.other));',
        f"{SERVER}:24: a route is registered twice: "
        'ctx_http.get("/health", ex_wrapper(routes.other))',
        id="route registered twice",
    ),
    pytest.param(
        SERVER,
        "ctx_http.register_gcp_compat();",
        'for (int i : kitchens) {\n    ctx_http.get ("/k", ex_wrapper(routes.k));\n    }',
        f"{SERVER}:25: a route is registered in a block that is no if: "
        'ctx_http.get("/k", ex_wrapper(routes.k))',
        id="route registered in a loop",
    ),
    pytest.param(
        HTTP,
        'srv->set_mount_point(params.api_prefix + "/", params.public_path);',
        "",
        f"{HTTP}: one static mount is expected, found 0",
        id="no static mount",
    ),
    pytest.param(
        HTTP,
        "endpoints.insert(frontend_paths.begin(), frontend_paths.end());",
        "",
        f"{HTTP}: the files of the user interface are no longer public",
        id="files no longer public",
    ),
    pytest.param(
        HTTP,
        "register_gcp_compat() const",
        "register_vertex() const",
        f"{HTTP}: register_gcp_compat() or gcp_params() isn't there",
        id="no Vertex AI routes",
    ),
    pytest.param(
        ARG,
        '{"-h", "--help"},',
        "help_spellings,",
        f"{ARG}:20: unreadable arguments of an option: "
        'common_arg(help_spellings, "say what there is", [](common_params & params) {',
        id="option without literal spellings",
    ),
    pytest.param(
        ARG,
        "[](common_params & params) {\n            exit(0);\n        }",
        "print_everything",
        f"{ARG}:20: unreadable arguments of an option: "
        'common_arg({"-h", "--help"}, "say what there is", print_everything))',
        id="option without a lambda",
    ),
    pytest.param(
        ARG,
        '.set_env("TEA_N_PREDICT")',
        '.set_colour("TEA_N_PREDICT")',
        f'{ARG}:33: unknown method on option -n: .set_colour("TEA_N_PREDICT"))',
        id="unknown method of an option",
    ),
    pytest.param(
        ARG,
        '.set_env("TEA_N_PREDICT")',
        ".set_env(SOME_MACRO)",
        f"{ARG}:33: unreadable environment variable: .set_env(SOME_MACRO))",
        id="option with an unknown macro",
    ),
    pytest.param(
        ARG,
        ".set_examples(saucer_examples)",
        ".set_examples(other_examples)",
        f"{ARG}:90: unreadable list of -sc: "
        '.set_examples(other_examples).set_env("LLAMA_ARG_SAUCER"))',
        id="option with an unknown list",
    ),
    pytest.param(
        ARG,
        "    return ctx_arg;",
        "    add_opt(milk_option());\n    return ctx_arg;",
        f"{ARG}:122: add_opt() of something that is no common_arg(...): add_opt(milk_option())",
        id="option made elsewhere",
    ),
    pytest.param(
        ARG,
        "    if (has_remote_kitchen()) {",
        "    for (int i = 0; i < 2; i++) {",
        f"{ARG}:109: an option is added in a block that is no if: "
        'add_opt(common_arg({"--kitchen"}, "HOST", "where the kitchen is", []',
        id="option added in a loop",
    ),
    pytest.param(
        ARG,
        "params.hostname = value;",
        "params.host = value;",
        f"{ARG}:119: setting host isn't declared: params.host = value",
        id="option that sets an undeclared member",
    ),
    pytest.param(
        ARG,
        '{"--host",',
        '{"--temp",',
        f"{ARG}: --temp is declared twice",
        id="option declared twice",
    ),
    pytest.param(
        COMMON,
        "code = 400;",
        "code = bad_request();",
        f"{COMMON}:6: unreadable kind of error: "
        'case ERROR_TYPE_INVALID_REQUEST : type_str = "invalid_request_error"',
        id="unreadable kind of error",
    ),
    pytest.param(
        CONTEXT,
        "ERROR_TYPE_SERVER",
        "ERROR_TYPE_TEAPOT",
        f"{CONTEXT}:11: unknown kind of error ERROR_TYPE_TEAPOT: "
        'send_error(task, std::string("got exception: ") + e.what',
        id="unknown kind of error",
    ),
    pytest.param(
        TASK,
        '"Present heat",\n            heat\n',
        '"Present heat"\n',
        f'{TASK}:34: unreadable metric: {{"heat", "Present heat"}},}}',
        id="unreadable metric",
    ),
    pytest.param(
        TASK,
        'add_items("gauge",   gauges);',
        "",
        f"{TASK}:33: a list of metrics is never printed: "
        'metric_item> gauges = {{"heat", "Present heat", heat},}',
        id="metrics that aren't printed",
    ),
    pytest.param(
        TASK,
        '{size=\\"" << i << "\\"} "',
        ' "',
        f"{TASK}: metric cups_per_size_total is described and never written",
        id="series without a value",
    ),
    pytest.param(
        ARG,
        '.set_spec());\n    add_opt(common_arg(\n        {"--pair"}',
        '.set_spec() + 1);\n    add_opt(common_arg(\n        {"--pair"}',
        f"{ARG}:65: unreadable end of option --old-pot: +1)",
        id="option with an unknown end",
    ),
    pytest.param(
        SCHEMA,
        "make_tea_schema",
        'make_tea_schema(); void other() { keep(new field_num("x", y)); } vector make',
        f"{SCHEMA}: one function that makes fields is expected, found other, make",
        id="two schemas",
    ),
    pytest.param(
        "common/common.h",
        "#pragma once",
        "#if SOMETHING",
        "common/common.h:31: an #if without #endif",
        id="unbalanced preprocessor",
    ),
]


@pytest.mark.parametrize(("path", "old", "new", "message"), LOUD)
def test_what_is_not_recognised_is_an_error(
    tree: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    path: str,
    old: str,
    new: str,
    message: str,
) -> None:
    spoil(tree, path, old, new)
    out = tmp_path / "out"
    assert main([str(tree), "--out", str(out)]) == 1
    assert capsys.readouterr().err == f"{message}\n1 problem; nothing was written\n"
    assert not out.exists()
