"""From the files of fine-tuning tasks to examples, and from examples to ids; the table of tasks."""
