r"""Pre-trains ALBERT on the records of create_pretraining_data.py.

Usage:
    python run_pretraining.py --albert_config_file=albert_config.json \
        --input_file='data/*.tfrecord' --output_dir=pretrained --do_train \
        --train_batch_size=64 --num_train_steps=10000
"""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks import pretraining_run

if __name__ == "__main__":
    command_line.run(pretraining_run.PretrainingOptions, pretraining_run.run)
