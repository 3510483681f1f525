"""What a training process asks of the operating system."""

import subprocess
import sys

import pytest

_PRETRAINING = """
from albert_tf.losses import PretrainingLoss as Loss
from albert_tf.models import AlbertPretrainer
from tests.helpers import random_pretraining_batches

def make_model(encoder):
    return AlbertPretrainer(encoder, seed=0)

evaluation = random_pretraining_batches(1)
training = evaluation.repeat()
"""

_FINE_TUNING = """
import numpy as np
from albert_tf.data.features import Features
from albert_tf.data.input_pipeline import evaluation_batches, training_batches
from albert_tf.losses import ClassificationLoss as Loss
from albert_tf.models import AlbertClassifier

def make_model(encoder):
    return AlbertClassifier(encoder, 2, seed=0)

lengths = np.full(64, 64, np.int32)
labels = {"label_ids": np.arange(64, dtype=np.int32) % 2}
features = Features(np.full(64 * 64, 7, np.int32), lengths, lengths, labels)
evaluation, _ = evaluation_batches(features, 8)
training = training_batches(features, 8, seed=0)
"""

_MEASUREMENT = """
import resource, sys
from albert_tf.models import AlbertEncoder
from albert_tf.optimization import Lamb
from albert_tf.training import Trainer, make_strategy
from tests.helpers import tiny_config

strategy = make_strategy("one_device")
with strategy.scope():
    model = make_model(AlbertEncoder(tiny_config(intermediate_size=4096), seed=0))
    optimizer = Lamb(1e-3)
trainer = Trainer(model, Loss(), optimizer, strategy, seed=0, jit_compile=sys.argv[1] == "True")
trainer.evaluate(evaluation)
batches = trainer.distribute(training)
trainer.train_steps(batches, 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
trainer.train_steps(batches, 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize(
    "program", [_PRETRAINING, _FINE_TUNING], ids=["pretraining", "fine_tuning"]
)
@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_reuses_the_memory_of_the_step_before(program, jit_compile):
    # In a process of its own: what it is about holds for a whole process from then on.
    command = [sys.executable, "-c", program + _MEASUREMENT, str(jit_compile)]
    page_faults = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert page_faults < 20 * 200
