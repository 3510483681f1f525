"""One classifier with one set of weights, in the form that each runtime takes."""

import os
import shutil

from albert_tf.config import AlbertConfig
from albert_tf.conversion import save_hugging_face
from albert_tf.export import export_classifier
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.hugging_face import hugging_face_files
from benchmarks.candidates import KERAS_POLICIES
from benchmarks.serving import layout

_ONNX_AXES = {0: "batch", 1: "length"}


def write_saved_models(config: AlbertConfig, spm_model_file: str, folder: str) -> None:
    """Writes our SavedModels of both precisions, and a copy of the vocabulary.

    Args:
        config: of the encoder.
        spm_model_file: SentencePiece model.
        folder: where to write.
    """
    tokenizer = AlbertTokenizer(spm_model_file)
    shutil.copyfile(spm_model_file, os.path.join(folder, layout.VOCABULARY))
    for precision in KERAS_POLICIES:
        export_classifier(
            _make_model(config, precision),
            layout.LABELS,
            tokenizer,
            os.path.join(folder, precision),
            layout.MAX_SEQ_LENGTH,
            pairs=False,
        )


def write_hugging_face_model(config: AlbertConfig, folder: str) -> None:
    """Writes the same weights as a folder of `transformers`.

    Args:
        config: of the encoder.
        folder: where to write; the vocabulary is there.
    """
    tokenizer = AlbertTokenizer(os.path.join(folder, layout.VOCABULARY))
    save_hugging_face(
        _make_model(config, "fp32"),
        os.path.join(folder, layout.HUGGING_FACE),
        more_files=hugging_face_files(tokenizer, config.max_position_embeddings),
    )


def write_onnx_model(folder: str) -> None:
    """Writes what `torch.onnx.export` makes of the Hugging Face model, batch and length left free."""
    import torch
    from transformers import AutoModelForSequenceClassification

    directory = os.path.join(folder, layout.HUGGING_FACE)
    model = AutoModelForSequenceClassification.from_pretrained(directory).eval()
    names = ("input_ids", "attention_mask", "token_type_ids")
    path = os.path.join(folder, layout.ONNX)
    os.makedirs(os.path.dirname(path))
    torch.onnx.export(
        model,
        # Sizes that no other dimension has, so that none is taken for a constant.
        kwargs={name: torch.ones((3, 11), dtype=torch.long) for name in names},
        f=path,
        input_names=names,
        output_names=["logits"],
        dynamic_shapes=dict.fromkeys(names, _ONNX_AXES),
        external_data=False,
        verbose=False,
    )


def _make_model(config: AlbertConfig, precision: layout.Precision) -> AlbertClassifier:
    """Makes the classifier; its weights are the same in each precision."""
    policy = KERAS_POLICIES[precision]
    encoder = AlbertEncoder(config, seed=0, dtype=policy)
    return AlbertClassifier(encoder, len(layout.LABELS), seed=1, dtype=policy)
