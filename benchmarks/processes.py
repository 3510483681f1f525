"""What a command and all processes that it starts use, by samples; and on which processor."""

import dataclasses
import os
import pathlib
import subprocess
import time
from collections.abc import Sequence

# The script starts a server, which the workers are forked from.
_WORKER_DEPTH = 2
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_SECONDS_BETWEEN_SAMPLES = 0.2


@dataclasses.dataclass
class Usage:
    """What a tree of processes used, by samples.

    Attributes:
        cpu_seconds: process -> user and system time.
        peak_mib: largest sum of all processes' memory.
        worker_mib: largest memory of one worker, without what it shares with others: the imports.
    """

    cpu_seconds: dict[int, float] = dataclasses.field(default_factory=dict)
    peak_mib: float = 0.0
    worker_mib: float = 0.0

    @property
    def all_cpu_seconds(self) -> float:
        """Of all processes."""
        return sum(self.cpu_seconds.values())

    def sample(self, root: int) -> None:
        """Looks at a process and all that descend from it."""
        total = 0.0
        for process, depth in _tree(root).items():
            try:
                fields = _stat_fields(process)
                self.cpu_seconds[process] = (int(fields[11]) + int(fields[12])) / _TICKS_PER_SECOND
                shared, own = _memory_mib(process)
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
            total += shared + own
            if depth == _WORKER_DEPTH:
                self.worker_mib = max(self.worker_mib, own)
        self.peak_mib = max(self.peak_mib, total)


def _stat_fields(process: int) -> list[str]:
    """Returns the fields of /proc/<process>/stat from the third, the state, on."""
    return pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()


def _tree(root: int) -> dict[int, int]:
    """Returns a process and all that descend from it, each with its depth."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int(_stat_fields(int(entry.name))[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    depths, level = {root: 0}, [root]
    while level:
        level = [child for child, parent in parents.items() if parent in level]
        depths |= dict.fromkeys(level, depths[parents[level[0]]] + 1) if level else {}
    return depths


def _memory_mib(process: int) -> tuple[float, float]:
    """Returns a process' share of the memory that it shares, and its own."""
    kib = {"Pss:": 0, "Private_Clean:": 0, "Private_Dirty:": 0}
    for line in pathlib.Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        name, value, *_ = line.split()
        if name in kib:
            kib[name] = int(value)
    own = kib["Private_Clean:"] + kib["Private_Dirty:"]
    return (kib["Pss:"] - own) / 1024, own / 1024


def watch(command: Sequence[str], output: str = os.devnull) -> tuple[float, Usage]:
    """Runs a command to its end and returns the seconds by the clock, and what it used.

    Args:
        command: program and arguments.
        output: file for what it prints.
    """
    usage = Usage()
    start = time.monotonic()
    with open(output, "w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.DEVNULL)
        while process.poll() is None:
            usage.sample(process.pid)
            time.sleep(_SECONDS_BETWEEN_SAMPLES)
    return time.monotonic() - start, usage


def processor() -> str:
    """Returns the processor's model, its cores, and which of AVX2 and AVX-512 it has."""
    info = {}
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        info.setdefault(name.strip(), value.strip())
    flags = info.get("flags", "").split()
    known = {"avx2": "AVX2", "avx512f": "AVX-512", "amx_tile": "AMX"}
    extensions = [shown for flag, shown in known.items() if flag in flags]
    model = info.get("model name", "unknown processor")
    return f"{model}, {os.cpu_count()} cores, {', '.join(extensions) or 'no AVX2'}"
