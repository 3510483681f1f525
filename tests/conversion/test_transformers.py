"""Hugging Face folders against `transformers` and KerasHub themselves; needs `make test-parity`."""

import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints.loading import load_checkpoint, read_config
from albert_tf.conversion import load_model, save_model
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tokenization import AlbertTokenizer, WordPieceTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import hugging_face_files
from tests.checkpoints.layouts import (
    ARCHITECTURES,
    check_same_tensors,
    is_bert,
    read_folder,
    write_original,
)
from tests.helpers import random_inputs, shared_path, tiny_config, write_wordpiece
from tests.tokenization.test_in_graph import REAL_TEXTS, read_real_lines


def load(folder):
    return load_model(read_config(f"{folder}/config.json"), folder)


def inputs_for(architecture):
    inputs = random_inputs()
    if architecture.endswith("ForMultipleChoice"):
        return {name: ids.reshape(1, 3, 11) for name, ids in inputs.items()}
    return {**inputs, "masked_lm_positions": np.array([[0, 4], [10, 2], [3, 3]], np.int32)}


def outputs_of(model, inputs):
    """Returns what a model computes, under the names that `transformers` gives it."""
    outputs = model(inputs)
    if not isinstance(outputs, dict):
        return {"logits": outputs}
    names = {
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "masked_lm_logits": "prediction_logits",
        "sentence_order_logits": "sop_logits",
    }
    return {names.get(name, name): output for name, output in outputs.items()}


def random_of_theirs(architecture, **changes):
    """Returns a random model of `transformers`, in evaluation mode."""
    torch = pytest.importorskip("torch", reason="needs the group parity: torch")
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    torch.manual_seed(1)
    values = {**tiny_config(num_hidden_groups=2, inner_group_num=2).to_dict(), **changes}
    del values["sharing"]
    family = "Bert" if is_bert(architecture) else "Albert"
    if is_bert(architecture):
        for name in ("embedding_size", "num_hidden_groups", "inner_group_num"):
            del values[name]
    config_class = getattr(transformers, f"{family}Config")
    config = config_class(**{"hidden_act": "gelu_new", **values})
    model = getattr(transformers, architecture)(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.1 * torch.randn(parameter.shape))
    return model


def outputs_of_theirs(model, inputs):
    import torch

    names = {"input_mask": "attention_mask", "segment_ids": "token_type_ids"}
    positions = inputs.get("masked_lm_positions")
    with torch.no_grad():
        outputs = model(
            **{
                names.get(name, name): torch.from_numpy(ids).long()
                for name, ids in inputs.items()
                if name != "masked_lm_positions"
            }
        )
    outputs = {name: output.numpy() for name, output in outputs.items()}
    if "seq_relationship_logits" in outputs:
        outputs["sop_logits"] = outputs.pop("seq_relationship_logits")
    if "MaskedLM" in type(model).__name__:
        outputs = {"prediction_logits": outputs["logits"]}
    if "prediction_logits" in outputs:
        outputs["prediction_logits"] = np.take_along_axis(
            outputs["prediction_logits"], positions[..., None], axis=1
        )
    return outputs


def check_same_outputs(ours, theirs, architecture):
    inputs = inputs_for(architecture)
    received, expected = outputs_of(ours, inputs), outputs_of_theirs(theirs, inputs)
    for name, output in expected.items():
        np.testing.assert_allclose(received[name], output, rtol=0, atol=1e-5, err_msg=name)


