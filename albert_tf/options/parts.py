"""The forms of exported models: what is known of them without the slow modules that write them."""

from collections.abc import Mapping
from typing import Literal, NamedTuple

from albert_tf.errors import InputError, name_place
from albert_tf.extras import check_extra
from albert_tf.options import check_type

# Data types of the matrices of an exported model other than that of the computations.
Weights = Literal["float16", "int8"]


class FormFacts(NamedTuple):
    """What is known of a form of an exported model without the code that writes it."""

    weights: tuple[Weights, ...] = ()
    # That write it. The extra of this package that installs them has the name of the form.
    modules: tuple[str, ...] = ()


FORMS: Mapping[str, FormFacts] = {
    "saved_model": FormFacts(),
    "tflite": FormFacts(("float16", "int8")),
    "openvino": FormFacts(("int8",), ("nncf", "openvino", "openvino_tokenizers")),
    "onnx": FormFacts(("float16", "int8"), ("onnx", "onnxruntime", "tf2onnx")),
}
Form = Literal[(*FORMS,)]


def check_form(form: str, weights: str | None, has_examples: bool = True) -> None:
    """Checks the form of an exported model, and that the packages that write it are installed."""
    check_type("export_format", form, Form)
    check_type("export_weights", weights, Weights | None)
    if (form, weights) == ("openvino", "int8") and not has_examples:
        raise InputError(
            "export_weights=int8: for OpenVINO, ranges are estimated on examples; expected a command "
            "with --do_train or --do_eval"
        )
    if weights and weights not in FORMS[form].weights:
        forms = [name for name, facts in FORMS.items() if weights in facts.weights]
        raise InputError(
            f"export_weights={weights}: expected export_format={' or '.join(forms)}; received {form}"
        )
    check_installed(form, "export_format")


def check_installed(form: str, option_name: str) -> None:
    """Checks that the packages that write a form are installed."""
    with name_place(f"{option_name}={form}"):
        check_extra(form, *FORMS[form].modules)
