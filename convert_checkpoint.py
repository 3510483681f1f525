r"""Converts a checkpoint to the original's format (TensorFlow 1), Hugging Face's, ours or a SavedModel.

The input may have any of these formats, or brightmart's or TF Hub's. Its format is detected; --from only
checks it.

Usage:
    python convert_checkpoint.py --init_checkpoint=albert_base/model.ckpt-best \
        --albert_config_file=albert_base/albert_config.json \
        --from=tf1 --to=hugging_face --output_checkpoint=albert_base_hugging_face
"""

import command_line

with command_line.quiet_start():
    from albert_tf.tasks import conversion

if __name__ == "__main__":
    command_line.run(conversion.ConversionOptions, conversion.run)
