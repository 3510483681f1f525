"""Whether what a run predicts is what the model that it starts from predicts."""

from collections.abc import Mapping
from typing import Any

from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.errors import InputError
from albert_tf.kinds import Kind
from albert_tf.options.kinds import name_flag, option_fields
from albert_tf.tasks.fine_tuning.options import FineTuningOptions
from albert_tf.tasks.stored_run import StoredRun


def read_model_kind(options: FineTuningOptions, stored: StoredRun | None) -> Kind:
    """Returns the kind of the model in the output folder."""
    if stored is None or stored.kind is None:
        raise InputError(f"--output_dir={options.output_dir}: holds no fine-tuned model")
    return stored.kind


def check_kind(options: FineTuningOptions, kind: Kind, stored: StoredRun | None) -> None:
    """Checks that the model that the run starts from was trained on the same task."""
    if stored:
        model_kind = read_model_kind(options, stored)
        same = ("task_name", "name", "labels")
        check_task(options, model_kind, {name: getattr(kind, name) for name in same})
        _check_fields(options, model_kind, kind)
    elif options.init_checkpoint and not options.reset_head:
        received = StoredModel.at(options.init_checkpoint).labels
        # A head of another size is reported with its shape.
        if received != kind.labels and len(received) == len(kind.labels):
            raise InputError(
                f"--init_checkpoint={options.init_checkpoint}: its head is of the classes "
                f"{', '.join(received)}; this task's are {', '.join(kind.labels)}; --reset_head "
                "initialises a new head"
            )


def check_task(options: FineTuningOptions, stored: Kind, expected: Mapping[str, Any]) -> None:
    """Checks that the model of the output folder has the fields of a run's task."""
    for name, value in expected.items():
        if getattr(stored, name) != value:
            raise InputError(
                f"--output_dir={options.output_dir}: holds a model of another task: "
                f"{'kind' if name == 'name' else name} {_shown(getattr(stored, name))}, but this run has "
                f"{_shown(value)}"
            )


def _check_fields(options: FineTuningOptions, stored: Kind, kind: Kind) -> None:
    resumed = option_fields(type(kind)).keys() - kind.free_options if options.do_train else ()
    for name in (*kind.fixed_options, *sorted(resumed)):
        if getattr(stored, name) != getattr(kind, name):
            raise InputError(
                f"--output_dir={options.output_dir}: holds the checkpoints of a run with {name} "
                f"{getattr(stored, name)}; {name_flag(name)} says {getattr(kind, name)}"
            )


def _shown(value: str | tuple[str, ...]) -> str | list[str]:
    return list(value) if isinstance(value, tuple) else value
