"""What a training process asks of the operating system."""

import os
import subprocess
import sys

import pytest

# In a process of its own, because the setting remains for the rest of the process.
_PROGRAM = """
import resource, sys
import numpy as np
import tensorflow as tf
from albert_tf.data.fine_tuning.features import Features
from albert_tf.data.fine_tuning.batches import evaluation_batches, training_batches
from albert_tf.losses import ClassificationLoss
from albert_tf.models import AlbertClassifier, AlbertEncoder
from albert_tf.optimization import Lamb
from albert_tf.training import Trainer, make_strategy
from tests.helpers import tiny_config

lengths = np.full(64, 64, np.int32)
labels = {"label_ids": np.arange(64, dtype=np.int32) % 2}
features = Features(np.full(64 * 64, 7, np.int32), lengths, lengths, labels)
cpu = tf.config.list_physical_devices("CPU")[0]
replicas = [tf.config.LogicalDeviceConfiguration()] * (2 if sys.argv[2] == "mirrored" else 1)
tf.config.set_logical_device_configuration(cpu, replicas)
strategy = make_strategy(sys.argv[2])
with strategy.scope():
    encoder = AlbertEncoder(tiny_config(intermediate_size=4096, num_hidden_layers=2), seed=0)
    model = AlbertClassifier(encoder, 2, seed=0)
    optimizer = Lamb(1e-3)
trainer = Trainer(
    model, ClassificationLoss(), optimizer, strategy, seed=0, jit_compile=sys.argv[1] == "True"
)
evaluation, _ = evaluation_batches(features, 8)
trainer.evaluate(evaluation)
batches = trainer.distribute(training_batches(features, 8, seed=0))
trainer.train_steps(batches, 10)

def count_page_faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    trainer.train_steps(batches, 4)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

# A thread that runs for the first time makes an arena of its own, on a busy machine late.
print(min(count_page_faults() for _ in range(5)))
"""


# XLA's threads take memory from the kernel on a machine that does other things. With XLA, several CPU
# replicas in one process, which only tests have, get their buffers from glibc, and so anew in each step.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("jit_compile", "strategy"), [(False, "one_device"), (True, "one_device"), (False, "mirrored")]
)
def test_a_step_reuses_the_memory_of_the_step_before(jit_compile, strategy):
    command = [sys.executable, "-c", _PROGRAM, str(jit_compile), strategy]
    # The scripts turn oneDNN on, and with it TensorFlow's own allocator. Without it every tensor comes
    # from glibc, which gives the end of its heap back to the kernel and takes it again in each step.
    environment = os.environ | {"TF_ENABLE_ONEDNN_OPTS": "1"}
    result = subprocess.run(command, check=True, capture_output=True, env=environment)
    page_faults = int(result.stdout)
    assert page_faults < 4 * 100