@pytest.mark.slow
@pytest.mark.parametrize("hidden_act", ["gelu_new", "gelu", "relu"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_random_models_of_transformers_agree_both_ways(tmp_path, architecture, hidden_act):
    labels = {"num_labels": 3} if architecture.endswith("Classification") else {}
    theirs = random_of_theirs(architecture, hidden_act=hidden_act, **labels)
    theirs.save_pretrained(tmp_path / "theirs")
    ours, report = load(str(tmp_path / "theirs"))
    assert report.unexpected == report.missing == ()
    check_same_outputs(ours, theirs, architecture)

    save_model(ours, str(tmp_path / "back"))
    # We write an encoder alone with the prefix, too.
    prefix = f"{theirs.base_model_prefix}." if architecture.endswith("Model") else ""
    tensors = {prefix + name: x for name, x in read_folder(tmp_path / "theirs").items()}
    check_same_tensors(read_folder(tmp_path / "back"), tensors)
    again, notes = type(theirs).from_pretrained(tmp_path / "back", output_loading_info=True)
    assert not any(notes.values()), notes
    check_same_outputs(ours, again.eval(), architecture)


def as_google_stores_it(name):
    """Returns the name of a tensor of BERT in Google's checkpoints.

    The rules are those of `convert_bert_pytorch_checkpoint_to_original_tf.py` of `transformers`, and for
    the next-sentence head those of its `load_tf_weights_in_bert`.
    """
    rules = {
        "layer.": "layer_",
        "embeddings.weight": "embeddings",
        ".": "/",
        "LayerNorm/weight": "LayerNorm/gamma",
        "LayerNorm/bias": "LayerNorm/beta",
        "seq_relationship/": "seq_relationship/output_",
        "predictions/bias": "predictions/output_bias",
        "output_weight": "output_weights",
        "weight": "kernel",
    }
    for theirs, googles in rules.items():
        if theirs != "weight" or not name.endswith("output_weights"):
            name = name.replace(theirs, googles)
    return name


def test_googles_bert_computes_what_transformers_does(tmp_path):
    theirs = random_of_theirs("BertForPreTraining", hidden_act="gelu_new")
    copies = {"cls.predictions.decoder.weight", "cls.predictions.decoder.bias"}
    tensors = {
        as_google_stores_it(name): tensor.numpy().T
        if "dense.w" in name or "self" in name
        else tensor
        for name, tensor in theirs.state_dict().items()
        if name not in copies
    }
    write_original(tmp_path / "bert_model.ckpt", tensors | {"global_step": np.int64(7)})
    keys = [
        "vocab_size",
        "hidden_size",
        "num_hidden_layers",
        "num_attention_heads",
        "intermediate_size",
    ]
    config = {key: getattr(theirs.config, key) for key in [*keys, "max_position_embeddings"]}
    (tmp_path / "bert_config.json").write_text(json.dumps({**config, "hidden_act": "gelu"}))
    config = read_config(str(tmp_path / "bert_config.json"))
    ours, report = load_model(config, str(tmp_path / "bert_model.ckpt"))
    assert report.unexpected == report.missing == ()
    check_same_outputs(ours, theirs, "BertForPreTraining")


@pytest.fixture(scope="module")
def tokenizer():
    return AlbertTokenizer(str(shared_path("data/sentencepiece/30k-clean.model")))


@pytest.fixture(scope="module")
def encoder(tokenizer):
    return AlbertEncoder(tiny_config(vocab_size=tokenizer.vocab_size), seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_auto_tokenizer_gives_our_ids(tmp_path, lower_case):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    vocabulary = str(shared_path("data/sentencepiece/30k-clean.model"))
    tokenizer = AlbertTokenizer(vocabulary, lower_case)
    encoder = AlbertEncoder(tiny_config(vocab_size=tokenizer.vocab_size))
    files = hugging_face_files(tokenizer, 512)
    save_model(encoder, str(tmp_path / "out"), contents=files)
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    assert theirs.pad_token_id == tokenizer.pad_id
    assert theirs.mask_token_id == tokenizer.mask_id
    assert (theirs.model_max_length, theirs.is_fast) == (512, True)
    scores = [score for _, score in json.loads(files["tokenizer.json"])["model"]["vocab"]]
    lines, ties = list(read_real_lines()), 0
    received = theirs(lines, add_special_tokens=False)["input_ids"]
    pairs = zip(received, tokenizer.encode_batch(lines), strict=True)
    for line, (theirs_ids, our_ids) in zip(lines, pairs, strict=True):
        if theirs_ids != our_ids:
            # Two splits of, say, 333333 that are equally probable.
            sums = [sum(scores[id_] for id_ in ids) for ids in (theirs_ids, our_ids)]
            assert sums[0] == pytest.approx(sums[1], rel=1e-6), line
            ties += 1
    assert len(lines) > 30_000
    assert ties <= 3
    # The only difference left: there, the name of a special piece in a text is that piece.
    assert theirs.encode("a [SEP]", add_special_tokens=False)[-1] == tokenizer.sep_id
    assert tokenizer.sep_id not in tokenizer.encode("a [SEP]")


@pytest.mark.slow
@pytest.mark.parametrize("lower_case", [True, False])
def test_bert_tokenizer_gives_our_ids(tmp_path, lower_case):
    transformers = pytest.importorskip("transformers", reason="needs the group parity")
    lines = list(read_real_lines(500, REAL_TEXTS[:2]))
    letters = sorted({char for line in lines for char in line if not char.isspace()})
    words = sorted({word for line in lines[::10] for word in line.lower().split()})
    pieces = dict.fromkeys([*letters, *words])
    pieces |= dict.fromkeys(f"##{letter}" for letter in letters[::2])
    vocabulary = write_wordpiece(tmp_path / "vocab.txt", pieces)
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lower_case}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path)
    ours = WordPieceTokenizer(vocabulary, lower_case)
    received = theirs(lines, add_special_tokens=False, return_offsets_mapping=True)
    theirs = zip(received["input_ids"], received["offset_mapping"], strict=True)
    for line, (ids, spans) in zip(lines, theirs, strict=True):
        assert (ids, spans) == ours.encode_with_offsets(line)
        assert ids == ours.encode(line)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["encoder", "classifier"])
