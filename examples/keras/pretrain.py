r"""Pre-trains with `fit`, on any backend of Keras. On a GPU, JAX needs no TensorFlow that has CUDA.

    albert-create-pretraining-data --model=small_en --input_file='text/*.txt' --max_seq_length=128 \
        --masked_lm_prob=0.2 --max_predictions_per_seq=26 --output_file=train.tfrecord --num_shards=32
    KERAS_BACKEND=jax python pretrain.py small_en 'train-*.tfrecord' pretrained

The result, `pretrained`, is a model for `--init_checkpoint`. `albert-pretrain` does more: it resumes,
checks records, evaluates, makes new masks in each pass, knows several devices, and trains all depths of
`medium_en`.

A model that has seen 128 positions learns the others in minutes, and stays the same for short texts, if
only their rows of the table are trained, with records of 512 tokens:

    python pretrain.py model512 'train512-*.tfrecord' longer --trained_positions=128 \
        --max_seq_length=512 --max_predictions_per_seq=103 --train_batch_size=8 \
        --num_train_steps=600 --warmup_steps=20
"""

import argparse
import glob
import pathlib

import keras
import numpy as np
import tensorflow as tf
from keras import ops

import albert_tf
from albert_tf.checkpoints.growth import continue_positions
from albert_tf.checkpoints.stored_model import StoredModel
from albert_tf.conversion import save_model
from albert_tf.data.records import pretraining_record
from albert_tf.optimization import Lamb, PolynomialDecayWithWarmup
from albert_tf.tokenization.vocabulary_files import find_vocabulary

parser = argparse.ArgumentParser(formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("model", help="the model to start from, such as small_en, or a folder")
parser.add_argument("records", help="files or patterns of records with masks")
parser.add_argument("output", help="folder for the trained model, its config and its vocabulary")
parser.add_argument("--max_seq_length", type=int, default=128, help="of the records")
parser.add_argument("--max_predictions_per_seq", type=int, default=26, help="of the records")
parser.add_argument("--train_batch_size", type=int, default=256, help="sequences per update")
parser.add_argument("--num_train_steps", type=int, default=30_000, help="number of updates")
parser.add_argument("--learning_rate", type=float, default=0.0024, help="the peak")
parser.add_argument("--warmup_steps", type=int, default=600, help="updates until the peak")
parser.add_argument("--trained_positions", type=int, help="keep all but the positions after these")
arguments = parser.parse_args()
paths = sorted(glob.glob(arguments.records))
if not paths:
    parser.error(f"no file matches '{arguments.records}'")

spec = pretraining_record(arguments.max_seq_length, arguments.max_predictions_per_seq)
INPUTS = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions")


def to_example(record):
    """Returns inputs, labels and weights of both losses, as `fit` takes them."""
    labels = {
        "masked_lm_logits": record["masked_lm_ids"],
        "sentence_order_logits": record["next_sentence_labels"][:, 0],
    }
    weights = {
        "masked_lm_logits": record["masked_lm_weights"],
        "sentence_order_logits": tf.ones(arguments.train_batch_size),
    }
    return {name: record[name] for name in INPUTS}, labels, weights


files = tf.data.Dataset.from_tensor_slices(paths)
batches = (
    files.shuffle(1000)
    .interleave(tf.data.TFRecordDataset, cycle_length=8)
    .shuffle(100_000)
    .repeat()
    .batch(arguments.train_batch_size, drop_remainder=True)
    .map(spec.parse, num_parallel_calls=tf.data.AUTOTUNE)
    .map(to_example, num_parallel_calls=tf.data.AUTOTUNE)
    .prefetch(tf.data.AUTOTUNE)
)

source = StoredModel.find(arguments.model)
config = source.config
# A GPU adds up the gradients of a gather row by row, and waits: thousands of pieces are [MASK].
encoder = albert_tf.AlbertEncoder(config, use_one_hot_embeddings=True, dtype="mixed_bfloat16")
model = albert_tf.AlbertPretrainer(encoder, dtype="mixed_bfloat16")
albert_tf.load_checkpoint(model, arguments.model).check_complete()


optimizer = Lamb
if trained := arguments.trained_positions:
    table = next(weight for weight in model.weights if weight.path.endswith("position_embeddings"))
    first = table.numpy()[:trained]
    table.assign(np.concatenate([first, continue_positions(first, table.shape[0] - trained)]))
    for weight in model.weights:
        weight.trainable = weight is table
    table.constraint = lambda rows: ops.concatenate([first, rows[trained:]])
    optimizer = keras.optimizers.Adam

rate = PolynomialDecayWithWarmup(
    arguments.learning_rate, arguments.num_train_steps, arguments.warmup_steps
)
losses = keras.losses.SparseCategoricalCrossentropy
model.compile(
    optimizer(rate, global_clipnorm=1.0),
    loss={
        "masked_lm_logits": losses(from_logits=True, reduction="mean_with_sample_weight"),
        "sentence_order_logits": losses(from_logits=True),
    },
    weighted_metrics={name: ["accuracy"] for name in ("masked_lm_logits", "sentence_order_logits")},
)
epochs = max(1, arguments.num_train_steps // 1000)  # for a line of losses each 1,000 updates
model.fit(batches, epochs=epochs, steps_per_epoch=arguments.num_train_steps // epochs, verbose=2)
vocabularies = map(pathlib.Path, filter(None, find_vocabulary(source.folder)))
contents = {path.name: path.read_bytes() for path in vocabularies}
save_model(model, arguments.output, contents=contents)
