"""What a training process asks of the operating system."""

import subprocess
import sys

import pytest

# In a process of its own: what it is about holds for a whole process from then on.
_PROGRAM = """
import resource, sys
import tensorflow as tf
from albert_tf.losses import PretrainingLoss
from albert_tf.models import AlbertEncoder, AlbertPretrainer
from albert_tf.optimization import Lamb
from albert_tf.training import Trainer, make_strategy
from tests.helpers import random_pretraining_batches, tiny_config

strategy = make_strategy("one_device")
with strategy.scope():
    encoder = AlbertEncoder(tiny_config(intermediate_size=4096), seed=0)
    model = AlbertPretrainer(encoder, seed=0)
    optimizer = Lamb(1e-3)
trainer = Trainer(
    model, PretrainingLoss(), optimizer, strategy, seed=0, jit_compile=sys.argv[1] == "True"
)
batches = random_pretraining_batches(1)
trainer.evaluate(batches)
batches = trainer.distribute(batches.repeat())
trainer.train_steps(batches, 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
trainer.train_steps(batches, 20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@pytest.mark.parametrize("jit_compile", [False, True])
def test_a_step_reuses_the_memory_of_the_step_before(jit_compile):
    command = [sys.executable, "-c", _PROGRAM, str(jit_compile)]
    page_faults = int(subprocess.run(command, check=True, capture_output=True).stdout)
    assert page_faults < 20 * 100
