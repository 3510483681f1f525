r"""Converts a checkpoint: the original's (TensorFlow 1) or TF Hub's to ours, or any to the original's.

Usage:
    python convert_checkpoint.py --init_checkpoint=albert_base/model.ckpt-best \
        --albert_config_file=albert_config.json --to=albert_tf --output_checkpoint=converted/ckpt
"""

import command_line
from albert_tf.tasks import conversion

if __name__ == "__main__":
    command_line.run(conversion.ConversionOptions, conversion.run)
