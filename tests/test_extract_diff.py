"""Two extracts of the invented tree are compared: every kind of change, in text and Markdown."""

import shutil
from pathlib import Path

import pytest

from codegen.diff import main
from codegen.extract import main as extract

DATA = Path(__file__).parent / "data" / "extract"
OLD = str(DATA / "expected")

EDITS = [
    # A route comes, one goes, one gets another handler.
    (
        "tools/server/server.cpp",
        'ctx_http.get ("/health", ex_wrapper(routes.get_health)); // public',
        'ctx_http.get ("/health", ex_wrapper(routes.get_well)); // public\n'
        '    ctx_http.get ("/steep",  ex_wrapper(routes.get_steep));',
    ),
    (
        "tools/server/server.cpp",
        'ctx_http.del ("/pots", ex_wrapper(kitchens->del_pots));',
        "",
    ),
    # A field gets an alias, other limits and another default; one is described otherwise.
    (
        "tools/server/server-schema.cpp",
        '->set_hard_limits(-1, INT32_MAX)\n        ->add_alias("max_tokens")',
        '->set_limits(0, INT32_MAX)\n        ->add_alias("max_tokens")->add_alias("max")',
    ),
    ("common/common.h", "n_predict  = -1", "n_predict  = 7"),
    ("tools/server/server-schema.cpp", '"how many cups"', '"how many mugs"'),
    # A field moves to the front.
    (
        "tools/server/server-schema.cpp",
        '    add((new field_num("t_limit", params.t_limit))\n        ->set_desc("how long"));\n',
        "",
    ),
    (
        "tools/server/server-schema.cpp",
        '    add((new field_bool("stream", params.stream))',
        '    add((new field_num("t_limit", params.t_limit))\n        ->set_desc("how long"));\n'
        '    add((new field_bool("stream", params.stream))',
    ),
    # Keys of bodies and replies, an error text, an option, a metric.
    (
        "tools/server/server-context.cpp",
        'body.at("n").get<int>()',
        'body.at("n").get<float>()',
    ),
    ("tools/server/server-task.cpp", '{"text", content},', '{"text", content},{"tint", tint},'),
    ("tools/server/server-common.cpp", "void kettle<T>::fill(", "void kettle<T>::refill("),
    ("tools/server/server-common.cpp", '"too full"', '"far too `full`"'),
    ("common/arg.cpp", '{"--pair"}, "CUP", "SAUCER",', '{"--couple"}, "CUP", "SAUCER",'),
    ("common/arg.cpp", '.set_env("TEA_N_PREDICT")', '.set_env("TEA_PREDICT")'),
    ("tools/server/server-common.cpp", "code = 400;", "code = 422;"),
    ("tools/server/server-task.cpp", '"spoons_total"', '"ladles_total"'),
]


@pytest.fixture
def new(tmp_path: Path) -> str:
    """An extract of the tree with every edit made."""
    tree = Path(shutil.copytree(DATA / "tree", tmp_path / "tree"))
    for path, before, after in EDITS:
        file = tree / path
        text = file.read_text(encoding="utf-8")
        assert text.count(before) == 1, before
        file.write_text(text.replace(before, after), encoding="utf-8")
    assert extract([str(tree), "--out", str(tmp_path / "new")]) == 0
    return str(tmp_path / "new")


def test_every_change_is_listed(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([OLD, new]) == 1
    assert capsys.readouterr().out == (DATA / "diff.txt").read_text(encoding="utf-8")


def test_the_same_as_markdown(new: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([OLD, new, "--markdown"]) == 1
    assert capsys.readouterr().out == (DATA / "diff.md").read_text(encoding="utf-8")


def test_an_extract_equals_itself(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([OLD, OLD]) == 0
    assert capsys.readouterr().out == (
        "llama.cpp 12 → 12\n\nRoutes: no change\n\nRequest fields: no change\n\n"
        "Keys read from bodies: no change\n\nKeys written into replies: no change\n\n"
        "Options: no change\n\nKinds of error: no change\n\nError texts: no change\n\n"
        "Metrics: no change\n\nFunctions, by file: no change\n"
    )


def test_what_only_help_tells_is_no_change(tmp_path: Path) -> None:
    assert extract([str(DATA / "tree"), "--out", str(tmp_path)]) == 0
    assert main([OLD, str(tmp_path)]) == 0
    assert main([str(tmp_path), OLD]) == 0


def test_no_extract_is_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([OLD, str(tmp_path)]) == 2
    expected = f"{tmp_path / 'build.json'} can't be read: No such file or directory\n"
    assert capsys.readouterr().err == expected


def test_another_shape_is_trouble(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for file in Path(OLD).iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "routes.json").write_text("{}\n", encoding="utf-8")
    assert main([OLD, str(tmp_path)]) == 2
    expected = "an extract has another shape than expected: KeyError('routes')\n"
    assert capsys.readouterr().err == expected