def test_keras_hub_reads_our_folders(tmp_path, tokenizer, encoder, kind):
    keras_hub = pytest.importorskip("keras_hub", reason="needs the group parity: keras-hub")
    model = encoder if kind == "encoder" else AlbertClassifier(encoder, 3)
    files = hugging_face_files(tokenizer, 64)
    save_model(model, str(tmp_path / "out"), contents=files)
    backbone = keras_hub.models.AlbertBackbone.from_preset(str(tmp_path / "out"))
    inputs, names = random_inputs(), ("token_ids", "padding_mask", "segment_ids")
    received = backbone(dict(zip(names, inputs.values(), strict=True)))
    expected = encoder(inputs)
    for name in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(received[name], expected[name], rtol=0, atol=1e-4, err_msg=name)
    theirs = keras_hub.models.AlbertTokenizer.from_preset(str(tmp_path / "out"))
    assert theirs.vocabulary_size() == tokenizer.vocab_size


def flat(tensors):
    return np.concatenate([np.ravel(tensor) for tensor in tensors])


DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob", "classifier_dropout")


@pytest.mark.slow
@pytest.mark.parametrize("name", DROPOUTS)
def test_dropout_and_its_gradients(tmp_path, name):
    torch = pytest.importorskip("torch", reason="needs the group parity: torch")
    draws = 4000
    rates = {**dict.fromkeys(DROPOUTS, 0.0), name: 0.2}
    theirs = random_of_theirs("BertForSequenceClassification", **rates)
    theirs.save_pretrained(tmp_path)
    config, head = read_config(str(tmp_path / "config.json")), {"num_classes": 2, "seed": 1}
    dropout = rates["classifier_dropout"]
    ours = AlbertClassifier.from_encoder_config(config, dropout=dropout, **head)
    load_checkpoint(ours, str(tmp_path)).check_complete()
    # One row of 5 tokens and 3 of padding, and one of 8 tokens.
    rows = (
        np.arange(16).reshape(2, 8) % 7 + 5,
        np.arange(8) < [[5], [8]],
        np.arange(16).reshape(2, 8) > 12,
    )
    names = ("input_ids", "input_mask", "segment_ids")
    columns = [np.tile(row, (draws, 1)).astype(np.int32) for row in rows]
    inputs = dict(zip(names, columns, strict=True))
    labels = np.tile([0, 1], draws)
    theirs.train()
    of_theirs = (torch.from_numpy(column).long() for column in columns)
    output = theirs(*of_theirs, labels=torch.from_numpy(labels))
    output.loss.backward()
    expected = output.logits.detach().numpy().reshape(draws, 4)
    calls = []
    for given in (inputs, ours.without_padding(inputs)):
        with tf.GradientTape() as tape:
            logits = ours(given, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
        gradients = map(tf.convert_to_tensor, tape.gradient(loss, ours.trainable_variables))
        calls.append((np.reshape(logits, (draws, 4)), flat(gradients)))

    # Their gradients, in the place of their weights, so that our loader gives each to its variable.
    for parameter in theirs.parameters():
        parameter.data = parameter.grad
    theirs.save_pretrained(tmp_path / "gradients")
    load_checkpoint(ours, str(tmp_path / "gradients")).check_complete()
    expected_gradients = flat(ours.trainable_variables)

    for logits, gradients in calls:
        noise = expected.std(axis=0)
        # Five standard errors of the two means, and of the two standard deviations.
        np.testing.assert_array_less(
            np.abs(logits.mean(axis=0) - expected.mean(axis=0)), 5 * noise * np.sqrt(2 / draws)
        )
        np.testing.assert_allclose(logits.std(axis=0), noise, rtol=5 / np.sqrt(draws))
        difference = np.linalg.norm(gradients - expected_gradients)
        assert difference < 0.06 * np.linalg.norm(expected_gradients)
