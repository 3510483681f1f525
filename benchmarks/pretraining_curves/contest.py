"""One configuration, trained by both programs from the same start on the same batches."""

import dataclasses
import pathlib
import shutil
import sys

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.conversion.hugging_face import save_hugging_face
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from benchmarks.pretraining_curves.data import Records
from benchmarks.pretraining_curves.turns import (
    Point,
    Program,
    alternate,
    evaluations,
    steps_per_second,
)

_ROOT = pathlib.Path(__file__).parents[2]

OURS, THEIRS = "albert_tf", "transformers"
# The ways to run each program, of which a trial picks the fastest.
_WAYS = {
    OURS: {"default": [], "XLA": ["--jit_compile"]},
    THEIRS: {"eager": [], "torch.compile": ["--compile"]},
}

_SHUFFLE_BUFFER = 10_000
_SEED = 12345
_WARMUP_SHARE = 0.05
_EVALUATIONS = 12
_EVAL_BATCH_SIZE = 64
_MAX_EVAL_STEPS = 32

_TRIAL_STEPS = 2_000  # that no trial comes to the end of
_TRIAL_LOG_STEPS = 5
_TRIAL_ROUNDS = 3
_START_SECONDS = 300.0  # in which every way has made its first updates


@dataclasses.dataclass(frozen=True)
class Setting:
    """What both programs train.

    Attributes:
        config: the model.
        train_batch_size: sequences of an update.
        learning_rate: the peak, of LAMB.
    """

    config: AlbertConfig
    train_batch_size: int
    learning_rate: float


@dataclasses.dataclass(frozen=True)
class Plan:
    """How a program trains.

    Attributes:
        way: one of its ways to run.
        num_train_steps: updates in all.
        log_steps: updates between reports of training.
        evaluates: whether it evaluates on the way.
    """

    way: str
    num_train_steps: int
    log_steps: int
    evaluates: bool


class Contest:
    """Both programs on one configuration.

    Args:
        setting: what to train.
        records: what to train on.
        output_dir: where everything goes; what is there is removed.
        turn_seconds: how long a program runs before the other one does.
    """

    def __init__(
        self, setting: Setting, records: Records, output_dir: pathlib.Path, turn_seconds: float
    ):
        self._setting = setting
        self._records = records
        self._output_dir = output_dir
        self._turn_seconds = turn_seconds
        self._config_file = output_dir / "albert_config.json"
        self._initial = output_dir / "initial"
        self._batches = output_dir / "batches.npy"
        self._eval_batches = output_dir / "eval_batches.npy"
        self._eval_steps = min(_MAX_EVAL_STEPS, records.held_out_count // _EVAL_BATCH_SIZE)

    def prepare(self) -> None:
        """Writes what both programs start from: weights, and batches to evaluate on."""
        shutil.rmtree(self._output_dir, ignore_errors=True)
        self._output_dir.mkdir(parents=True)
        config = self._setting.config
        config.to_json_file(str(self._config_file))
        model = AlbertPretrainer(AlbertEncoder(config, seed=_SEED), seed=_SEED + 1)
        save_hugging_face(model, str(self._initial))
        self._records.write_evaluation_batches(
            self._eval_batches, self._eval_steps, _EVAL_BATCH_SIZE
        )

    def measure_speeds(self, seconds: float) -> dict[str, dict[str, float]]:
        """Returns program -> way -> updates a second, of `seconds` of each way, in turns."""
        self._write_batches(_TRIAL_STEPS)
        programs = {
            (name, way): self._start(
                name,
                Plan(way, _TRIAL_STEPS, _TRIAL_LOG_STEPS, evaluates=False),
                self._output_dir / "trial" / f"{name}-{way}",
            )
            for name, ways in _WAYS.items()
            for way in ways
        }
        try:
            for program in programs.values():
                program.run(_START_SECONDS, reports=2)
            for _ in range(_TRIAL_ROUNDS):
                for program in programs.values():
                    program.run(seconds / _TRIAL_ROUNDS)
        finally:
            for program in programs.values():
                program.end()
        return {
            name: {way: steps_per_second(programs[name, way].reports) for way in ways}
            for name, ways in _WAYS.items()
        }

    def train(
        self, speeds: dict[str, dict[str, float]], minutes: float, results_file: pathlib.Path
    ) -> None:
        """Trains with both programs, each the fastest way; writes its results after every turn.

        Args:
            speeds: program -> way -> updates a second.
            minutes: of training, each program.
            results_file: JSON: `speeds`, `plans` and `curves`.
        """
        plans = {}
        for name, of_ways in speeds.items():
            way = max(of_ways, key=of_ways.get)
            steps = round(of_ways[way] * 60 * minutes)
            plans[name] = Plan(way, steps, max(1, steps // _EVALUATIONS), evaluates=True)
        self._write_batches(plans[THEIRS].num_train_steps)
        programs = [
            self._start(name, plan, self._output_dir / name) for name, plan in plans.items()
        ]

        def write_results() -> None:
            content = {
                "setting": dataclasses.asdict(self._setting),
                "speeds": speeds,
                "plans": {name: dataclasses.asdict(plan) for name, plan in plans.items()},
                "curves": {program.name: evaluations(program.reports) for program in programs},
            }
            files.write_json(str(results_file), content)

        alternate(programs, self._turn_seconds, after_turn=write_results)

    def _write_batches(self, count: int) -> None:
        self._records.write_batches(
            self._batches, count, self._setting.train_batch_size, _SHUFFLE_BUFFER, _SEED
        )

    def _start(self, name: str, plan: Plan, output_dir: pathlib.Path) -> Program:
        flags = {
            "init_checkpoint": self._initial,
            "output_dir": output_dir,
            "learning_rate": self._setting.learning_rate,
            "num_train_steps": plan.num_train_steps,
            "warmup_steps": round(_WARMUP_SHARE * plan.num_train_steps),
            "log_steps": plan.log_steps,
            "save_checkpoints_steps": plan.log_steps if plan.evaluates else plan.num_train_steps,
        }
        more = {OURS: self._our_flags, THEIRS: self._their_flags}[name](plan.evaluates)
        script = {
            OURS: ["run_pretraining.py", "--do_train"],
            THEIRS: ["-m", "benchmarks.pretraining_curves.hugging_face"],
        }[name]
        command = [sys.executable, *script, *_WAYS[name][plan.way]]
        command += [f"--{flag}={value}" for flag, value in (flags | more).items()]
        return Program(name, command, output_dir, _ROOT)

    def _our_flags(self, evaluates: bool) -> dict[str, object]:
        flags = {
            "albert_config_file": self._config_file,
            "input_file": self._records.train,
            "max_seq_length": self._records.max_seq_length,
            "max_predictions_per_seq": self._records.max_predictions_per_seq,
            "optimizer": "lamb",
            "train_batch_size": self._setting.train_batch_size,
            "shuffle_buffer": _SHUFFLE_BUFFER,
            "random_seed": _SEED,
            "keep_checkpoint_max": 1,
        }
        if evaluates:
            flags |= {
                "eval_input_file": self._records.held_out,
                "eval_batch_size": _EVAL_BATCH_SIZE,
                "max_eval_steps": self._eval_steps,
            }
        return flags

    def _their_flags(self, evaluates: bool) -> dict[str, object]:
        return {"batches": self._batches} | (
            {"eval_batches": self._eval_batches} if evaluates else {}
        )


def read_curves(results_file: pathlib.Path) -> dict[str, list[Point]]:
    """Returns the curves of a results file."""
    curves = files.read_json(str(results_file))["curves"]
    return {name: [Point(*point) for point in points] for name, points in curves.items()}
