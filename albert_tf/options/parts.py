"""Options of parts below the tasks, and what values they have, apart from these slow modules."""

import dataclasses
import importlib.util
from collections.abc import Mapping
from typing import ClassVar, Literal, NamedTuple

from albert_tf.errors import InputError
from albert_tf.options import check_type, option

# Formats of checkpoints to read.
FormatName = Literal["albert_tf", "tf1", "brightmart", "hugging_face", "keras_hub"]
# Data type of the weights in a checkpoint of Hugging Face's.
WeightType = Literal["float32", "float16"]
StrategyName = Literal["one_device", "mirrored", "multi_worker_mirrored", "tpu"]
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


@dataclasses.dataclass(frozen=True, kw_only=True)
class LoopOptions:
    """The options of the training loop, which are the same for every task."""

    output_dir: str = option("Folder for checkpoints, metrics, summaries and results.")
    save_checkpoints_steps: int = option(
        "Number of updates between two evaluations and checkpoints.", 1000, least=1
    )
    keep_checkpoint_max: int = option("Number of most recent checkpoints to keep.", 5, least=1)
    max_bad_steps: int = option(
        "Number of consecutive steps that may be skipped because their loss or gradient is not "
        "finite. One more ends the run.",
        10,
        least=0,
    )
    log_steps: int = option("Number of updates between two reports of metrics.", 100, least=1)
    steps_per_loop: int | None = option(
        "Maximum number of updates per call to the device. Larger values suit TPUs. Default: 16 with "
        "--jit_compile on one device, otherwise 1.",
        None,
        least=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class DepthOptions:
    """The depth of a model."""

    num_hidden_layers: int | None = option(
        "Number of layers, for a model whose layers share all weights; medium_en was trained with 4, 6, "
        "8 and 12. Default: as its config says.",
        None,
        least=1,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyOptions:
    """The vocabulary of a model."""

    # Pairs of options of which at most one has a value.
    ALTERNATIVES: ClassVar[tuple[tuple[str, str], ...]] = (("spm_model_file", "vocab_file"),)

    spm_model_file: str | None = option("SentencePiece model.", None)
    vocab_file: str | None = option("WordPiece vocabulary, instead of a SentencePiece model.", None)
    do_lower_case: bool | None = option(
        "Lower-case the text. Must match the vocabulary's training text.", None
    )

    @property
    def given_vocabulary(self) -> tuple[str | None, str | None, bool | None]:
        """The files and the case that are given, as `vocabulary_flags` and `load_tokenizer` take them."""
        return self.spm_model_file, self.vocab_file, self.do_lower_case


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
    missing = [name for name in FORMS[form].modules if importlib.util.find_spec(name) is None]
    if missing:
        raise InputError(
            f"{option_name}={form}: needs {', '.join(missing)}, which cannot be imported: "
            f"pip install 'albert-tf[{form}]'"
        )
