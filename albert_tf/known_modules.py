"""What sentence-transformers writes into the folder of an embedder, and what becomes of it here.

The rows are as in `albert_tf.known_files`, which has those of the model within.
"""

from albert_tf.known_files import Rows, rows

# sentence-transformers: `modules.json` has a list of such objects.
MODULE: Rows = {
    **rows("read by `kinds.sentence_transformers`", "type path"),
    **rows("a name and a number", "idx name"),
    **rows("the arguments of a call, of which ours has none", "kwargs", []),
}
# `sentence_bert_config.json` and its other names.
TRANSFORMER: Rows = {
    **rows("read by `kinds.sentence_transformers`", "max_seq_length do_lower_case"),
    **rows("outputs of other layers are not supported", "transformer_task", "feature-extraction"),
    **rows(
        "outputs of other layers are not supported",
        "modality_config",
        {"text": {"method": "forward", "method_output_name": "last_hidden_state"}},
    ),
    **rows("outputs of other layers are not supported", "module_output_name", "token_embeddings"),
    **rows(
        "arguments that replace what the folder says",
        "model_args tokenizer_args config_args model_kwargs processor_kwargs config_kwargs "
        "processing_kwargs",
        {},
    ),
    **rows("all texts are treated alike", "query_length document_length query_expansion", None),
    **rows("the tokenizer of another folder", "tokenizer_name_or_path", None),
    **rows("saves time, with the same numbers", "unpad_inputs"),
    **rows("notes about the origin", "cache_dir model_name_or_path"),
}
POOLING: Rows = {
    **rows(
        "read by `kinds.sentence_transformers`",
        "pooling_mode pooling_mode_cls_token pooling_mode_mean_tokens pooling_mode_max_tokens "
        "pooling_mode_mean_sqrt_len_tokens pooling_mode_weightedmean_tokens pooling_mode_lasttoken",
    ),
    **rows("the width of the encoder", "word_embedding_dimension embedding_dimension"),
    **rows("read by `kinds.sentence_transformers`", "include_prompt"),
}
_OUTPUT: Rows = rows("one output", "module_input_name module_output_name", "sentence_embedding")
NORMALIZE: Rows = _OUTPUT
DENSE: Rows = {
    **_OUTPUT,
    **rows("read by `kinds.embedder_layers`", "in_features out_features bias activation_function"),
    **rows("the output of the layer alone is supported", "use_residual", False),
}
LAYER_NORM: Rows = rows("read by `kinds.embedder_layers`", "dimension")
DROPOUT: Rows = rows("of the training", "dropout")
EMBEDDER_FILE = "config_sentence_transformers.json"
EMBEDDER: Rows = {
    **rows("read by `kinds.sentence_transformers`", "default_prompt_name prompts"),
    **rows("embeddings keep their width", "truncate_dim", None),
    **rows("other models than embedders are not supported", "model_type", "SentenceTransformer"),
    **rows("the caller compares embeddings", "similarity_fn_name"),
    **rows("notes about the origin", "__version__ requirements"),
}
# The names under which versions of sentence-transformers look for the config of a Transformer, in order.
TRANSFORMER_FILES = tuple(
    f"sentence_{family}_config.json"
    for family in ("bert", "roberta", "distilbert", "camembert", "albert", "xlm-roberta", "xlnet")
)
