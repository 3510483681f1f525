import time

import numpy as np

from benchmarks.input_pipeline import measure


def test_the_first_batch_is_not_timed_and_padding_is_not_counted():
    def batches():
        time.sleep(1.0)
        yield np.ones((9, 9), np.int32)
        for _ in range(10):
            time.sleep(0.01)
            yield np.array([[1, 1, 1, 0], [1, 1, 0, 0], [1, 0, 0, 0]], np.int32)

    speed = measure(batches(), 7)
    assert (speed.sequences, speed.pieces) == (21, 42)
    assert 0.06 < speed.seconds < 1.0
    assert speed.cpu_seconds < speed.seconds
