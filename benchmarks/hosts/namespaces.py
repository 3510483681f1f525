"""Hosts on one machine: network namespaces, each with an address and a link of its own to a switch."""

import json
import os
import subprocess
from collections.abc import Sequence

from albert_tf.errors import InputError
from benchmarks.hosts.workers import Workers, start

_SWITCH = f"albert-switch-{os.getpid()}"
_PORT = 2222
# What a limited link sends at once, and how long a packet may wait for it.
_BURST, _LONGEST_WAIT = "64kb", "400ms"


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


class Hosts:
    """Network namespaces that are connected by a switch.

    Args:
        count: number of hosts.

    Raises:
        InputError: on entry, if namespaces cannot be made.
    """

    def __init__(self, count: int):
        self._count = count

    def __enter__(self) -> "Hosts":
        try:
            _ip("netns", "add", _SWITCH)
            _ip("-n", _SWITCH, "link", "add", "bridge", "type", "bridge")
            _ip("-n", _SWITCH, "link", "set", "bridge", "up")
            for number in range(self._count):
                self._connect(number)
        except (subprocess.CalledProcessError, FileNotFoundError) as error:
            self.__exit__()
            raise InputError(f"cannot make network namespaces: {error}; are you root?") from error
        return self

    def _connect(self, number: int) -> None:
        name, port = self.name(number), self.port(number)
        _ip("netns", "add", name)
        _ip("-n", _SWITCH, "link", "add", port, "type", "veth", "peer", "eth0", "netns", name)
        _ip("-n", _SWITCH, "link", "set", port, "master", "bridge", "up")
        _ip("-n", name, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        _ip("-n", name, "link", "set", "eth0", "up")
        _ip("-n", name, "link", "set", "lo", "up")

    def __exit__(self, *exception) -> None:
        for name in (_SWITCH, *map(self.name, range(self._count))):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)

    def name(self, number: int) -> str:
        """Returns the namespace of a host."""
        return f"albert-host-{number}-{os.getpid()}"

    def port(self, number: int) -> str:
        """Returns the switch's end of a host's link."""
        return f"port{number}"

    def address(self, number: int) -> str:
        """Returns the address of a host."""
        return f"10.213.0.{number + 1}"

    def tf_config(self, number: int) -> str:
        """Returns the TF_CONFIG of a host's worker."""
        workers = [f"{self.address(each)}:{_PORT}" for each in range(self._count)]
        return json.dumps(
            {"cluster": {"worker": workers}, "task": {"type": "worker", "index": number}}
        )

    def start(self, command: Sequence[str]) -> Workers:
        """Starts a command on all hosts, as the workers of one cluster."""
        return Workers(
            [
                start(
                    ["ip", "netns", "exec", self.name(number), *command],
                    {"TF_CONFIG": self.tf_config(number)},
                )
                for number in range(self._count)
            ]
        )

    def cut(self, number: int) -> None:
        """Takes the link of a host down."""
        _ip("-n", _SWITCH, "link", "set", self.port(number), "down")

    def limit(self, number: int, megabits: float) -> None:
        """Limits the rate of a host's link in both directions, in Mbit/s."""
        limits = ["tbf", "rate", f"{megabits}mbit", "burst", _BURST, "latency", _LONGEST_WAIT]
        for name, device in ((_SWITCH, self.port(number)), (self.name(number), "eth0")):
            command = ["tc", "-n", name, "qdisc", "replace", "dev", device, "root", *limits]
            subprocess.run(command, check=True, capture_output=True)

    def bytes_on_link(self, number: int) -> int:
        """Returns the bytes that a host has sent and received so far."""
        command = ["ip", "-n", _SWITCH, "-s", "-j", "link", "show", "dev", self.port(number)]
        (link,) = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        return link["stats64"]["rx"]["bytes"] + link["stats64"]["tx"]["bytes"]
