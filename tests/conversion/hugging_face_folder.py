"""Small Hugging Face folders with names written out by hand, and what their models compute, in NumPy."""

import json
import math
import pathlib

import numpy as np
import safetensors.numpy

from albert_tf.checkpoints.loading import read_config
from albert_tf.conversion import load_model
from tests.helpers import random_inputs

CONFIG = {
    "model_type": "albert",
    "vocab_size": 97,
    "embedding_size": 16,
    "hidden_size": 48,
    "num_hidden_layers": 5,
    "num_hidden_groups": 2,
    "inner_group_num": 2,
    "num_attention_heads": 4,
    "intermediate_size": 80,
    "hidden_act": "gelu_new",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0,
    "max_position_embeddings": 64,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
    "classifier_dropout_prob": 0.3,
    "transformers_version": "5.0.0",
    "torch_dtype": "float32",
    "net_structure_type": 0,
    "_name_or_path": "someone/some-albert",
}
BERT_CONFIG = {
    **{
        key: value
        for key, value in CONFIG.items()
        if key
        not in (
            *("embedding_size", "num_hidden_groups", "inner_group_num"),
            *("classifier_dropout_prob", "net_structure_type"),
        )
    },
    "model_type": "bert",
    "hidden_act": "gelu",
    "classifier_dropout": 0.3,
    "position_embedding_type": "absolute",
    "use_cache": True,
    "gradient_checkpointing": False,
}
BLOCK = {
    "attention.query.weight": (48, 48),
    "attention.query.bias": (48,),
    "attention.key.weight": (48, 48),
    "attention.key.bias": (48,),
    "attention.value.weight": (48, 48),
    "attention.value.bias": (48,),
    "attention.dense.weight": (48, 48),
    "attention.dense.bias": (48,),
    "attention.LayerNorm.weight": (48,),
    "attention.LayerNorm.bias": (48,),
    "ffn.weight": (80, 48),
    "ffn.bias": (80,),
    "ffn_output.weight": (48, 80),
    "ffn_output.bias": (48,),
    "full_layer_layer_norm.weight": (48,),
    "full_layer_layer_norm.bias": (48,),
}
ENCODER = {
    "embeddings.word_embeddings.weight": (97, 16),
    "embeddings.position_embeddings.weight": (64, 16),
    "embeddings.token_type_embeddings.weight": (2, 16),
    "embeddings.LayerNorm.weight": (16,),
    "embeddings.LayerNorm.bias": (16,),
    "encoder.embedding_hidden_mapping_in.weight": (48, 16),
    "encoder.embedding_hidden_mapping_in.bias": (48,),
    **{
        f"encoder.albert_layer_groups.{group}.albert_layers.{inner}.{name}": shape
        for group in range(2)
        for inner in range(2)
        for name, shape in BLOCK.items()
    },
}
BERT_LAYER = {
    "attention.self.query.weight": (48, 48),
    "attention.self.query.bias": (48,),
    "attention.self.key.weight": (48, 48),
    "attention.self.key.bias": (48,),
    "attention.self.value.weight": (48, 48),
    "attention.self.value.bias": (48,),
    "attention.output.dense.weight": (48, 48),
    "attention.output.dense.bias": (48,),
    "attention.output.LayerNorm.weight": (48,),
    "attention.output.LayerNorm.bias": (48,),
    "intermediate.dense.weight": (80, 48),
    "intermediate.dense.bias": (80,),
    "output.dense.weight": (48, 80),
    "output.dense.bias": (48,),
    "output.LayerNorm.weight": (48,),
    "output.LayerNorm.bias": (48,),
}
BERT_ENCODER = {
    "embeddings.word_embeddings.weight": (97, 48),
    "embeddings.position_embeddings.weight": (64, 48),
    "embeddings.token_type_embeddings.weight": (2, 48),
    "embeddings.LayerNorm.weight": (48,),
    "embeddings.LayerNorm.bias": (48,),
    **{
        f"encoder.layer.{layer}.{name}": shape
        for layer in range(5)
        for name, shape in BERT_LAYER.items()
    },
}
POOLER = {"pooler.weight": (48, 48), "pooler.bias": (48,)}
MASKED_LM = {
    "predictions.bias": (97,),
    "predictions.dense.weight": (16, 48),
    "predictions.dense.bias": (16,),
    "predictions.LayerNorm.weight": (16,),
    "predictions.LayerNorm.bias": (16,),
}
BERT_POOLER = {"pooler.dense.weight": (48, 48), "pooler.dense.bias": (48,)}
BERT_MASKED_LM = {
    "cls.predictions.bias": (97,),
    "cls.predictions.transform.dense.weight": (48, 48),
    "cls.predictions.transform.dense.bias": (48,),
    "cls.predictions.transform.LayerNorm.weight": (48,),
    "cls.predictions.transform.LayerNorm.bias": (48,),
}
BERT_NEXT_SENTENCE = {"cls.seq_relationship.weight": (2, 48), "cls.seq_relationship.bias": (2,)}
SENTENCE_ORDER = {
    "sop_classifier.classifier.weight": (2, 48),
    "sop_classifier.classifier.bias": (2,),
}
# Of each architecture whether it has a pooler, and its heads.
ARCHITECTURES = {
    "AlbertModel": (True, {}),
    "AlbertForPreTraining": (True, {**MASKED_LM, **SENTENCE_ORDER}),
    "AlbertForMaskedLM": (False, MASKED_LM),
    "AlbertForSequenceClassification": (
        True,
        {"classifier.weight": (3, 48), "classifier.bias": (3,)},
    ),
    "AlbertForTokenClassification": (
        False,
        {"classifier.weight": (3, 48), "classifier.bias": (3,)},
    ),
    "AlbertForMultipleChoice": (True, {"classifier.weight": (1, 48), "classifier.bias": (1,)}),
    "AlbertForQuestionAnswering": (False, {"qa_outputs.weight": (2, 48), "qa_outputs.bias": (2,)}),
}
ARCHITECTURES |= {
    "BertModel": (True, {}),
    "BertForPreTraining": (True, {**BERT_MASKED_LM, **BERT_NEXT_SENTENCE}),
    "BertForMaskedLM": (False, BERT_MASKED_LM),
    **{
        f"Bert{name}": ARCHITECTURES[f"Albert{name}"]
        for name in (
            "ForSequenceClassification",
            "ForTokenClassification",
            "ForMultipleChoice",
            "ForQuestionAnswering",
        )
    },
}


