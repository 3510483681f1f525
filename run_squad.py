r"""Fine-tunes ALBERT on SQuAD 1.1 or 2.0, evaluates, answers questions and exports it.

Usage:
    python run_squad.py --train_file=train-v2.0.json --predict_file=dev-v2.0.json \
        --albert_config_file=albert_config.json --spm_model_file=30k-clean.model \
        --init_checkpoint=pretrained/best --output_dir=squad --do_train --do_eval \
        --export_dir=exported
    python run_squad.py --output_dir=squad --predict_file=questions.json --do_predict
    python run_squad.py --output_dir=scores --predict_file=dev-v2.0.json \
        --do_eval_predictions --predictions_file=predictions.json
"""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks.fine_tuning import question_answering

if __name__ == "__main__":
    command_line.run(question_answering.QuestionAnsweringOptions, question_answering.run)
