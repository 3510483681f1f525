"""The flags of every benchmark are checked before it starts."""

import pytest

from benchmarks.few_rows import FewRowsOptions as FewRows
from benchmarks.finetuning.__main__ import FinetuningBenchmarkOptions as FineTuning
from benchmarks.gpu.__main__ import GpuOptions as Gpu
from benchmarks.pretraining.__main__ import PretrainingBenchmarkOptions as PreTraining
from benchmarks.pretraining_data import PretrainingDataBenchmarkOptions as Data
from benchmarks.serving.__main__ import ServingBenchmarkOptions as Serving
from benchmarks.small_en import SmallEnOptions as SmallEn
from tests.helpers import refused

REQUIRED = {
    Data: {"text": "books", "model": "vocab.model"},
    FineTuning: {"data_dir": "glue", "spm_model_file": "vocab.model"},
    Gpu: {"data_dir": "glue"},
    Serving: {"input_file": "dev.tsv", "spm_model_file": "vocab.model"},
}


@pytest.mark.parametrize(
    ("options", "values", "message"),
    [
        (Data, {"masks": ("whole",)}, "--masks: received 'whole'; expected static or dynamic"),
        (FewRows, {"rows": ("many",)}, "--rows: received 'many'"),
        (FewRows, {"samples": 0}, "samples=0: expected at least 1"),
        (FineTuning, {"precisions": ("fp16",)}, "received 'fp16'; expected fp32 or bf16"),
        (FineTuning, {"tasks": ("mnli",)}, "--tasks: received 'mnli'; expected cola or "),
        (FineTuning, {"tasks": ("sts-b",)}, "--tasks: received 'sts-b'"),
        (FineTuning, {"num_batches": 0}, "num_batches=0: expected at least 1"),
        (Gpu, {"parts": ("all",)}, "--parts: received 'all'; expected right or steps"),
        (PreTraining, {"shapes": ("8x128", "8")}, "--shapes: received '8'"),
        (PreTraining, {"precisions": ("fp16",)}, "--precisions: received 'fp16'"),
        (PreTraining, {"rounds": 0}, "rounds=0: expected at least 1"),
        (Serving, {"precisions": ("fp16",)}, "received 'fp16'; expected fp32 or bf16 or int8"),
        (SmallEn, {"tasks": ("rte",)}, "--tasks: received 'rte'; expected sst-2 or mrpc"),
    ],
)
def test_flags_that_cannot_be_meant_are_refused(options, values, message):
    with refused(message):
        options(**REQUIRED.get(options, {}) | values)