def is_bert(architecture):
    return architecture.startswith("Bert")


def random_tensors(architecture, seed=0):
    """Returns random tensors with the names and shapes that `transformers` 5.23 writes."""
    with_pooler, heads = ARCHITECTURES[architecture]
    encoder, pooler, prefix = ENCODER, POOLER, "albert."
    if is_bert(architecture):
        encoder, pooler, prefix = BERT_ENCODER, BERT_POOLER, "bert."
    if architecture.endswith("Model"):
        prefix = ""
    encoder = {**encoder, **(pooler if with_pooler else {})}
    shapes = {**{prefix + name: shape for name, shape in encoder.items()}, **heads}
    rng = np.random.default_rng(seed)
    tensors = {name: rng.normal(0, 0.2, shape).astype(np.float32) for name, shape in shapes.items()}
    for name in tensors:
        if name.lower().endswith(("layernorm.weight", "layer_norm.weight")):
            tensors[name] += 1
    return tensors


def as_we_write(tensors):
    """Returns tensors by the names that we give them: those of an encoder alone have a prefix, too."""
    prefix = "bert." if any(".layer." in name for name in tensors) else "albert."
    return {
        f"{prefix}{name}" if _is_of_encoder(name) else name: tensor
        for name, tensor in tensors.items()
    }


def _is_of_encoder(name):
    return name.startswith(("embeddings.", "encoder.", "pooler."))


def write_folder(directory, architecture, tensors=None, **changes):
    """Writes a folder; `changes` are of the config, where None takes a key away."""
    directory = pathlib.Path(directory)
    directory.mkdir(parents=True)
    tensors = random_tensors(architecture) if tensors is None else tensors
    (directory / "model.safetensors").write_bytes(
        safetensors.numpy.save(tensors, metadata={"format": "pt"})
    )
    config = {
        "architectures": [architecture],
        **(BERT_CONFIG if is_bert(architecture) else CONFIG),
    }
    if architecture.endswith("Classification"):
        config["id2label"] = {"0": "no", "1": "maybe", "2": "yes"}
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (directory / "config.json").write_text(json.dumps(config))
    return str(directory)


def gelu(x, tanh_form=True):
    if tanh_form:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * (1 + np.vectorize(math.erf)(x / math.sqrt(2)))


