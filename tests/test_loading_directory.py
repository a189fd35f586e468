"""Loading directories of config.json and safetensors, whole and broken."""

import json
import resource
import shutil
from pathlib import Path
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np
import pytest
from mlx.utils import tree_flatten

from engine.errors import ModelError
from engine.loading import LoadedModel, load_model
from tests.made_models import write

PROMPT = [[3, 60, 70, 80, 90, 100, 110, 35]]
CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 128,
    "num_hidden_layers": 2,
    "intermediate_size": 256,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 2048,
    "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0,
    "tie_word_embeddings": False,
    "vocab_size": 265,
}


@pytest.fixture(scope="module")
def same_model(tmp_path_factory: pytest.TempPathFactory) -> tuple[LoadedModel, Path]:
    """The made Llama as loaded from GGUF, and a directory with it in Hugging Face's layout."""
    folder = tmp_path_factory.mktemp("llama")
    write("llama", folder / "made.gguf")
    loaded = load_model(folder / "made.gguf", weights="float32")
    weights: dict[str, Any] = dict(tree_flatten(loaded.model.parameters()))
    for name, value in weights.items():
        if "q_proj" in name or "k_proj" in name:
            # From pairs side by side to halves, the layout transformers rotates.
            pairs = value.reshape(-1, 16, 2, value.shape[-1])
            weights[name] = pairs.transpose(0, 2, 1, 3).reshape(value.shape)
    save(folder / "hf", CONFIG, weights)
    return loaded, folder / "hf"


def save(folder: Path, config: dict[str, Any], weights: dict[str, Any]) -> None:
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    tokenizer = {"chat_template": "{{ messages }}"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"type": "BPE"}}))
    mx.save_safetensors(str(folder / "model.safetensors"), weights)


@pytest.fixture
def copy(same_model: tuple[LoadedModel, Path], tmp_path: Path) -> Path:
    """A copy of the directory to be spoilt."""
    return Path(shutil.copytree(same_model[1], tmp_path / "copy"))


def logits(loaded: LoadedModel) -> Any:
    return np.array(loaded.model(mx.array(PROMPT)).astype(mx.float32))


def dtypes(loaded: LoadedModel) -> set[Any]:
    values: dict[str, Any] = dict(tree_flatten(loaded.model.parameters()))
    return {value.dtype for value in values.values()}


def test_the_same_model_in_both_formats(same_model: tuple[LoadedModel, Path]) -> None:
    from_gguf, folder = same_model
    seen: list[float] = []
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    loaded = load_model(folder, progress=seen.append)
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == limit
    np.testing.assert_allclose(logits(loaded), logits(from_gguf), atol=1e-4)
    assert (loaded.name, loaded.architecture, loaded.description, loaded.ftype) == (
        "hf", "llama", "llama 0M all F32", "all F32",
    )  # fmt: skip
    for name in ("n_vocab", "n_ctx_train", "n_embd", "n_layer", "n_head", "n_head_kv", "n_params"):
        assert getattr(loaded, name) == getattr(from_gguf, name), name
    assert (loaded.size_bytes, loaded.vocab_type) == (from_gguf.size_bytes, 2)
    assert (loaded.metadata, loaded.chat_template) == ({}, "{{ messages }}")
    assert seen[0] == 0 and seen[-1] == 1 and seen == sorted(seen)


def test_half_floats(same_model: tuple[LoadedModel, Path], tmp_path: Path) -> None:
    loaded, folder = same_model
    weights: Any = mx.load(str(folder / "model.safetensors"))
    halves = {name: value.astype(mx.bfloat16) for name, value in weights.items()}
    save(tmp_path / "halves", CONFIG, halves)
    upcast = load_model(tmp_path / "halves", weights="float32")
    assert (upcast.ftype, dtypes(upcast)) == ("BF16", {mx.float32})
    np.testing.assert_allclose(logits(upcast), logits(loaded), atol=0.5)
    native = load_model(tmp_path / "halves", weights="native")
    assert dtypes(native) == {mx.bfloat16}


def test_weights_quantised_by_mlx(copy: Path) -> None:
    import mlx_lm.utils

    model, config = mlx_lm.utils.load_model(copy)
    nn.quantize(model, group_size=64, bits=4)
    quantised: Any = dict(tree_flatten(model.parameters()))
    quantization = {"group_size": 64, "bits": 4}
    save(copy, {**config, "quantization": quantization}, quantised)
    native = load_model(copy, weights="native")
    exact = load_model(copy, weights="float32")
    assert mx.uint32 in dtypes(native) and dtypes(exact) == {mx.float32}
    np.testing.assert_allclose(logits(native), logits(exact), atol=1e-4)
    assert (exact.ftype, exact.n_params) == ("MLX 4-bit", 363392)


def test_the_chat_template_of_its_own_file(copy: Path) -> None:
    (copy / "chat_template.jinja").write_text("own")
    assert load_model(copy).chat_template == "own"
    (copy / "chat_template.jinja").unlink()
    named = [{"name": "tool_use", "template": "t"}, {"name": "default", "template": "d"}]
    (copy / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    assert load_model(copy).chat_template == "d"


def refusal(folder: Path) -> str:
    with pytest.raises(ModelError) as caught:
        load_model(folder)
    message = str(caught.value)
    assert "\n" not in message
    return message.replace(str(folder), "DIR")


def test_missing_files(copy: Path) -> None:
    (copy / "model.safetensors").unlink()
    assert refusal(copy) == "DIR holds no model*.safetensors: download or convert the model"
    index = {"weight_map": {"lm_head.weight": "model-00001-of-00002.safetensors"}}
    (copy / "model.safetensors.index.json").write_text(json.dumps(index))
    assert refusal(copy) == "DIR lacks model-00001-of-00002.safetensors: download the model again"
    (copy / "config.json").unlink()
    assert refusal(copy) == (
        "DIR holds no config.json: give a .gguf file or a directory of a whole model"
    )


def test_broken_files(copy: Path) -> None:
    weights = copy / "model.safetensors"
    whole = weights.read_bytes()
    weights.write_bytes(whole[:-1])
    assert "isn't a whole safetensors file (the data of tensor '" in refusal(copy)
    weights.write_bytes(whole[:100])
    assert "isn't a whole safetensors file (its header is cut off): download it" in refusal(copy)
    weights.write_bytes(b"")
    assert "isn't a whole safetensors file" in refusal(copy)
    weights.write_bytes(whole)
    (copy / "config.json").write_text("{")
    assert refusal(copy).startswith("DIR/config.json can't be read: Expecting property name")
    (copy / "config.json").write_text("[]")
    assert refusal(copy) == "DIR/config.json isn't a JSON object: download it again"
    (copy / "config.json").write_text("{}")
    assert refusal(copy) == "DIR/config.json doesn't say its model_type: download it again"


def test_configs_that_make_no_model(copy: Path) -> None:
    def with_config(**changes: Any) -> str:
        (copy / "config.json").write_text(json.dumps({**CONFIG, **changes}))
        return refusal(copy)

    assert with_config(model_type="no_such_model") == (
        "DIR can't be loaded by mlx-lm: ValueError: Model type no_such_model not supported."
    )
    assert with_config(hidden_size="wide").startswith("DIR can't be loaded by mlx-lm: TypeError:")
    assert with_config(num_hidden_layers=3).startswith("DIR can't be loaded by mlx-lm: ValueError:")
    # Code that a model brings is not run.
    (copy / "own.py").write_text("raise SystemExit('run')")
    assert "custom module ('own.py')" in with_config(model_file="own.py")
