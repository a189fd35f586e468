"""Loading models: quantised weights, variants of files, descriptions, and refusals in one line."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import mlx.core as mx
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mlx.utils import tree_flatten

from engine.errors import ModelError
from engine.gguf import read_gguf
from engine.gguf.types import BY_NAME
from engine.gguf.values import mlx_form
from engine.loading import LoadedModel, load_model
from engine.loading.architectures import SUPPORTED
from tests.made_models import RECIPES, Recipe, make_tensors, write, write_recipe

PROMPT = [[3, 60, 70, 80, 90, 100, 110, 35]]


def logits(loaded: LoadedModel, tokens: Any = None) -> Any:
    return np.array(loaded.model(mx.array(tokens or PROMPT)).astype(mx.float32))


def parameters(loaded: LoadedModel) -> dict[str, Any]:
    return dict(tree_flatten(loaded.model.parameters()))


@pytest.fixture
def made(tmp_path: Path) -> Any:
    """A function that writes a recipe, with changed metadata or tensors, and returns the path."""

    def path_of(name: str, *, tensors: Any = None, **changes: Any) -> Path:
        recipe: Recipe = replace(RECIPES[name], **changes)
        path = tmp_path / "made.gguf"
        write_recipe(recipe, make_tensors(recipe) if tensors is None else tensors, path)
        return path

    return path_of


@pytest.mark.parametrize(
    "name", ["f16", "bf16", "q4_0", "q5_1", "q8_0", "q3_K", "q4_K", "q5_K", "q6_K", "iq2_xs"]
)
def test_quantised_weights(name: str, tmp_path: Path) -> None:
    """Float32 weights are gguf's values; native ones are kept as they are where MLX can."""
    path = tmp_path / f"{name}.gguf"
    write("llama-256", path, name)
    file = read_gguf(path)
    exact = load_model(path, weights="float32")
    values = parameters(exact)
    assert {value.dtype for value in values.values()} == {mx.float32}
    for theirs, ours in {
        "token_embd": "model.embed_tokens",
        "output": "lm_head",
        "blk.1.attn_q": "model.layers.1.self_attn.q_proj",
        "blk.0.ffn_down": "model.layers.0.mlp.down_proj",
    }.items():
        tensor = file.tensors[f"{theirs}.weight"]
        kind = gguf.GGMLQuantizationType(tensor.type.number)
        stored = file.raw(tensor.name).reshape(tensor.shape[0], -1)
        expected = gguf.quants.dequantize(stored, kind)
        np.testing.assert_array_equal(np.array(values[f"{ours}.weight"]), expected)

    native = load_model(path, weights="native")
    form = mlx_form(BY_NAME[name])
    weight = parameters(native)["lm_head.weight"]
    assert weight.dtype == (mx.uint32 if form else mx.bfloat16 if name == "bf16" else mx.float16)
    # Where MLX has no form of a type, its values are rounded to float16.
    tolerance = 1e-4 if form or name in ("f16", "bf16") else 0.1
    np.testing.assert_allclose(logits(native), logits(exact), atol=tolerance)

    half = load_model(path, weights="half")
    floats = {v.dtype for v in parameters(half).values() if mx.issubdtype(v.dtype, mx.floating)}
    assert floats == {mx.bfloat16 if name == "bf16" else mx.float16}
    assert np.isfinite(logits(half)).all()


@pytest.mark.parametrize("weights", ["native", "half"])
@pytest.mark.parametrize("tensor_type", ["f16", "q4_1", "q5_0"])
def test_experts_in_few_bits(tensor_type: str, weights: Any, tmp_path: Path) -> None:
    """MLX's plain expert layers compute in nothing but float32 on a CPU."""
    write("mixtral", tmp_path / "experts.gguf", tensor_type)
    exact = load_model(tmp_path / "experts.gguf", weights="float32")
    other = load_model(tmp_path / "experts.gguf", weights=weights)
    tolerance = 1e-4 if weights == "native" else 0.1
    last = logits(exact)[0, -1]
    np.testing.assert_allclose(logits(other)[0, -1][last > -50], last[last > -50], atol=tolerance)


@pytest.mark.parametrize(
    "name", ["lfm2", "lfm2moe", "qwen35", "qwen35moe", "qwen3next", "granitehybrid-moe",
             "falcon-h1", "nemotron_h_moe", "gpt-oss", "cohere2"]
)  # fmt: skip
def test_quantised_hybrids(name: str, tmp_path: Path) -> None:
    """What a file has in another order is moved when it is quantised, too."""
    write(name, tmp_path / "model.gguf", "q4_0")
    exact = logits(load_model(tmp_path / "model.gguf", weights="float32"))[0, -1]
    native = logits(load_model(tmp_path / "model.gguf", weights="native"))[0, -1]
    half = logits(load_model(tmp_path / "model.gguf", weights="half"))[0, -1]
    sayable = exact > -20
    np.testing.assert_allclose(native[sayable], exact[sayable], rtol=1e-3, atol=1e-2)
    assert np.corrcoef(half[sayable], exact[sayable])[0, 1] > 0.98