def linear(x, tensors, name):
    return x @ tensors[f"{name}.weight"].T + tensors[f"{name}.bias"]


def layer_norm(x, tensors, name):
    centred = x - x.mean(-1, keepdims=True)
    normal = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12)
    return normal * tensors[f"{name}.weight"] + tensors[f"{name}.bias"]


def encode(tensors, inputs, tanh_form=True):
    """Returns the last hidden states (B, S, H) of a folder's encoder, in float64."""
    tensors = {
        name.removeprefix("albert.").removeprefix("bert."): x.astype(np.float64)
        for name, x in tensors.items()
    }
    ids = inputs["input_ids"]
    x = (
        tensors["embeddings.word_embeddings.weight"][ids]
        + tensors["embeddings.position_embeddings.weight"][: ids.shape[1]]
        + tensors["embeddings.token_type_embeddings.weight"][inputs["segment_ids"]]
    )
    x = layer_norm(x, tensors, "embeddings.LayerNorm")
    if "encoder.layer.0.output.dense.weight" in tensors:
        for layer in range(5):
            x = _apply_layer(x, inputs["input_mask"], tensors, f"encoder.layer.{layer}.")
        return x
    x = linear(x, tensors, "encoder.embedding_hidden_mapping_in")
    for layer in range(5):
        for inner in range(2):
            group = int(layer / (5 / 2))
            block = f"encoder.albert_layer_groups.{group}.albert_layers.{inner}"
            name = f"{block}.attention"
            attended = linear(
                _attend(x, inputs["input_mask"], tensors, name), tensors, f"{name}.dense"
            )
            x = layer_norm(x + attended, tensors, f"{name}.LayerNorm")
            middle = gelu(linear(x, tensors, f"{block}.ffn"), tanh_form)
            output = linear(middle, tensors, f"{block}.ffn_output")
            x = layer_norm(output + x, tensors, f"{block}.full_layer_layer_norm")
    return x


def _apply_layer(x, mask, tensors, layer):
    """Applies a layer of a BERT."""
    attended = _attend(x, mask, tensors, f"{layer}attention.self")
    attended = linear(attended, tensors, f"{layer}attention.output.dense")
    x = layer_norm(x + attended, tensors, f"{layer}attention.output.LayerNorm")
    middle = gelu(linear(x, tensors, f"{layer}intermediate.dense"), tanh_form=False)
    output = linear(middle, tensors, f"{layer}output.dense")
    return layer_norm(output + x, tensors, f"{layer}output.LayerNorm")


def _attend(x, mask, tensors, name):
    query, key, value = (
        linear(x, tensors, f"{name}.{part}").reshape(*x.shape[:2], 4, 12).transpose(0, 2, 1, 3)
        for part in ("query", "key", "value")
    )
    scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(12)
    scores = np.where(mask[:, None, None, :] == 1, scores, -np.inf)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return (weights @ value).transpose(0, 2, 1, 3).reshape(x.shape)


def load(folder):
    return load_model(read_config(f"{folder}/config.json"), folder)


def read(folder):
    return safetensors.numpy.load_file(f"{folder}/model.safetensors")


def check_same_tensors(received, expected):
    assert set(received) == set(expected)
    for name, tensor in expected.items():
        assert received[name].dtype == tensor.dtype
        assert received[name].shape == tensor.shape
        assert received[name].tobytes() == tensor.tobytes(), name


def inputs_for(architecture):
    inputs = random_inputs()
    if architecture.endswith("ForMultipleChoice"):
        return {name: ids.reshape(1, 3, 11) for name, ids in inputs.items()}
    return {**inputs, "masked_lm_positions": np.array([[0, 4], [10, 2], [3, 3]], np.int32)}


def outputs_of(model, inputs):
    """Returns what a model computes, under the names that `transformers` gives it."""
    outputs = model(inputs)
    if not isinstance(outputs, dict):
        return {"logits": np.asarray(outputs)}
    names = {
        "sequence_output": "last_hidden_state",
        "pooled_output": "pooler_output",
        "masked_lm_logits": "prediction_logits",
        "sentence_order_logits": "sop_logits",
    }
    outputs = {names.get(name, name): output for name, output in outputs.items()}
    return {
        name: np.asarray(output)
        for name, output in outputs.items()
        if name not in ("encoder_outputs", "embedding_output")
    }
