"""The paper's speeds of training, next to those that operations and gradients alone give."""

from collections.abc import Mapping

from albert_tf.tasks.recipes import PAPER_PRETRAINING
from benchmarks.harness import markdown_table
from benchmarks.scaling.costs import Costs

# Table 2 of the paper: speed of training, times that of BERT-large.
SPEEDS = {
    "bert_base": 4.7,
    "bert_large": 1.0,
    "base_v2": 5.6,
    "large_v2": 1.7,
    "xlarge_v2": 0.6,
    "xxlarge_v2": 0.3,
}
# Table 6: hours and steps.
_RUNS = {"bert_large": (34, 400_000), "xxlarge_v2": (32, 125_000)}
# The model whose speed decides what all-reduces and updates cost in the paper.
_FITTED = "large_v2"


def speeds(models: Mapping[str, Costs], communication: float = 0.0) -> dict[str, float]:
    """Returns the speed of each model, times that of BERT-large.

    Args:
        models: the paper's models.
        communication: seconds of BERT-large's all-reduce and update, which are proportional to the
            parameters, for each second of its computation.
    """
    large = models["bert_large"]
    return {
        name: (1 + communication)
        / (model.flops / large.flops + communication * model.parameters / large.parameters)
        for name, model in models.items()
    }


def fit_communication(models: Mapping[str, Costs]) -> float:
    """Returns the `communication` of `speeds` that gives the paper's speed of ALBERT-large."""
    large, fitted, time = models["bert_large"], models[_FITTED], 1 / SPEEDS[_FITTED]
    return (fitted.flops / large.flops - time) / (time - fitted.parameters / large.parameters)


def paper_tables(models: Mapping[str, Costs]) -> str:
    """Returns our speeds of the paper's models next to the paper's, and the rates of its trainings."""
    communication = fit_communication(models)
    alone, together = speeds(models), speeds(models, communication)
    rows = [
        [name, f"{alone[name]:.2f}", f"{together[name]:.2f}", f"{speed}"]
        for name, speed in SPEEDS.items()
    ]
    header = ["speed, times BERT-large's", "operations alone", "and gradients", "paper"]
    lines = [markdown_table(header, rows), ""]
    share = communication / (1 + communication)
    lines.append(f"gradients: {share:.0%} of BERT-large's step, which gives {_FITTED}'s speed\n")
    rows = []
    for name, (hours, count) in _RUNS.items():
        seconds = hours * 3600 / count
        rate = models[name].flops * PAPER_PRETRAINING.train_batch_size / seconds / 1e15
        rows.append([name, f"{hours}", f"{count:,}", f"{seconds:.2f}", f"{rate:.0f}"])
    header = ["table 6", "hours", "steps", "seconds per step", "10^15 operations per second"]
    return "\n".join([*lines, markdown_table(header, rows)])
