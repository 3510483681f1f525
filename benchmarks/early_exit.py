"""Plots score against speed of early exit, next to the same pre-trained model with fewer layers.

Usage:
    python -m benchmarks.early_exit --glue_dir=glue --init_checkpoint=pretrained/best \
        --albert_config_file=pretrained/albert_config.json --spm_model_file=vocabulary.model \
        --work_dir=early_exit --output_file=early_exit.png

For each task it fine-tunes one model with a classifier after each layer, and one model of each depth from
1 to L, all with the same hyperparameters. Each is exported and answers the dev set from text to label, in
batches of 32, and some rows one by one. The model with early exit does so with each patience from 1 to L.
The models take turns, and speeds are medians over the rounds. A model that `--work_dir` already holds is
not trained again.
"""

import dataclasses
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from albert_tf import command_line

with command_line.quiet_start():
    import keras
    import numpy as np
    import tensorflow as tf

    from albert_tf import files
    from albert_tf.checkpoints.loading import read_config
    from albert_tf.config import AlbertConfig
    from albert_tf.data.fine_tuning.task_table import find_task
    from albert_tf.data.fine_tuning.tsv import Example
    from albert_tf.errors import FlagError, name_place
    from albert_tf.evaluation.glue_metrics import compute_metrics
    from albert_tf.options import check_ranges, option
    from albert_tf.progress import Progress
    from albert_tf.tasks.fine_tuning.classification import ClassificationOptions, run
    from albert_tf.tokenization.in_graph import import_tensorflow_text
    from benchmarks.harness import check_choices, markdown_table, processor

TASKS = ("sst-2", "mrpc", "cola")
EARLY_EXIT, FEWER_LAYERS = "early exit, patience", "fewer layers"
_ALONE, _TOGETHER = 1, 32  # batch sizes

# Maps a batch of texts by name to predicted labels and to the last layer computed for each text.
Predict = Callable[[Mapping[str, tf.Tensor]], tuple[np.ndarray, np.ndarray]]


@dataclasses.dataclass(frozen=True, kw_only=True)
class EarlyExitBenchmarkOptions:
    """The options of this benchmark."""

    glue_dir: str = option("Folder with the GLUE tasks.")
    init_checkpoint: str = option("Pre-trained checkpoint, or a folder with one.")
    albert_config_file: str = option("JSON file with its config.")
    spm_model_file: str = option("SentencePiece model of its vocabulary.")
    work_dir: str = option("Folder for the fine-tuned and exported models.")
    output_file: str = option("Picture to write, PNG.", "early_exit.png")
    tasks: tuple[str, ...] = option("Tasks.", TASKS)
    num_train_steps: int = option("Updates of each fine-tuning.", 2000, least=1)
    learning_rate: float = option("Peak learning rate.", 1e-4, least=0)
    train_batch_size: int = option("Examples per update.", 32, least=1)
    max_seq_length: int = option("Most tokens of a text.", 128, least=5)
    random_seed: int = option("Seed of each fine-tuning.", 1, least=0)
    rounds: int = option("Turns of each model.", 3, least=1)
    rows_alone: int = option("Dev rows that are answered one by one.", 100, least=1)
    smoke: bool = option("Train for two updates and answer few rows, to try the command.", False)

    def __post_init__(self):
        check_choices("tasks", self.tasks, TASKS)
        check_ranges(self)


class Point(NamedTuple):
    """A model, its score and its speed.

    Attributes:
        model: `EARLY_EXIT` or `FEWER_LAYERS`.
        number: the patience, or the number of layers.
        layers: mean number of layers computed for a dev row.
        score: the task's first metric on the dev set, times 100.
        speeds: answers per second by batch size.
    """

    model: str
    number: int
    layers: float
    score: float
    speeds: Mapping[int, float]


def fine_tune(options: EarlyExitBenchmarkOptions, task: str, num_layers: int, exits: bool) -> str:
    """Fine-tunes and exports a model unless that is done, and returns its SavedModel for texts."""
    name = f"{task}-{num_layers}-layers" + ("-early-exit" if exits else "")
    folder = os.path.join(options.work_dir, name)
    export_dir = os.path.join(folder, "exported")
    exported = os.path.join(export_dir, "text", "1")
    if not tf.saved_model.contains_saved_model(exported):
        files.make_directory(folder)
        config_file = os.path.join(folder, "config.json")
        config = read_config(options.albert_config_file)
        dataclasses.replace(config, num_hidden_layers=num_layers).to_json_file(config_file)
        steps = 2 if options.smoke else options.num_train_steps
        run(
            ClassificationOptions(
                task_name=task,
                data_dir=options.glue_dir,
                init_checkpoint=options.init_checkpoint,
                albert_config_file=config_file,
                spm_model_file=options.spm_model_file,
                output_dir=os.path.join(folder, "trained"),
                export_dir=export_dir,
                do_train=True,
                do_eval=True,
                # The patience has no effect on training; each request has its own.
                early_exit_patience=num_layers if exits else None,
                max_seq_length=options.max_seq_length,
                num_train_steps=steps,
                # One evaluation, after the last update.
                save_checkpoints_steps=steps,
                learning_rate=options.learning_rate,
                train_batch_size=options.train_batch_size,
                random_seed=options.random_seed,
            )
        )
        keras.backend.clear_session()
    return exported


