"""Fine-tuning on texts: GLUE, RACE and the user's own files."""

from collections.abc import Callable

from albert_tf.tasks.common import find_init_model, start_devices
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions, options_class
from albert_tf.tasks.fine_tuning.data import RunData, read_data
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.flags import check_addresses
from albert_tf.tokenization import Tokenizer
from albert_tf.training.loop import Callback

__all__ = ["ClassificationOptions", "options_class", "run"]


def run(
    options: ClassificationOptions,
    read: Callable[[ClassificationOptions, Tokenizer], RunData] = read_data,
    callback: Callback | None = None,
) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Args:
        options: the options.
        read: reads the data; by default from the files that the options name.
        callback: called after each report of the training.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; empty
        without `--do_eval`.
    """
    options = find_init_model(options)
    check_addresses(options)
    start_devices(options)
    return run_task(options.complete(), read, callback)