@pytest.mark.parametrize("weights", ["native", "half"])
def test_experts_in_mxfp4_stay_as_they_are(weights: Any, tmp_path: Path) -> None:
    write("gpt-oss", tmp_path / "experts.gguf", "mxfp4")
    exact = load_model(tmp_path / "experts.gguf", weights="float32")
    other = load_model(tmp_path / "experts.gguf", weights=weights)
    path = "model.layers.1.mlp.experts.down_proj"
    packed, plain = parameters(other), parameters(exact)[f"{path}.weight"]
    assert (packed[f"{path}.weight"].dtype, packed[f"{path}.scales"].dtype) == (mx.uint32, mx.uint8)
    values = mx.dequantize(
        packed[f"{path}.weight"], packed[f"{path}.scales"], group_size=32, bits=4, mode="mxfp4"
    )
    np.testing.assert_array_equal(np.array(values.astype(mx.float32)), np.array(plain))
    if weights == "native":
        last = logits(exact)[0, -1]
        np.testing.assert_allclose(logits(other)[0, -1], last, rtol=1e-3, atol=1e-2)


def test_what_a_made_model_is_called(made: Any) -> None:
    loaded = load_model(made("llama"))
    assert (loaded.name, loaded.architecture, loaded.description, loaded.ftype) == (
        "made", "llama", "llama ?B all F32", "all F32",
    )  # fmt: skip
    assert (loaded.vocab_type, loaded.n_layer, loaded.n_head, loaded.n_head_kv) == (2, 2, 4, 2)
    assert loaded.chat_template is not None and "<|im_start|>" in loaded.chat_template
    assert loaded.metadata["tokenizer.ggml.pre"] == "gpt-2"


def test_progress_rises_from_nothing_to_all(made: Any) -> None:
    seen: list[float] = []
    load_model(made("qwen2"), progress=seen.append)
    assert seen[0] == 0 and seen[-1] == 1 and len(seen) > 20
    assert seen == sorted(seen)


def without(name: str, *missing: str) -> list[Any]:
    return [tensor for tensor in make_tensors(RECIPES[name]) if tensor[0] not in missing]


def test_fused_attention_is_taken_apart(made: Any) -> None:
    apart = logits(load_model(made("llama")))
    tensors = dict(make_tensors(RECIPES["llama"]))
    for layer in range(2):
        parts = [tensors.pop(f"blk.{layer}.attn_{one}.weight") for one in "qkv"]
        tensors[f"blk.{layer}.attn_qkv.weight"] = np.concatenate(parts)
    fused = logits(load_model(made("llama", tensors=list(tensors.items()))))
    np.testing.assert_array_equal(fused, apart)


def test_separate_attention_is_fused(made: Any) -> None:
    fused = logits(load_model(made("phi3")))
    tensors = dict(make_tensors(RECIPES["phi3"]))
    for layer in range(2):
        whole = tensors.pop(f"blk.{layer}.attn_qkv.weight")
        for one, rows in zip("qkv", np.split(whole, [128, 192]), strict=True):
            tensors[f"blk.{layer}.attn_{one}.weight"] = rows
    apart = logits(load_model(made("phi3", tensors=list(tensors.items()))))
    np.testing.assert_array_equal(apart, fused)


def test_biases_qwen2_leaves_out_are_zero(made: Any) -> None:
    biases = [f"blk.{i}.attn_{one}.bias" for i in range(2) for one in "qkv"]
    loaded = load_model(made("qwen2", tensors=without("qwen2", *biases)))
    assert not np.array(parameters(loaded)["model.layers.1.self_attn.k_proj.bias"]).any()


def test_gemma_embeddings_are_scaled_by_the_exact_root(made: Any) -> None:
    """mlx-lm rounds the root to bfloat16: 11.3125 for 128, where llama.cpp has 11.3137."""
    loaded = load_model(made("gemma3"))
    model: Any = loaded.model
    embedded = np.array(model.model.embed_tokens(mx.array([70])))[0]
    stored = dict(make_tensors(RECIPES["gemma3"]))["token_embd.weight"][70]
    np.testing.assert_allclose(embedded * 11.3125, stored * np.sqrt(128), rtol=1e-6)


