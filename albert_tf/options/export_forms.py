"""The forms of exported models: a row of facts for each, which all that knows forms reads.

Flags, their help and checks, the export, evaluations, model cards and `albert_tf.load` read the rows.
What writes a form is imported when it is used: nothing slow is imported here.
"""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from albert_tf.errors import InputError, name_place
from albert_tf.extras import check_extra
from albert_tf.options import check_type

# Names of the rows, the values of --export_format.
Form = Literal["saved_model", "tflite", "openvino", "onnx"]
# Data types of the matrices of an exported model other than that of the computations.
Weights = Literal["float16", "int8"]
# What some models need, and not every form has: several sequences an example; parts of texts, found in a
# graph with a WordPiece vocabulary.
Need = Literal["choices", "wordpiece_spans"]


class FormFacts(NamedTuple):
    """What is known of a form without the code that writes it."""

    runtime: str  # that runs it, for texts
    writer: str  # module of `albert_tf.export`, whose `write` writes it
    # Of --export_dir; each has version folders.
    folders: tuple[str, ...]
    files: tuple[str, ...]  # in a version folder, without types of weights
    text_folder: str | None = None  # the one that is left out if TensorFlow Text is not installed
    # Folder of config, vocabulary and labels in a version folder, beside the model card; "" for the
    # version folder itself.
    assets: str = "assets"
    weights: tuple[Weights, ...] = ()  # that it can be written with
    calibrated: tuple[Weights, ...] = ()  # those of them that need examples
    # That write it. The extra of this package that installs them has the name of the form.
    packages: tuple[str, ...] = ()
    # Whose metrics --do_eval notes as those of the exported model: the model's, whose computations it
    # repeats; the file's own, which is run on the dev set; or none.
    evaluated: Literal["model", "file"] | None = None
    is_loaded: bool = False  # whether `albert_tf.load` takes it
    lacks: tuple[Need, ...] = ()


FORMS: Mapping[Form, FormFacts] = {
    "saved_model": FormFacts(
        runtime="TensorFlow",
        writer="serving_models",
        folders=("ids", "text"),
        files=("saved_model.pb", "variables"),
        text_folder="text",
        evaluated="model",
        is_loaded=True,
        lacks=("wordpiece_spans",),
    ),
    "tflite": FormFacts(
        runtime="LiteRT",
        writer="litert",
        folders=("tflite",),
        files=("model.tflite",),
        weights=("float16", "int8"),
        lacks=("choices",),
    ),
    "openvino": FormFacts(
        runtime="OpenVINO",
        writer="openvino_models",
        folders=("openvino",),
        files=("model.xml", "model.bin"),
        weights=("int8",),
        calibrated=("int8",),
        packages=("nncf", "openvino", "openvino_tokenizers"),
        evaluated="file",
    ),
    "onnx": FormFacts(
        runtime="ONNX Runtime",
        writer="onnx_models",
        folders=("onnx",),
        files=("onnx/model.onnx",),
        assets="",  # where Hugging Face's libraries look
        weights=("float16", "int8"),
        packages=("onnx", "onnxruntime", "tf2onnx"),
        evaluated="file",
    ),
}

DEFAULT_FORM: Form = "saved_model"


def describe_forms() -> str:
    """Returns what the forms are, for `--help`."""
    described = (
        f"{name} for {facts.runtime}" + f" (with the extra {name})" * bool(facts.packages)
        for name, facts in FORMS.items()
    )
    return f"Format of the exported model: {', '.join(described)}."


def describe_weights() -> str:
    """Returns which forms have which types of weights, for `--help`."""
    rows: dict[Weights, list[str]] = {}
    for name, facts in FORMS.items():
        for weights in facts.weights:
            needs = " with examples" * (weights in facts.calibrated)
            rows.setdefault(weights, []).append(name + needs)
    described = (f"{weights} ({', '.join(names)})" for weights, names in rows.items())
    return f"Data type of the matrices of an exported model: {', '.join(described)}."


def check_form(form: Form, weights: Weights | None, has_examples: bool = True) -> None:
    """Checks the form of an exported model, and that the packages that write it are installed."""
    check_type("export_format", form, Form)
    check_type("export_weights", weights, Weights | None)
    if weights in FORMS[form].calibrated and not has_examples:
        raise InputError(
            f"export_weights={weights}: for {FORMS[form].runtime}, ranges are estimated on examples; "
            "expected a command with --do_train or --do_eval"
        )
    if weights and weights not in FORMS[form].weights:
        forms = [name for name, facts in FORMS.items() if weights in facts.weights]
        raise InputError(
            f"export_weights={weights}: expected export_format={' or '.join(forms)}; received {form}"
        )
    check_installed(form, "export_format")


def check_installed(form: Form, option_name: str) -> None:
    """Checks that the packages that write a form are installed."""
    with name_place(f"{option_name}={form}"):
        check_extra(form, *FORMS[form].packages)
