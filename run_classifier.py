r"""Fine-tunes ALBERT on GLUE, RACE or your own texts, evaluates, predicts and exports it.

Usage:
    python run_classifier.py --task_name=tsv --train_file=train.tsv --dev_file=dev.tsv \
        --albert_config_file=albert_config.json --spm_model_file=vocab.model \
        --init_checkpoint=pretrained/best --output_dir=classifier --do_train --do_eval \
        --export_dir=exported
    echo 'A text.' | python run_classifier.py --output_dir=classifier --predict_file=-
"""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks.fine_tuning import classification

if __name__ == "__main__":
    command_line.run(classification.ClassificationOptions, classification.run)
