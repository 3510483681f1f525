"""The SavedModels that TensorFlow Serving takes, with its warm-up requests and batching parameters.

ids     ids -> predictions; needs TensorFlow alone
text    raw text -> predictions; needs TensorFlow Text's operators
"""

from collections.abc import Mapping

import tensorflow as tf

from albert_tf import files
from albert_tf.export import saved_models, warmup
from albert_tf.export.writers import Exported, Written


def write(exported: Exported, folders: Mapping[str, str]) -> dict[str, Written]:
    """Writes the model of ids and, if it has a folder, that of texts, which shares its weights."""
    model, kind = exported.model, exported.kind
    ids_model = saved_models.IdsModel(model, kind)
    modules = {"ids": ids_model}
    if "text" in folders:
        modules["text"] = saved_models.TextModel(
            model, kind, exported.tokenizer, weights=ids_model.weights
        )
    written = {}
    for name, module in modules.items():
        signature, folder = module.serve, folders[name]
        with files.explain_refusal(folder):
            tf.saved_model.save(module, folder, signatures=dict(module.served))
        written[name] = Written(
            stored_in=model.compute_dtype,
            inputs=saved_models.input_specs(signature),
            outputs=signature.structured_outputs,
            title="Signature `serving_default`",
        )
        if name == "text":
            warmup.write_batching_parameters(folder, signature.structured_outputs)
        if warmup.is_available():
            requests = warmup.sample_requests(signature)
            warmup.write_warmup_requests(folder, signature, requests)
    return written
