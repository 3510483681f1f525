"""The output folder of a run that trains: whether it fits the run, its start, and its results."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import keras

from albert_tf import files, folders, model_folder, training
from albert_tf.checkpoints.growth import Growth
from albert_tf.checkpoints.hugging_face import stored_config
from albert_tf.checkpoints.loading import load_checkpoint
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.config import AlbertConfig
from albert_tf.conversion import check_names, save_model, stored_part, write_description
from albert_tf.errors import InputError, name_place, warn
from albert_tf.kinds import Kind
from albert_tf.kinds.sentence_transformers import module_files
from albert_tf.options.resolution import Resolution, resolved
from albert_tf.tasks.noted_options import note
from albert_tf.tasks.stored_run import StoredRun
from albert_tf.tasks.training_options import TrainingOptions
from albert_tf.tasks.training_run import DROPOUTS
from albert_tf.tokenization import Tokenizer
from albert_tf.tokenization.hugging_face_tokenizer import tokenizer_files
from albert_tf.training.loop import WriteBest

RESULTS_FILE = "eval_results.json"
# Key of the run options: by option, the fingerprint of the files that it names.
FINGERPRINTS = "fingerprints"


def check_output_dir(
    values: Resolution[Any],
    config: AlbertConfig,
    stored: StoredRun | None,
    fixed_options: Sequence[str] = (),
) -> None:
    """Checks that the options match the checkpoints in the output folder, if there are any.

    `fixed_options` cannot change after the start, nor can the optimizer with `--do_train`, as its state
    is restored.
    """
    output_dir = values["output_dir"]
    if files.matches(output_dir, "ckpt-*.index"):
        raise InputError(
            f"--output_dir={output_dir}: holds checkpoints of TensorFlow; expected a new folder, "
            f"or one with {model_folder.STATE_DIR}/ and {model_folder.BEST_DIR}/"
        )
    if stored is None:
        return
    _check_config(values, config, stored)
    _check_options(values, stored.options, fixed_options)


def _check_config(values: Resolution[Any], config: AlbertConfig, stored: StoredRun) -> None:
    before, now = (stored_config(each).to_dict() for each in (stored.model.config, config))
    for name, value in now.items():
        if before[name] != value:
            flag = "dropout" if name in DROPOUTS else name
            has_flag = hasattr(values.given, flag) and values[flag] is not None
            raise InputError(
                f"--output_dir={values['output_dir']}: holds the checkpoints of another model: "
                f"{name} {before[name]}, but "
                f"{values.says(flag) if has_flag else values['albert_config_file']} says {value}"
            )


def _check_options(
    values: Resolution[Any], started_with: Mapping[str, Any], fixed_options: Sequence[str]
) -> None:
    holds = f"--output_dir={values['output_dir']}: holds the checkpoints of"
    for name in (*fixed_options, *(["optimizer"] if values["do_train"] else [])):
        if name not in started_with:
            raise InputError(f"{holds} another kind of run: one without {name}")
        if started_with[name] != note(name, values[name]):
            raise InputError(
                f"{holds} a run with {name} {started_with[name]}; {values.says(name)} says "
                f"{values[name]}"
            )


def warn_of_other_data(
    values: Resolution[Any],
    stored: StoredRun,
    data_options: Mapping[str, Sequence[str]],
    fingerprints: Mapping[str, str],
) -> None:
    """Warns if a run resumes with other data than it began with.

    `data_options` are the options that decide what is named, such as `batches`. `fingerprints` are those
    of the files that an option names, wherever they lie, and are noted under `FINGERPRINTS`.
    """
    began, known = stored.options, stored.options.get(FINGERPRINTS, {})
    for what, names in data_options.items():
        changes = []
        for name in names:
            theirs, ours = began.get(name), note(name, values[name])
            if name not in fingerprints and theirs != ours:
                changes.append(f"{name} {theirs}, now {ours}")
            elif name in fingerprints and known.get(name) != fingerprints[name]:
                now = "others of the same name" if theirs == ours else ours
                changes.append(f"{name} {theirs}, now {now}")
        if changes:
            warn(
                f"--output_dir={values['output_dir']}: the run resumes with other {what} than it "
                f"began with: {'; '.join(changes)}"
            )


@contextlib.contextmanager
def start_or_resume(
    options: TrainingOptions,
    trainer: training.Trainer,
    starting_part: keras.Model | None,
    tokenizer: Tokenizer | None = None,
    kind: Kind | None = None,
    noted: Mapping[str, Any] = MappingProxyType({}),
    advice: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[WriteBest]:
    """Initialises or restores the weights, and describes the model and the run in the output folder.

    `noted` are the options as the folder notes them, see `note_options`, and more of the run; `advice` is
    written in the config, see `write_description`.

    In this context the chief holds the folder's lock, so no second training can use it.
    `--init_checkpoint` initialises `starting_part`, the model or its encoder; None for a run that
    resumes. Records of an unknown tokenizer have none. Yields a function that writes the model as the
    best one.

    Raises:
        InputError: among others, a variable of the model has no name in the folder of the best model.
    """
    model = stored_part(trainer.model)
    check_names(model, kind)
    if starting_part is not None:
        load_init_checkpoint(options, starting_part, tokenizer)
    described = dict(noted)
    contents = {}
    if tokenizer:
        described["do_lower_case"] = tokenizer.lower_case
        if trainer.is_chief:
            contents = tokenizer_files(tokenizer, model.config, kind)
    modules = module_files(kind, model.config)

    def write_best(metrics: Mapping[str, float]) -> None:
        folder = os.path.join(options.output_dir, model_folder.BEST_DIR)
        said = {"options": described, "metrics": dict(metrics)}
        save_model(
            model,
            folder,
            kind=kind,
            contents={**contents, **modules},
            noted=said,
            advice=advice,
        )

    with contextlib.ExitStack() as stack:
        if trainer.is_chief:
            files.make_directory(options.output_dir)
            stack.enter_context(folders.lock_folder(options.output_dir))
        training.resume(trainer, options.output_dir)
        if trainer.is_chief:
            folder = os.path.join(options.output_dir, model_folder.STATE_DIR)
            noted = {"options": described}
            write_description(folder, model, kind, contents, noted, advice)
        yield write_best


def load_init_checkpoint(
    options: TrainingOptions, model: keras.Model, tokenizer: Tokenizer | None
) -> None:
    """Reads `--init_checkpoint` into a model, if it is given.

    Missing heads are initialised randomly if `--do_train` trains them. The model may have more positions,
    and the pieces that the tokenizer has added.
    """
    if options.init_checkpoint is None:
        return
    growth, pieces = None, tokenizer.former_ids if tokenizer else ()
    if pieces or options.max_position_embeddings is not None:
        before = StoredModel.of_config(resolved(options.albert_config_file)).config
        growth = Growth(before, pieces)
    with name_place("--init_checkpoint"):
        report = load_checkpoint(model, options.init_checkpoint, growth)
        if not options.do_train:
            report.check_complete()
    print(report.summary())


def write_results(
    options: TrainingOptions, metrics: Mapping[str, float], **more: Mapping[str, Any]
) -> None:
    """Prints the metrics of the final evaluation, and writes them, and more, to `eval_results.json`."""
    # Before they are written, as the folder may be read-only.
    print(", ".join(f"{name} {value:.4f}" for name, value in metrics.items()), flush=True)
    files.make_directory(options.output_dir)
    files.write_json(os.path.join(options.output_dir, RESULTS_FILE), {**metrics, **more})
