"""What other libraries write into the folder of a model, and what becomes of it here.

For each file and each key that means something to the library that wrote it, a row says who reads it, or
why outputs are the same without it, or which are the only values under which they are. What is not listed
is refused by name (`albert_tf.accounting`): left out in silence, it could make every output wrong. So a
key that turns out to be harmless gets a row here, and nothing else.

The keys are those of transformers 2 to 5, sentence-transformers 0.3 to 6, tokenizers, and the original
implementations of ALBERT and BERT. A key with the value null counts as absent.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple


class Row(NamedTuple):
    """What becomes of a key, or of a file.

    Attributes:
        reason: who reads it, or why outputs do not depend on it, or what other values would need.
        accepted: the values that can be read; None for all that its reader takes. Empty: it is refused.
    """

    reason: str
    accepted: tuple[Any, ...] | None = None


Rows = Mapping[str, Row]


def rows(reason: str, names: str, *accepted: Any) -> dict[str, Row]:
    """Returns equal rows for names with spaces between them; without values, any is accepted."""
    return dict.fromkeys(names.split(), Row(reason, accepted or None))


# Of the original's `albert_config.json` and `bert_config.json`, and of Hugging Face's that repeat them.
# No published implementation reads the key, or it has the one value that all published models have.
PUBLISHED: Rows = {
    **rows("only BERT's pooler is supported", "directionality", "bidi"),
    **rows("only ALBERT's net is supported", "num_memory_blocks net_structure_type gap_size", 0),
    **rows("only ALBERT's net is supported", "down_scale_factor", 1),
    **rows("only layer norm after each part is supported", "ln_type", "postln"),
    **rows("all layers are kept", "layers_to_keep", []),
    **rows(
        "read by no implementation",
        "pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers pooler_size_per_head pooler_type",
    ),
}

# `tokenizer_class` says which rules split texts. The generic ones are of any `tokenizer.json`.
SENTENCEPIECE_CLASSES = ("AlbertTokenizer", "AlbertTokenizerFast")
GENERIC_CLASSES = ("PreTrainedTokenizer", "PreTrainedTokenizerFast", "TokenizersBackend")
WORDPIECE_CLASSES = tuple(
    f"{family}Tokenizer{end}"
    for family in ("Bert", "DistilBert", "Electra", "MobileBert", "Lxmert", "ConvBert", "RetriBert")
    for end in ("", "Fast")
)

# Hugging Face's `config.json`, of models of the types albert and bert.
CONFIG: Rows = {
    **rows("tells which model it is; see `HuggingFaceConfig`", "model_type architectures"),
    **rows(
        "sizes and options of the encoder, read by `AlbertConfig`",
        "vocab_size hidden_size num_hidden_layers num_attention_heads intermediate_size embedding_size "
        "num_hidden_groups inner_group_num sharing hidden_act max_position_embeddings type_vocab_size "
        "hidden_dropout_prob attention_probs_dropout_prob initializer_range",
    ),
    **rows(
        "of the head, read by `HuggingFaceConfig`",
        "id2label num_labels problem_type classifier_dropout classifier_dropout_prob",
    ),
    **rows("ours, see `albert_tf.model_folder`", "albert_tf"),
    **rows("advice, read by `StoredModel`", "recommended_learning_rate trained_num_hidden_layers"),
    **PUBLISHED,
    # What changes outputs unless it has the default of `transformers`.
    **rows("every layer norm has this epsilon", "layer_norm_eps", 1e-12),
    **rows(
        "other embeddings of positions are not supported", "position_embedding_type", "absolute"
    ),
    **rows("the masked-LM head has no table of its own", "tie_word_embeddings", True),
    **rows(
        "decoders are not supported", "is_decoder is_encoder_decoder add_cross_attention", False
    ),
    **rows("tokens attend to both sides", "is_causal", False),
    **rows("tokens attend to both sides", "use_bidirectional_attention", True),
    **rows("other embeddings of positions are not supported", "rope_scaling rope_parameters", {}),
    **rows("heads cannot be left out", "pruned_heads", {}),
    **rows("quantized weights are not supported", "quantization_config", None),
    **rows("layers have one config", "per_layer_config", {}),
    **rows("code of the model's author is not run", "auto_map custom_pipelines", {}),
    **rows("of tasks of `transformers`, whose options they replace", "task_specific_params", {}),
    **rows("another function of the logits", "function_to_apply", None),
    **rows(
        "texts are split by the rules of this class",
        "tokenizer_class",
        *SENTENCEPIECE_CLASSES,
        *WORDPIECE_CLASSES,
        *GENERIC_CLASSES,
    ),
    # What no output depends on.
    **rows(
        "functions of a cross-encoder's scores, which are logits here, as docs/fidelity.md says",
        "sentence_transformers sbert_ce_default_activation_function",
    ),
    **rows("the inverse of id2label", "label2id"),
    **rows("the length of id2label", "_num_labels"),
    **rows(
        "notes about the origin",
        "_name_or_path name_or_path model_name_or_path transformers_version finetuning_task _commit_hash "
        "export_model_type transformers.js_config language languages model_name tokenizer_name name "
        "description author license tags version revision task task_name run_name total_flos",
    ),
    **rows("weights are read in any type, and computed with in float32", "torch_dtype dtype"),
    **rows(
        "saves memory or time, with the same numbers",
        "use_cache gradient_checkpointing chunk_size_feed_forward torchscript use_bfloat16 output_past "
        "attn_implementation _attn_implementation _attn_implementation_internal "
        "_attn_implementation_autoset _flash_attn_2_enabled use_flash_attn memory_efficient_gradients "
        "xla_device tie_encoder_decoder tie_last_hidden_states cross_attention_hidden_size "
        "experts_implementation fused_bias_fc fused_mlp unpad_inputs use_memory_efficient_attention "
        "use_sdpa use_xla neuron",
    ),
    **rows(
        "selects what `transformers` returns beside the outputs",
        "output_hidden_states output_attentions return_dict use_return_dict return_all_scores "
        "_output_attentions output_scores output_logits return_dict_in_generate "
        "keys_to_ignore_at_inference",
    ),
    **rows("of the training", "tf_legacy_loss loss_type label_smoothing_factor initializer_factor"),
    **rows(
        "the tokenizer knows the ids of its pieces",
        "pad_token_id bos_token_id eos_token_id sep_token_id cls_token_id mask_token_id unk_token_id "
        "pad_token_type_id model_max_length",
    ),
    **rows(
        "of the generation of text",
        "max_length min_length do_sample early_stopping num_beams num_beam_groups diversity_penalty "
        "temperature top_k top_p typical_p repetition_penalty length_penalty no_repeat_ngram_size "
        "encoder_no_repeat_ngram_size bad_words_ids num_return_sequences remove_invalid_values "
        "forced_bos_token_id forced_eos_token_id exponential_decay_length_penalty suppress_tokens "
        "begin_suppress_tokens decoder_start_token_id prefix renormalize_logits max_new_tokens "
        "min_new_tokens min_p top_h epsilon_cutoff eta_cutoff penalty_alpha encoder_repetition_penalty "
        "max_time stop_strings constraints force_words_ids sequence_bias guidance_scale low_memory "
        "token_healing watermarking_config dola_layers is_assistant num_assistant_tokens "
        "num_assistant_tokens_schedule assistant_confidence_threshold assistant_early_exit "
        "assistant_ensemble_weight assistant_lookbehind target_lookbehind prompt_lookup_num_tokens "
        "max_matching_ngram_size speculation_type use_mtp cache_config cache_implementation "
        "max_cache_len compile_config disable_compile continuous_batching_config prefill_chunk_size",
    ),
    **rows(
        "of other models, whose keys BERT's and ALBERT's code does not read",
        "summary_activation summary_first_dropout summary_last_dropout summary_type summary_use_proj "
        "layerdrop layer_norm_epsilon max_2d_position_embeddings embedding_dim emb_size cell structure "
        "pre_trained training classifiers_size adapters label_smoothing",
    ),
}

# `special_tokens_map.json`, whose keys `tokenizer_config.json` may have, too. Authors may add roles,
# whose keys end in `_token`; their tokens are read.
SPECIAL_TOKENS: Rows = rows(
    "special pieces and added tokens, see `tokenizer_settings`",
    "pad_token unk_token cls_token sep_token mask_token bos_token eos_token additional_special_tokens "
    "extra_special_tokens model_specific_special_tokens added_tokens_decoder never_split",
)

# `tokenizer_config.json`. The values of most rows depend on the vocabulary, and are checked in
# `albert_tf.tokenization.tokenizer_settings`.
TOKENIZER_CONFIG: Rows = {
    **rows("the case and the rules, see `tokenizer_settings`", "do_lower_case albert_tf"),
    **rows(
        "have to be our rules, see `tokenizer_settings`",
        "keep_accents strip_accents tokenize_chinese_chars word_tokenizer_type tokenizer_class",
    ),
    **SPECIAL_TOKENS,
    **rows(
        "the length of embedded texts, see `kinds.sentence_transformers`",
        "model_max_length max_len",
    ),
    **rows("code of the model's author is not run", "auto_map", {}),
    **rows("long texts lose their end", "truncation_side", "right"),
    **rows("of words", "do_basic_tokenize do_word_tokenize do_subword_tokenize", True),
    **rows("words are split into pieces of words", "subword_tokenizer_type", "wordpiece"),
    **rows("runs of white space are one space", "remove_space", True),
    **rows("a text begins with a word mark", "add_prefix_space", True),
    **rows("control characters are dropped", "clean_text", True),
    **rows("texts are split in the one most probable way", "sp_model_kwargs", {}),
    **rows("the mark of pieces that continue a word", "wordpieces_prefix", "##"),
    **rows(
        "special pieces begin and end a text",
        "add_bos_token add_eos_token add_special_tokens",
        True,
    ),
    **rows("the options of other word tokenizers", "mecab_kwargs sudachi_kwargs jumanpp_kwargs"),
    **rows("special pieces in a text are text to our tokenizers", "split_special_tokens"),
    **rows("padding is masked", "padding_side pad_to_multiple_of pad_token_type_id"),
    **rows(
        "the call says how long texts are treated",
        "truncation truncation_strategy stride max_length",
    ),
    **rows(
        "the call says how short texts are treated", "padding padding_strategy pad_to_max_length"
    ),
    **rows(
        "of text that is made of ids", "clean_up_tokenization_spaces spaces_between_special_tokens"
    ),
    **rows("the offsets of pieces", "trim_offsets"),
    **rows("the segments of pairs, of which a line warns", "model_input_names"),
    **rows(
        "the encoder has its own inputs",
        "return_tensors return_attention_mask return_token_type_ids",
    ),
    **rows(
        "of the generation of text",
        "chat_template chat_control_tokens response_schema response_template use_default_system_prompt",
    ),
    **rows(
        "notes about the origin",
        "name_or_path tokenizer_file vocab_file full_tokenizer_file special_tokens_map_file "
        "processor_class use_fast from_slow legacy trust_remote_code backend is_local local_files_only "
        "init_inputs cache_dir device_map spm_precompiled_charsmap _spm_precompiled_charsmap "
        "transformers_version model_type tokenizer_type torch_dtype "
        "do_lower_case_file errors files_loaded fix_mistral_regex verbose",
    ),
}

# `tokenizer.json`, and the object `model` in it. `albert_tf.tokenization.tokenizer_json` reads both.
TOKENIZER: Rows = {
    **rows("the version of the format", "version", "1.0"),
    **rows("see `tokenizer_json`", "added_tokens normalizer pre_tokenizer post_processor model"),
    **rows("the call says how long texts are treated", "truncation"),
    **rows("padding is masked", "padding"),
    **rows("of text that is made of ids", "decoder"),
}
WORDPIECE: Rows = {
    **rows("see `tokenizer_json`", "type vocab"),
    **rows("the piece of a word that cannot be split", "unk_token", "[UNK]"),
    **rows("the mark of pieces that continue a word", "continuing_subword_prefix", "##"),
    **rows("100 in transformers, 200 in the original", "max_input_chars_per_word", 100, 200),
}
UNIGRAM: Rows = {
    **rows("see `tokenizer_json`", "type vocab unk_id"),
    **rows("the ids of bytes are not supported here", "byte_fallback", False),
}
TRUNCATION: Rows = {
    **rows("long texts lose their end", "direction", "Right"),
    **rows("the call says how long texts are treated", "max_length strategy stride"),
}
# The types of `pre_tokenizer`, and their keys.
WORD_MARKS: Rows = {
    **rows("see `tokenizer_json`", "type"),
    **rows("the mark of a word's beginning", "replacement str_rep", "\N{LOWER ONE EIGHTH BLOCK}"),
    **rows("a text begins with a word mark", "add_prefix_space", True),
    **rows("a text begins with a word mark", "prepend_scheme", "first", "always"),
    **rows("pieces have one word mark, at their beginning", "split"),
}
SPLIT_WORD_MARKS: Rows = {
    **WORD_MARKS,
    **rows("every word begins with a word mark", "prepend_scheme", "always"),
}
ONLY_TYPE: Rows = rows("see `tokenizer_json`", "type")
BERT_NORMALIZER: Rows = {
    **rows("see `tokenizer_json`", "type lowercase strip_accents handle_chinese_chars"),
    **rows("control characters are dropped", "clean_text", True),
}

# KerasHub's `config.json` and `task.json`, and the objects `config` in them.
KERAS_HUB: Rows = {
    **rows(
        "read by `checkpoints.keras_hub`",
        "class_name config backbone vocabulary_size num_layers num_heads num_groups embedding_dim "
        "num_inner_repetitions hidden_dim intermediate_dim dropout max_sequence_length num_segments "
        "preprocessor sequence_length",
    ),
    **rows("another function of the logits", "activation", "linear", "softmax", "sigmoid"),
    **rows("the longer text of a pair loses its end", "truncate", "round_robin"),
    **rows("the length of the head's bias", "num_classes"),
    **rows("texts are split by our rules", "tokenizer config_file"),
    **rows("notes", "module registered_name name trainable dtype compile_config build_config"),
}

# The keys of sentence-transformers are in `albert_tf.known_modules`.

# Files with a meaning to some library, by name in the folder. Libraries find files by their names, so one
# of another name means nothing to any, unless a key names it, which is refused above.
FILES: Rows = {
    **rows("read", "config.json albert_config.json bert_config.json"),
    **rows("read", "model.safetensors model.safetensors.index.json model-*-of-*.safetensors"),
    **rows("read", "spiece.model vocab.txt tokenizer.json tokenizer_config.json"),
    **rows("read, of KerasHub", "model.weights.h5 task.weights.h5 task.json"),
    **rows("what `task.json` says, and notes, of KerasHub", "preprocessor.json metadata.json"),
    **rows("special pieces and added tokens", "special_tokens_map.json added_tokens.json"),
    **rows("read", "modules.json sentence_*_config.json config_sentence_transformers.json"),
    **rows(
        "read, if modules.json names it",
        "*_Transformer *_Pooling *_Dense *_LayerNorm *_Dropout *_Normalize",
    ),
    **rows(
        "the same weights in other formats",
        "pytorch_model*.bin pytorch_model.bin.index.json tf_model.h5 flax_model.msgpack rust_model.ot "
        "onnx openvino coreml *.onnx *.gguf *.tflite *.ckpt* saved_model",
    ),
    **rows("training", "training_args.bin optimizer.* scheduler.* rng_state*.pth trainer_*.json"),
    **rows("of the generation of text", "generation_config.json chat_template.*"),
    **rows("code that only an author's key would run", "*.py"),
    **rows("a classifier of embeddings, our outputs", "config_setfit.json model_head.*"),
    **dict.fromkeys(
        ("adapter_config.json", "adapter_model.*"),
        Row("PEFT adds their weights to the model's: merge them with `merge_and_unload`", ()),
    ),
    **dict.fromkeys(
        ("head_config.json", "pytorch_adapter.bin", "pytorch_model_head.bin"),
        Row("the library adapters adds their weights to the model's: merge them there", ()),
    ),
    "quantize_config.json": Row("quantized weights are not supported", ()),
}
