"""Ways in which TensorFlow runs the signatures of a SavedModel."""

import functools

import numpy as np
import tensorflow as tf


@functools.lru_cache(maxsize=4)
def load(path):
    """Loads a SavedModel, once for several tests."""
    return tf.saved_model.load(path)


def run_loaded(path, inputs):
    constants = {name: tf.constant(value) for name, value in inputs.items()}
    outputs = load(path).signatures["serving_default"](**constants)
    return {name: value.numpy() for name, value in outputs.items()}


def run_in_session(path, inputs):
    """Loads as TensorFlow Serving does, by the tag `serve`."""
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        meta_graph = tf.compat.v1.saved_model.load(session, ["serve"], path)
        signature = meta_graph.signature_def["serving_default"]
        feed = {signature.inputs[name].name: np.array(value) for name, value in inputs.items()}
        return session.run({name: out.name for name, out in signature.outputs.items()}, feed)
