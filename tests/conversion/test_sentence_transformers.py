"""Folders that sentence-transformers writes, against the library itself; needs `make test-parity`."""

import json
import types

import numpy as np
import pytest

import albert_tf
from albert_tf.tasks.conversion import ConversionOptions
from albert_tf.tasks.conversion import run as convert
from tests.helpers import refused, tiny_config, write_wordpiece

WORDS = ("the", "old", "cat", "sat", "on", "a", "mat", ".", "dog")
TEXTS = ["The old cat.", "a dog sat on the mat", "", "cat " * 90, "mat. mat!"]
POOLINGS = ("cls", "max", "mean", "mean_sqrt_len_tokens", "weightedmean", "lasttoken")


@pytest.fixture(scope="module")
def library():
    return pytest.importorskip("sentence_transformers", reason="needs the group parity")


@pytest.fixture(scope="module")
def modules(library):
    """The classes of modules by name."""
    from sentence_transformers.base import modules as base
    from sentence_transformers.sentence_transformer import modules as embedders

    return types.SimpleNamespace(**{**vars(base), **vars(embedders)})


@pytest.fixture(scope="module")
def encoder(library, tmp_path_factory):
    """A folder of `transformers` with a random BERT and its tokenizer."""
    import torch
    import transformers

    folder = tmp_path_factory.mktemp("encoder")
    write_wordpiece(folder / "vocab.txt", WORDS)
    values = tiny_config(vocab_size=5 + len(WORDS), max_position_embeddings=24).to_dict()
    for name in ("embedding_size", "num_hidden_groups", "inner_group_num", "sharing"):
        del values[name]
    torch.manual_seed(1)
    model = transformers.BertModel(transformers.BertConfig(**{**values, "hidden_act": "gelu"}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    model.save_pretrained(folder)
    transformers.BertTokenizerFast(str(folder / "vocab.txt")).save_pretrained(folder)
    return str(folder)


def embedder_of(modules, encoder, pooling, *after):
    transformer = modules.Transformer(encoder, max_seq_length=24)
    return [transformer, modules.Pooling(48, pooling_mode=pooling), *after]


def check_same(library, folder, embedder, **arguments):
    theirs = library.SentenceTransformer(modules=embedder, device="cpu", **arguments)
    theirs.save(str(folder))
    ours = albert_tf.load(folder)
    for name in theirs.prompts or {"": ""}:
        prompt = {"prompt_name": name} if name else {}
        expected = theirs.encode(TEXTS, **prompt)
        np.testing.assert_allclose(ours.embed(TEXTS, **prompt), expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(ours.embed(TEXTS), theirs.encode(TEXTS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_poolings(library, modules, encoder, pooling, tmp_path):
    check_same(library, tmp_path / "model", embedder_of(modules, encoder, pooling))


@pytest.mark.parametrize("has_dense", [True, False])
def test_several_poolings_are_joined(library, modules, encoder, has_dense, tmp_path):
    dense = (modules.Dense(96, 7),) * has_dense
    embedder = embedder_of(modules, encoder, ["cls", "mean"], *dense, modules.Normalize())
    check_same(library, tmp_path / "model", embedder)
    model = albert_tf.load(tmp_path / "model")
    assert model.kind.pooling == "cls+mean"
    path = tmp_path / "model" / "1_Pooling" / "config.json"
    keys = {"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": True}
    path.write_text(json.dumps({"word_embedding_dimension": 48, **keys}))
    np.testing.assert_array_equal(
        albert_tf.load(tmp_path / "model").embed(TEXTS), model.embed(TEXTS)
    )
    if has_dense:
        with refused("pooling='mean': the layers after the pooling take the width of 'cls\\+mean'"):
            model.embed(TEXTS, pooling="mean")
    else:
        assert model.embed(TEXTS, pooling="mean").shape == (len(TEXTS), 48)
    asked = {"init_checkpoint": str(tmp_path / "model"), "output_checkpoint": str(tmp_path / "new")}
    convert(ConversionOptions(**asked, to="hugging_face"))
    theirs = library.SentenceTransformer(str(tmp_path / "new"), device="cpu")
    np.testing.assert_allclose(theirs.encode(TEXTS), model.embed(TEXTS), rtol=0, atol=1e-5)


@pytest.mark.parametrize("activation", ["Tanh", "Identity", "ReLU", "GELU", "Sigmoid", "SiLU"])
def test_dense_modules(library, modules, encoder, activation, tmp_path):
    import torch

    function = getattr(torch.nn, activation)()
    dense = modules.Dense(48, 7, bias=activation != "Identity", activation_function=function)
    embedder = embedder_of(modules, encoder, "mean", dense, modules.Normalize())
    check_same(library, tmp_path / "model", embedder)


def test_layer_norm_and_dropout(library, modules, encoder, tmp_path):
    import torch

    norm = modules.LayerNorm(48)
    torch.nn.init.normal_(norm.norm.weight)
    torch.nn.init.normal_(norm.norm.bias)
    embedder = embedder_of(modules, encoder, "mean", norm, modules.Dropout(0.3))
    check_same(library, tmp_path / "model", embedder)


@pytest.mark.parametrize("default", [None, "query"])
def test_prompts(library, modules, encoder, default, tmp_path):
    prompts = {"query": "the old ", "document": "cat: "}
    embedder = embedder_of(modules, encoder, "mean", modules.Normalize())
    folder = tmp_path / "model"
    check_same(library, folder, embedder, prompts=prompts, default_prompt_name=default)


def test_a_conversion_keeps_the_modules(library, modules, encoder, tmp_path):
    import torch

    norm = modules.LayerNorm(48)
    torch.nn.init.normal_(norm.norm.weight)
    after = (norm, modules.Dropout(0.3), modules.Dense(48, 7), modules.Normalize())
    embedder = embedder_of(modules, encoder, "lasttoken", *after)
    theirs = library.SentenceTransformer(
        modules=embedder, device="cpu", prompts={"query": "the old "}
    )
    theirs.max_seq_length = 12
    theirs.save(str(tmp_path / "model"))
    asked = {"init_checkpoint": str(tmp_path / "model"), "output_checkpoint": str(tmp_path / "new")}
    convert(ConversionOptions(**asked, to="hugging_face"))
    received = library.SentenceTransformer(str(tmp_path / "new"), device="cpu")
    assert [type(module) for module in received] == [
        type(module) for module in theirs if not isinstance(module, modules.Dropout)
    ]
    ours = albert_tf.load(tmp_path / "new")
    for prompt in ({}, {"prompt_name": "query"}):
        expected = theirs.encode(TEXTS, **prompt)
        np.testing.assert_allclose(received.encode(TEXTS, **prompt), expected, rtol=0, atol=1e-5)
        np.testing.assert_allclose(ours.embed(TEXTS, **prompt), expected, rtol=0, atol=1e-5)