def load_models(options: EarlyExitBenchmarkOptions, task: str) -> dict[tuple[str, int], Predict]:
    """Returns the models of a task by `model` and `number` of their `Point`."""
    layers = read_config(options.albert_config_file).num_hidden_layers
    labels = np.array([str(label).encode() for label in find_task(task).labels])

    def load(path: str, name: str) -> Callable:
        import_tensorflow_text()
        return tf.saved_model.load(path).signatures[name]

    def to_ids(outputs: Mapping[str, tf.Tensor]) -> np.ndarray:
        return (outputs["label"].numpy()[:, None] == labels).argmax(axis=1)

    def with_patience(signature: Callable, patience: int) -> Predict:
        def predict(texts):
            patiences = tf.fill(tf.shape(texts["text_a"]), patience)
            outputs = signature(**texts, early_exit_patience=patiences)
            return to_ids(outputs), outputs["exit_layer"].numpy()

        return predict

    def without_exits(signature: Callable, num_layers: int) -> Predict:
        def predict(texts):
            predictions = to_ids(signature(**texts))
            return predictions, np.full(predictions.shape, num_layers)

        return predict

    exits = load(fine_tune(options, task, layers, exits=True), "serving_patience")
    numbers = range(1, 1 + layers)
    models = {(EARLY_EXIT, patience): with_patience(exits, patience) for patience in numbers}
    for number in numbers:
        signature = load(fine_tune(options, task, number, exits=False), "serving_default")
        models[FEWER_LAYERS, number] = without_exits(signature, number)
    return models


def make_batches(examples: Sequence[Example], batch_size: int) -> list[dict[str, tf.Tensor]]:
    """Returns the texts of examples in their order, by the names of a SavedModel's inputs."""
    names = ("text_a", "text_b") if examples[0].text_b is not None else ("text_a",)
    return [
        {
            name: tf.constant([getattr(one, name) for one in examples[start : start + batch_size]])
            for name in names
        }
        for start in range(0, len(examples), batch_size)
    ]


def measure(options: EarlyExitBenchmarkOptions, task: str) -> list[Point]:
    """Returns the points of a task."""
    row = find_task(task)
    with name_place("--glue_dir"):
        (examples,) = (
            source.read(options.glue_dir, "dev", row.labels) for source in row.sets["dev"].values()
        )
    if options.smoke:
        examples = examples[: 2 * _TOGETHER]
    models = load_models(options, task)
    rows_alone = 2 if options.smoke else options.rows_alone
    batches = {
        _ALONE: make_batches(examples[:rows_alone], _ALONE),
        _TOGETHER: make_batches(examples, _TOGETHER),
    }
    seconds: dict[tuple, list[float]] = {}
    rounds = 1 if options.smoke else options.rounds
    with Progress(f"timing {task}", "turns", rounds * len(models)) as progress:
        for _ in range(rounds):
            for key, predict in models.items():
                for size, of_size in batches.items():
                    predict(of_size[0])  # the first run of a graph optimizes it
                    start = time.perf_counter()
                    for batch in of_size:
                        predict(batch)
                    seconds.setdefault((key, size), []).append(time.perf_counter() - start)
                progress.update()
    points = []
    counts = {_ALONE: len(batches[_ALONE]), _TOGETHER: len(examples)}
    label_ids = np.array([list(row.labels).index(one.label) for one in examples])
    for key, predict in models.items():
        predictions, layers = map(
            np.concatenate, zip(*map(predict, batches[_TOGETHER]), strict=True)
        )
        (score,) = compute_metrics(row.metrics[:1], label_ids, predictions).values()
        speeds = {
            size: count / statistics.median(seconds[key, size]) for size, count in counts.items()
        }
        points.append(Point(*key, float(layers.mean()), 100 * score, speeds))
    return points


def table(points: Mapping[str, Sequence[Point]]) -> str:
    """Returns the points of each task."""
    header = [
        *("task", "model", "layers", "score"),
        *("answers/s, one by one", f"answers/s, batch {_TOGETHER}"),
    ]
    rows = [
        [
            *(task, f"{one.model} {one.number}", f"{one.layers:.2f}", f"{one.score:.1f}"),
            *(f"{one.speeds[size]:.1f}" for size in (_ALONE, _TOGETHER)),
        ]
        for task, of_task in points.items()
        for one in of_task
    ]
    return markdown_table(header, rows, text_columns=2)


def draw(points: Mapping[str, Sequence[Point]], path: str) -> None:
    """Draws score against answers per second, for each task and batch size, as PNG."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3 * len(points)), dpi=80, layout="constrained")
    panels = figure.subplots(len(points), 2, squeeze=False)
    for of_row, (task, of_task) in zip(panels, points.items(), strict=True):
        for axes, size in zip(of_row, (_ALONE, _TOGETHER), strict=True):
            for model in (EARLY_EXIT, FEWER_LAYERS):
                line = [one for one in of_task if one.model == model]
                speeds, scores = [one.speeds[size] for one in line], [one.score for one in line]
                axes.plot(speeds, scores, ".-", label=model)
                for one, speed in zip(line, speeds, strict=True):
                    axes.annotate(str(one.number), (speed, one.score))
            axes.set(title=f"{task}, batch {size}", xlabel="answers per second", ylabel="score")
            axes.grid(alpha=0.3)
            axes.legend()
    files.write_picture(path, figure)


def _check_config(config: AlbertConfig) -> None:
    if config.sharing != "all" or config.num_hidden_groups > 1:
        raise FlagError(
            "--albert_config_file: expected one group of layers that share all; received sharing "
            f"{config.sharing} and {config.num_hidden_groups} groups, of which fewer layers have others"
        )


def _main(options: EarlyExitBenchmarkOptions) -> None:
    _check_config(read_config(options.albert_config_file))
    points = {task: measure(options, task) for task in options.tasks}
    draw(points, options.output_file)
    print(f"{processor()}\n\n{table(points)}\n\nwrote {options.output_file}")


if __name__ == "__main__":
    command_line.run(EarlyExitBenchmarkOptions, _main)
