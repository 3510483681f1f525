"""The order of batches, which does not depend on how many workers there are."""

import tensorflow as tf


def ordered(dataset: tf.data.Dataset) -> tf.data.Dataset:
    """Prefetches batches and fixes their order, for any number of workers."""
    options = tf.data.Options()
    options.deterministic = True
    # Each worker takes its share of every batch, so that the batches don't depend on their number.
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    return dataset.prefetch(tf.data.AUTOTUNE).with_options(options)
