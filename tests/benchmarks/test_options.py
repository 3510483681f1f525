"""The flags of every benchmark are checked before it starts."""

import pytest

from benchmarks.ablations.__main__ import AblationOptions as Ablations
from benchmarks.bert_against_albert import BertAgainstAlbertOptions as BertAgainstAlbert
from benchmarks.few_rows import FewRowsOptions as FewRows
from benchmarks.finetuning.__main__ import FinetuningBenchmarkOptions as FineTuning
from benchmarks.layer_similarity import LayerSimilarityOptions as Similarity
from benchmarks.pretraining.__main__ import PretrainingBenchmarkOptions as PreTraining
from benchmarks.pretraining_curves import PretrainingCurvesOptions as Curves
from benchmarks.real_scores import RealScoresOptions as Scores
from benchmarks.serving.__main__ import ServingBenchmarkOptions as Serving
from benchmarks.small_en import SmallEnOptions as SmallEn
from tests.helpers import refused

REQUIRED = {
    Ablations: {"text": "a", "glue_dir": "b", "work_dir": "c"},
    Curves: {"text": "books", "output_dir": "curves"},
    FineTuning: {"data_dir": "glue", "spm_model_file": "vocab.model"},
    Scores: {"work_dir": "work", "glue_dir": "glue", "squad_file": "squad.json"},
    Serving: {"input_file": "dev.tsv", "spm_model_file": "vocab.model"},
    Similarity: {"init_checkpoint": ("a", "b"), "input_file": ("c",)},
}


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (Ablations, {"tables": ("7",)}, "--tables: received '7'; expected 3 or 4 or 5"),
        (Ablations, {"seeds": 0}, "seeds=0"),
        (Ablations, {"text": None}, "--text: expected a value, unless --report is given"),
        (BertAgainstAlbert, {"shapes": ("4",)}, "--shapes: received '4'"),
        (Curves, {"models": ("huge",)}, "--models: received 'huge'; expected tiny or small"),
        (Curves, {"programs": ("transformers",)}, "--programs: expected albert_tf among them"),
        (Curves, {"minutes": 0.0}, "--minutes=0.0: expected more than 0"),
        (FewRows, {"rows": ("many",)}, "--rows: received 'many'"),
        (FineTuning, {"precisions": ("fp16",)}, "received 'fp16'; expected fp32 or bf16"),
        (FineTuning, {"tasks": ("mnli",)}, "--tasks: received 'mnli'; expected cola or "),
        (FineTuning, {"tasks": ("sts-b",)}, "--tasks: received 'sts-b'"),
        (FineTuning, {"num_batches": 0}, "num_batches=0: expected at least 1"),
        (PreTraining, {"shapes": ("8x128", "8")}, "--shapes: received '8'"),
        (PreTraining, {"precisions": ("fp16",)}, "--precisions: received 'fp16'"),
        (PreTraining, {"rounds": 0}, "rounds=0: expected at least 1"),
        (Scores, {"tasks": ("mrpc",), "glue_dir": None}, "--glue_dir: .* for --tasks=mrpc"),
        (Scores, {"tasks": ("squad",), "squad_file": None}, "--squad_file: .* for --tasks=squad"),
        (Scores, {"tasks": ("rte",)}, "--tasks: received 'rte'; expected sst-2 or cola"),
        (Serving, {"precisions": ("fp16",)}, "received 'fp16'; expected fp32 or bf16 or int8"),
        (SmallEn, {"tasks": ("rte",)}, "--tasks: received 'rte'; expected sst-2 or mrpc"),
        (Similarity, {"labels": ("a",)}, "--labels: received 1; expected 2"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused(options, values, message):
    with refused(message):
        options(**REQUIRED.get(options, {}) | values)
