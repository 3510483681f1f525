"""A corpus of text to shards of pre-training records: chunks, segments, instances, masks."""
