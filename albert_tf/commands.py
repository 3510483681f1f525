"""The commands `albert-classify` and so on, which the scripts of a checkout call, too.

The docstring of a function is what `--help` says above the flags that most runs need. Each function
imports the options of its own task, which import nothing slow, and names the module of the task.
"""

from albert_tf.start_up import quiet_start

with quiet_start():  # Ctrl-C ends a command with one line from here on
    from albert_tf import command_line

_FINE_TUNING = "albert_tf.tasks.fine_tuning.run"


def create_pretraining_data() -> None:
    r"""Makes pre-training data: text files in, TFRecord files out.

    Usage:
        {command} --input_file='text/*.txt' --output_file=train.tfrecord \
            --spm_model_file=vocabulary.model --max_seq_length=512 --max_predictions_per_seq=77
    """
    with quiet_start():
        from albert_tf.tasks.pretraining_data_options import PretrainingDataOptions
    main = (
        "input_file input_format language output_file spm_model_file train_vocab vocab_size "
        "max_seq_length masking dupe_factor"
    )
    command_line.run(
        PretrainingDataOptions,
        "albert_tf.tasks.pretraining_data",
        create_pretraining_data.__doc__,
        main.split(),
    )


def pretrain() -> None:
    r"""Pre-trains ALBERT on records of pre-training data.

    Usage:
        {command} --albert_config_file=albert_config.json \
            --input_file='data/*.tfrecord' --output_dir=pretrained --do_train \
            --train_batch_size=64 --learning_rate=0.00022 --num_train_steps=10000

    The same command resumes a run that was stopped or killed.
    """
    with quiet_start():
        from albert_tf.tasks.pretraining_options import PretrainingOptions
    main = (
        "input_file eval_input_file albert_config_file init_checkpoint output_dir do_train recipe "
        "train_batch_size num_train_steps learning_rate"
    )
    command_line.run(
        PretrainingOptions, "albert_tf.tasks.pretraining_run", pretrain.__doc__, main.split()
    )


def classify() -> None:
    r"""Fine-tunes ALBERT on GLUE, RACE or your own texts, evaluates, predicts and exports it.

    Usage:
        {command} --train_file=train.csv --init_checkpoint=small_en --output_dir=classifier
        {command} --task_name=MNLI --data_dir=glue --init_checkpoint=pretrained \
            --output_dir=mnli --do_train --do_eval --export_dir=exported
        echo 'A text.' | {command} --output_dir=classifier --predict_file=-
    """
    with quiet_start():
        from albert_tf.tasks.fine_tuning.options import FineTuningOptions
    main = (
        "task_name train_file dev_file predict_file init_checkpoint output_dir do_train do_eval "
        "num_train_epochs export_dir"
    )
    command_line.run(FineTuningOptions, _FINE_TUNING, classify.__doc__, main.split())


def answer_questions() -> None:
    r"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, evaluates, answers questions and exports it.

    Usage:
        {command} --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
            --init_checkpoint=small_en --output_dir=squad
        {command} --output_dir=squad --predict_file=questions.json

    It is albert-classify --task_name=squad, with the original's names of files.
    """
    with quiet_start():
        from albert_tf.tasks.fine_tuning.squad_options import SquadOptions
    main = (
        "train_file predict_file init_checkpoint output_dir do_train do_eval do_predict "
        "spm_model_file num_train_epochs export_dir"
    )
    command_line.run(SquadOptions, _FINE_TUNING, answer_questions.__doc__, main.split())


def embed() -> None:
    r"""Embeds the lines of a file with any encoder, and exports models from texts to embeddings.

    Usage:
        {command} --model=small_en --input_file=texts.txt --output_file=embeddings.npy
        {command} --model=pretrained --normalize --export_dir=exported
    """
    with quiet_start():
        from albert_tf.tasks.embedding_options import EmbeddingOptions
    main = "model input_file output_file pooling normalize max_seq_length export_dir"
    command_line.run(EmbeddingOptions, "albert_tf.tasks.embedding", embed.__doc__, main.split())


def convert() -> None:
    r"""Converts a model to Hugging Face's format, also with an ONNX file, TensorFlow 1's, or SavedModels.

    The input may have one of the first two formats, or Google's BERT's, brightmart's or KerasHub's;
    which one is detected.

    Usage:
        {command} --init_checkpoint=albert_base/model.ckpt-best \
            --to=hugging_face --output_checkpoint=albert_base_hugging_face
    """
    with quiet_start():
        from albert_tf.tasks.conversion_options import ConversionOptions
    main = (
        "init_checkpoint to output_checkpoint albert_config_file spm_model_file vocab_file "
        "do_lower_case output_dtype"
    )
    command_line.run(ConversionOptions, "albert_tf.tasks.conversion", convert.__doc__, main.split())
