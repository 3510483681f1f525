"""The options of pre-training."""

import dataclasses
from typing import ClassVar, Literal

from albert_tf.data.pretraining.masking import MaskingConfig
from albert_tf.data.pretraining.segments import MAX_LENGTH
from albert_tf.errors import InputError
from albert_tf.options import option
from albert_tf.options.bounds import Bounds
from albert_tf.options.training import StrategyName
from albert_tf.tasks.pretraining_objectives import ObjectiveOptions
from albert_tf.tasks.training_options import PAPER_PRETRAINING as PAPER
from albert_tf.tasks.training_options import (
    PRETRAINING_RECIPES,
    PretrainingRecipe,
    RecipeName,
    TrainingOptions,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class PretrainingOptions(ObjectiveOptions, TrainingOptions, MaskingConfig):
    """The options of `albert-pretrain`; the defaults are those of a recipe, or else the paper's.

    The options of masking and the vocabulary are for unmasked records.
    """

    DEFAULTS: ClassVar = {
        **{
            name: f"the recipe's, or else {value}"
            for name, value in dataclasses.asdict(PAPER).items()
        },
        "mixed_precision": "float32; with --recipe=small mixed_bfloat16 on processors that have it",
        "albert_config_file": "that of --init_checkpoint",
        "max_seq_length": "that of the records",
        "trained_num_hidden_layers": "those in the config; with --num_hidden_layers that number alone",
        "spm_model_file": "that of the records, if it still is where it was, or of --init_checkpoint",
        "do_lower_case": "as .stats.json of the records says, or else --init_checkpoint, or else true",
    }

    input_file: tuple[str, ...] = option(
        "TFRecord files or glob patterns to train on, comma-separated.", ()
    )
    eval_input_file: tuple[str, ...] = option(
        "TFRecord files or glob patterns to evaluate on, comma-separated.", ()
    )
    # The parts have no None, which stands for a value of the recipe or of the records here.
    max_predictions_per_seq: int | None = option(  # type: ignore[assignment]
        "Maximum number of pieces to predict per sequence. Default: that of the records; for unmasked "
        "records, --masked_lm_prob of a full sequence.",
        None,
        least=1,
        most=MAX_LENGTH,
    )
    shuffle_buffer: int = option(
        "Number of records that are shuffled together in memory.", 10000, least=1
    )
    recipe: RecipeName | None = option(
        "Hyperparameters for all flags that are not given, which are printed. "
        + " ".join(f"{name}: {row.description}." for name, row in PRETRAINING_RECIPES.items()),
        None,
    )
    masked_lm_prob: float | None = option(  # type: ignore[assignment]
        "Share of the pieces of an unmasked record to predict, [CLS] and [SEP] included.",
        None,
        least=1e-6,
        most=1,
    )
    mixed_precision: Literal["float32", "mixed_bfloat16"] | None = option(  # type: ignore[assignment]
        "Precision of the layers' computations. Variables, losses and checkpoints are float32.",
        None,
    )
    decay_steps: int | None = option(
        "Number of updates at the end in which the learning rate falls to 0; before them it stays at its "
        "peak. Default: it falls from the first update on.",
        None,
        least=1,
    )
    # One more strategy than fine-tuning has.
    distribution_strategy: StrategyName = option(  # type: ignore[assignment]
        "one_device; mirrored: one replica per device of this machine; multi_worker_mirrored: one "
        "replica per device of the workers in TF_CONFIG; or tpu.",
        "one_device",
    )
    jit_compile: bool | None = option(  # type: ignore[assignment]
        "Compile each step with XLA. Default: on GPUs.", None
    )
    max_eval_steps: int = option("Maximum number of evaluation steps.", 100, least=1)
    trained_num_hidden_layers: tuple[int, ...] | None = option(
        "Numbers of layers. Each update draws one of them, so that the model can be used with any of "
        "them. Evaluations use the model's own number, which has to be in the list.",
        None,
    )
    remat: bool = option(
        "Recompute the activations of each block in the backward pass, to save memory.", False
    )
    use_one_hot_embeddings: bool = option(
        "Look up embeddings by multiplication with one-hot vectors, which suits TPUs.", False
    )

    def __post_init__(self):
        super().__post_init__()
        self.check_objective()
        Bounds(least=1, most=self.max_seq_length or MAX_LENGTH).check("ngram", self.ngram)
        steps = self.num_train_steps or self.recipe_values.num_train_steps
        Bounds(least=1, most=steps).check("decay_steps", self.decay_steps)
        if not (self.do_train or self.do_eval):
            raise InputError("expected --do_train, --do_eval or both; received neither")
        if self.do_train and not self.input_file:
            raise InputError("--do_train: expected --input_file; received none")
        if self.do_eval and not self.eval_input_file:
            raise InputError("--do_eval: expected --eval_input_file; received none")
        if not (self.albert_config_file or self.init_checkpoint):
            raise InputError("expected --albert_config_file or --init_checkpoint; received neither")

    @property
    def recipe_values(self) -> PretrainingRecipe:
        """The hyperparameters of the recipe, the paper's by default."""
        if self.recipe is None:
            return PAPER
        return PRETRAINING_RECIPES[self.recipe].values(self.init_checkpoint is None)