def test_files_that_hold_no_model(made: Any, tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.gguf"
    w = gguf.GGUFWriter(str(path), "llama")
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(caught.value) == f"{path} holds no vocabulary: convert the model again"
    with pytest.raises(ModelError, match=r"lacks tensor 'output_norm\.weight': download or"):
        load_model(made("llama", tensors=without("llama", "output_norm.weight")))


def test_an_unsupported_architecture(made: Any) -> None:
    path = made("llama", architecture="mamba")
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path}: architecture 'mamba' isn't supported; supported are {', '.join(SUPPORTED)}"
    )
    assert {recipe.architecture for recipe in RECIPES.values()} | {"qwen3vlmoe"} == set(SUPPORTED)


def test_tensors_that_do_not_fit(made: Any) -> None:
    more = [*make_tensors(RECIPES["llama"]), ("output.bias", np.zeros(265, np.float32))]
    with pytest.raises(ModelError, match=r"holds tensor 'output\.bias', which isn't supported for"):
        load_model(made("llama", tensors=more))
    other = [
        (name, values[:, :64] if name == "blk.1.ffn_up.weight" else values)
        for name, values in make_tensors(RECIPES["llama"])
    ]
    with pytest.raises(ModelError, match=r"'blk.1.ffn_up.weight' is of shape \[256, 64\], not"):
        load_model(made("llama", tensors=other))


@pytest.mark.parametrize("value", [0, -1, np.nan, np.inf])
def test_frequency_factors_that_make_no_sense(value: float, made: Any) -> None:
    tensors = dict(make_tensors(RECIPES["llama3"]))
    tensors["rope_freqs.weight"][3] = value
    with pytest.raises(ModelError, match=r"tensor 'rope_freqs\.weight' is damaged; convert the"):
        load_model(made("llama3", tensors=list(tensors.items())))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, "'llama.block_count' is 0, not between 1 and 16777216"),
        ({"layers": 513}, "'llama.block_count' is 513, more than 512"),
        ({"heads": 500, "head_dim": 2}, "'llama.attention.head_count' is 500, more than the"),
        ({"kv_heads": 3}, "'llama.attention.head_count_kv' is 3, no divisor of 4"),
        ({"dim": 1 << 30}, "'llama.embedding_length' is 1073741824, not between"),
        ({"head_dim": 31}, "'llama.attention.key_length' is 31, an odd number"),
        ({"metadata": {"rope.dimension_count": 16}}, "'llama.rope.dimension_count' is 16, not 32"),
        ({"metadata": {"rope.freq_base": 0.0}}, "'llama.rope.freq_base' is 0.0 and its scaling"),
        ({"metadata": {"rope.scaling.factor": -2.0}}, "scaling factor -2.0"),
        ({"metadata": {"attention.scale": 0.5}}, "with 'llama.attention.scale' set to 0.5 aren't"),
    ],
)
def test_metadata_that_makes_no_model(changes: Any, message: str, made: Any) -> None:
    tensors = make_tensors(RECIPES["llama"])
    with pytest.raises(ModelError, match=message.replace("(", r"\(")):
        load_model(made("llama", tensors=tensors, **changes))


def test_gemma2_runs_within_its_window(made: Any) -> None:
    path = made("gemma2", metadata={"attention.sliding_window": 512})
    with pytest.raises(ModelError) as caught:
        load_model(path)
    assert str(caught.value) == (
        f"{path}: gemma2 models run with a context of at most 512 tokens, not 2048: "
        "give a smaller --ctx-size"
    )
    assert load_model(path, n_ctx=512).n_ctx_train == 2048


@pytest.fixture(scope="module")
def header(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, Path]:
    path = tmp_path_factory.mktemp("changed") / "changed.gguf"
    write("gemma3", path)
    return path.read_bytes(), path


@settings(max_examples=150, deadline=5000, suppress_health_check=list(HealthCheck))
@given(at=st.integers(24, 1100), value=st.integers(0, 255))
def test_changed_metadata_gives_a_model_or_an_error(
    header: tuple[bytes, Path], at: int, value: int
) -> None:
    content, path = header
    path.unlink(missing_ok=True)
    path.write_bytes(content[:at] + bytes([value]) + content[at + 1 :])
    try:
        loaded = load_model(path)
    except ModelError as error:
        assert str(path) in str(error)
    else:
        assert logits(loaded).shape == (1, len(PROMPT[0]), loaded.n_vocab)


def test_loading_imports_no_more_of_mlx_lm_than_models(made: Any) -> None:
    """mlx-lm's own start-up takes seconds and lowers the limit of open files."""
    script = f"""
import resource, sys
before = resource.getrlimit(resource.RLIMIT_NOFILE)
from engine.loading import load_model
load_model({str(made("llama"))!r})
assert "transformers" not in sys.modules
assert resource.getrlimit(resource.RLIMIT_NOFILE) == before
import mlx_lm
print(mlx_lm.load.__module__, mlx_lm.__version__ != "")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "mlx_lm.utils True\n", done.stderr
