r"""Makes pre-training data: text files in, TFRecord files out.

Usage:
    python create_pretraining_data.py --input_file='text/*.txt' --output_file=train.tfrecord \
        --spm_model_file=vocabulary.model --max_seq_length=512 --max_predictions_per_seq=77
"""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks import pretraining_data

if __name__ == "__main__":
    command_line.run(pretraining_data.PretrainingDataOptions, pretraining_data.run)
