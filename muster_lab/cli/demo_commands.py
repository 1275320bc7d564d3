"""What to try with the demo's service: the dashboard's address, and commands to be pasted into a shell."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import orjson

from muster_lab.cli.demo_cluster import NEVER_FITS, NODES, RUNS

#: The commands that ask for people, and what is to be seen.
_QUESTIONS = {
    "status": "how things stand",
    "gangs": "who runs, and who waits for what",
    "queues": "who borrows from whom",
    f"explain {NEVER_FITS}": "why this gang can never start, and what would help",
    f"explain {RUNS}": "why this one is where it is",
}


def address(host: str, port: int) -> str:
    """Return the URL of the service, which is that of its dashboard too."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def announcement(host: str, port: int, program: str) -> Iterator[str]:
    """Yield the lines to be printed when the service starts; `program` is how `muster` is called."""
    url = address(host, port)
    yield f"Dashboard: {url}/"
    yield ""
    yield "In another terminal:"
    for question, seen in _QUESTIONS.items():
        yield ""
        yield f"# {seen}"
        yield f"{shlex.quote(program)} {question} --server {url}"
    yield ""
    yield "What kube-scheduler asks, and what Prometheus reads:"
    yield ""
    yield from verb_commands(url)
    yield f"curl -s {url}/metrics | grep ^muster_gangs"


def verb_commands(url: str) -> Iterator[str]:
    """Yield a call of each verb, about a pod that asks for one GPU."""
    uid = "1"
    pod = {
        "metadata": {"name": "notebook", "namespace": "default", "uid": uid},
        "spec": {
            "schedulerName": "muster",
            "containers": [{"resources": {"requests": {"nvidia.com/gpu": "1"}}}],
        },
    }
    names = [f"gpu-{index}" for index in range(NODES)]
    offer = {"Pod": pod, "Nodes": None, "NodeNames": names}
    binding = {"PodName": "notebook", "PodNamespace": "default", "PodUID": uid, "Node": names[0]}
    victims = {names[0]: {"Pods": [{"UID": uid}], "NumPDBViolations": 0}}
    preemption = {"Pod": pod, "NodeNameToVictims": None, "NodeNameToMetaVictims": victims}
    yield _post(f"{url}/v1/filter", offer)
    yield _post(f"{url}/v1/prioritize", offer)
    yield _post(f"{url}/v1/bind", binding)
    yield _post(f"{url}/v1/preempt", preemption)


def _post(url: str, body: dict[str, Any]) -> str:
    return f"curl -s {url} -d {shlex.quote(orjson.dumps(body).decode())}"
