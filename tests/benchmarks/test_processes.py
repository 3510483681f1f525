import pathlib
import re
import sys

from benchmarks.processes import processor, watch

BUSY = """
import os, time
if not os.fork():
    content = b"x" * 200_000_000
    while time.process_time() < 0.6:
        pass
    time.sleep(0.5)
    os._exit(0)
os.wait()
print("done")
"""


def test_children_count_and_output_is_kept(tmp_path):
    output = tmp_path / "output"
    seconds, usage = watch([sys.executable, "-c", BUSY], str(output))
    assert pathlib.Path(output).read_text() == "done\n"
    assert len(usage.cpu_seconds) == 2
    assert 0.5 < usage.all_cpu_seconds < seconds
    assert usage.peak_mib > 190
    assert usage.worker_mib == 0  # a child of the command is no worker; its children are


def test_the_processor_is_named():
    assert re.fullmatch(r".+, \d+ cores, .*AVX2.*", processor())
