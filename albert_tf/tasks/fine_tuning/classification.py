"""Fine-tuning on texts: GLUE, RACE and the user's own files."""

from albert_tf.tasks.common import find_init_model, start_devices
from albert_tf.tasks.fine_tuning.classification_options import ClassificationOptions, options_class
from albert_tf.tasks.fine_tuning.data import read_data
from albert_tf.tasks.fine_tuning.run import run_task
from albert_tf.tasks.flags import check_addresses

__all__ = ["ClassificationOptions", "options_class", "run"]


def run(options: ClassificationOptions) -> dict[str, float]:
    """Trains, evaluates, predicts and exports, as the options say.

    Returns:
        The metrics of the best checkpoint on the dev set, with `--num_trials` their medians; empty
        without `--do_eval`.

    Raises:
        InputError: a file, a row or a checkpoint contradicts the options.
    """
    options = find_init_model(options)
    check_addresses(options)
    start_devices(options)
    return run_task(options.complete(), read_data)
