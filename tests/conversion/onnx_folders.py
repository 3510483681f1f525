"""Folders of `albert-convert --to=onnx`: `small_en`, and `classifier`, made of it with a random head."""

from albert_tf.conversion import save_model
from albert_tf.models import AlbertEncoder
from albert_tf.tasks.conversion import ConversionOptions, run
from albert_tf.tokenization import AlbertTokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from tests.export.runtimes import need


def write_onnx_folders(folder, kind):
    """Writes both into a folder; `kind` is that of the classifier."""
    need("onnx")
    encoder = AlbertEncoder.from_preset("small_en")
    contents = tokenizer_files(AlbertTokenizer.from_preset("small_en"), encoder.config, kind)
    model = kind.make_model(encoder, 0.0, 1, None)
    # With large weights, so that answers differ between texts.
    model.head.dense.kernel.assign(10 * model.head.dense.kernel)
    trained = str(folder / "trained")
    save_model(model, trained, kind, contents=contents)
    for source, name in (("small_en", "small_en"), (trained, "classifier")):
        output = str(folder / name)
        run(ConversionOptions(init_checkpoint=source, to="onnx", output_checkpoint=output))
