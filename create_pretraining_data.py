"""Makes pre-training data: text files in, TFRecords of masked sequences out."""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks import pretraining_data

if __name__ == "__main__":
    command_line.run(pretraining_data.PretrainingDataOptions, pretraining_data.run)
