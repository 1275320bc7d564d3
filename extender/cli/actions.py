"""What people do about gangs, Queues and nodes: `muster hold`, `cancel`, `move`, `stop`, `drain` and so on.

All of it is done at the API server with the caller's own rights, by patches, deletions and evictions of the objects
that Muster reads: Kubernetes decides who may, and its audit log says who did. Muster is not asked, and need not run.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, ParamSpec
from urllib.parse import quote

import typer

from extender.cli.asking import AskError, ServerError
from extender.cli.connecting import EXIT_FAILED, Connection, NamespaceOption, refusals
from extender.cli.options import ContextName, KubeconfigFile, NamespaceName
from extender.cli.pods import Json, api_session
from extender.cli.printing import say
from extender.cli.targets import (
    ClusterObjects,
    ForbiddenError,
    GangObjects,
    StoredObject,
    find_gang,
    queue_path,
    split_target,
)

P = ParamSpec("P")

#: Kinds that describe gangs of pods that others make: their PodGroups.
_GROUP_KINDS = frozenset({"podgroup", "compositepodgroup", "podgang"})
#: APIs whose PodGroups name the priority of their pods in a field of their own.
_WITH_PRIORITY = frozenset({"scheduling.k8s.io", "scheduling.volcano.sh"})


class DryRun(StrEnum):
    """Whether a command only tries what it would do."""

    NONE = "none"
    CLIENT = "client"
    """Say it; nothing is sent that changes anything."""
    SERVER = "server"
    """Have the API server check it, with rights and admission, and change nothing."""


class NodeOrQueueState(StrEnum):
    """What a Queue or a node is to do; the value is a Queue's stopPolicy."""

    RUNNING = "None"
    STOPPED = "Hold"
    DRAINED = "HoldAndDrain"


Gang = Annotated[str, typer.Argument(metavar="[NAMESPACE/]GANG", help="PodGroup, Job or other object, or pod.")]
Target = Annotated[str, typer.Argument(metavar="QUEUE|node/NAME", help="A Queue, or a node.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before it is done.")]


@dataclass(frozen=True, slots=True)
class ActingOptions:
    """What every action takes: each field is an option."""

    dry_run: Annotated[
        DryRun, typer.Option(metavar="HOW", help="Only say it (client), or have the API server try it (server).")
    ] = DryRun.NONE
    kubeconfig: KubeconfigFile = None
    context: ContextName = None


@dataclass(frozen=True, slots=True)
class GangOptions(ActingOptions):
    """What every action about a gang takes."""

    namespace: NamespaceName = None


def register(app: typer.Typer) -> None:
    """Add the commands to the command line."""
    examples: dict[Callable[..., None], str] = {
        hold: "`muster hold team-a/train`; `muster hold team-a/train --dry-run server`.",
        release: "`muster release team-a/train`.",
        cancel: "`muster cancel team-a/train`; `muster cancel team-a/train --yes`; `--dry-run client` only says what.",
        requeue: "`muster requeue team-a/train`; after `muster hold` of its PodGroup or Job it does not start again.",
        priority: "`muster priority team-a/train urgent`.",
        move: "`muster move team-a/train --queue research`; `--dry-run server` asks whether you may.",
        stop: "`muster stop team-a`; `muster stop node/gpu-1`.",
        drain: "`muster drain team-a`; `muster drain node/gpu-1`, then `kubectl drain gpu-1` for what is not Muster's.",
        resume: "`muster resume team-a`; `muster resume node/gpu-1`.",
    }
    for command, example in examples.items():
        app.command(epilog=f"Examples: {example}")(command)


def hold(gang: Gang, *, options: GangOptions) -> None:
    """Keep a gang from starting until it is released; what runs of it goes on.

    It sets the annotation muster.dev/hold on the object that describes the gang, else on its pods. Exit codes: 0 done;
    1 the API server refuses, or there is no such gang; 2 refused arguments.
    """
    with _acting("hold", options) as acting:
        acting.set_hold(gang, "true", "held")


def release(gang: Gang, *, options: GangOptions) -> None:
    """Let a gang start that is held; it has kept its place in the order.

    Exit codes: 0 done; 1 the API server refuses, or there is no such gang; 2 refused arguments.
    """
    with _acting("release", options) as acting:
        acting.set_hold(gang, None, "released")


def cancel(
    gang: Gang,
    *,
    yes: Yes = False,
    options: GangOptions,
) -> None:
    """Delete a gang: what made its pods, else the pods, and its PodGroup.

    It says what, and asks first. Exit codes: 0 done; 1 the API server refuses, there is no such gang, or the answer was
    no; 2 refused arguments.
    """
    with _acting("cancel", options) as acting:
        found = find_gang(acting.cluster, gang)
        doomed = list(_made(acting.cluster, found))
        if options.dry_run is DryRun.NONE and not yes:
            say(f"{found.name} has {len(found.pods)} pods. To be deleted: {', '.join(e.called for e in doomed)}")
            if not typer.confirm("Delete?"):
                raise typer.Exit(EXIT_FAILED)
        for each in doomed:
            acting.do(each, "deleted", acting.cluster.delete, each.path)


def requeue(
    gang: Gang,
    *,
    yes: Yes = False,
    options: GangOptions,
) -> None:
    """Evict a gang that runs, so that it waits in line again.

    An object that Muster has resumed is suspended again; of all others the pods are evicted, within
    PodDisruptionBudgets, and whatever made them makes new ones. It says what, and asks first. Exit codes: 0 done; 1 the
    API server refuses, for one of the pods too, there is no such gang, or the answer was no; 2 refused arguments.
    """
    from extender.objects.keys import HOLD

    with _acting("requeue", options) as acting:
        found = find_gang(acting.cluster, gang)
        field = _suspended_by(found)
        if not field and not found.pods:
            raise AskError(f"{found.name} has no pods, so it waits already")
        if lone := [each.called for each in found.pods if not field and each.controller is None]:
            raise AskError(f"no controller would make {', '.join(lone[:3])} again: submit them once more")
        if found.about is None and any((each.meta.get("annotations") or {}).get(HOLD) == "true" for each in found.pods):
            raise AskError(
                f"{found.name} is held by its pods alone, and their successors would start: release it first, or "
                "cancel it and submit it with the annotation muster.dev/hold"
            )
        if (
            options.dry_run is DryRun.NONE
            and not yes
            and not typer.confirm(f"Evict {len(found.pods)} pods of {found.name}?")
        ):
            raise typer.Exit(EXIT_FAILED)
        if field and found.about is not None:
            acting.do(found.about, "suspended", acting.cluster.patch, found.about.path, _nested(field))
            return
        acting.do_all(found.pods, "evicted", acting.evict)


def priority(
    gang: Gang,
    priority_class: Annotated[str, typer.Argument(metavar="PRIORITYCLASS", help="Name of the PriorityClass.")],
    options: GangOptions,
) -> None:
    """Give a gang another PriorityClass, where the object that describes it has one.

    Native and Volcano PodGroups do. The priority of pods is fixed when they are made. Exit codes: 0 done; 1 the API
    server refuses, there is no such gang, or its priority is that of its pods; 2 refused arguments.
    """
    with _acting("priority", options) as acting:
        found = find_gang(acting.cluster, gang)
        if found.about is None or found.api not in _WITH_PRIORITY:
            raise AskError(
                f"the priority of {found.name} is that of its pods, which cannot change: cancel it, and submit it "
                f"again with priorityClassName: {priority_class}"
            )
        spec = {"spec": {"priorityClassName": priority_class}}
        acting.do(found.about, f"has priority {priority_class}", acting.cluster.patch, found.about.path, spec)


def move(
    gang: Gang,
    queue: Annotated[str, typer.Option("--queue", "-q", metavar="QUEUE", help="The Queue that it is to be in.")],
    options: GangOptions,
) -> None:
    """Put a gang into another Queue; what runs of it goes on, and is charged there.

    It sets the label muster.dev/queue on the object that describes the gang, else on its pods. Exit codes: 0 done; 1
    the API server refuses, or there is no such gang or Queue; 2 refused arguments.
    """
    with _acting("move", options) as acting:
        acting.move(gang, queue)


def stop(
    target: Target,
    *,
    drain: Annotated[bool, typer.Option("--drain", help="Evict what runs there too, as `muster drain`.")] = False,
    options: ActingOptions,
) -> None:
    """Have a Queue and those below it, or a node, start nothing more; what runs goes on.

    It sets the Queue's spec.stopPolicy to Hold, or cordons the node. Exit codes: 0 done; 1 the API server refuses, or
    there is none; 2 refused arguments.
    """
    with _acting("stop", options) as acting:
        acting.set_state(target, NodeOrQueueState.DRAINED if drain else NodeOrQueueState.STOPPED)


def drain(target: Target, *, options: ActingOptions) -> None:
    """Have a Queue, or a node, start nothing more, and have Muster evict the gangs that run there.

    Of a Queue it sets spec.stopPolicy to HoldAndDrain. A node is cordoned and has the taint muster.dev/drain: members
    of gangs leave when there is another place for them, which is kept. Exit codes: 0 done; 1 the API server refuses, or
    there is none; 2 refused arguments.
    """
    with _acting("drain", options) as acting:
        acting.set_state(target, NodeOrQueueState.DRAINED)


def resume(target: Target, *, options: ActingOptions) -> None:
    """Let a Queue, or a node, start gangs again that was stopped or drained.

    It sets the Queue's spec.stopPolicy to None, or uncordons the node. Exit codes: 0 done; 1 the API server refuses, or
    there is none; 2 refused arguments.
    """
    with _acting("resume", options) as acting:
        acting.set_state(target, NodeOrQueueState.RUNNING)


class Acting:
    """One command at work: it changes objects, with a line for each, or says what it would do."""

    def __init__(self, cluster: ClusterObjects, dry_run: DryRun) -> None:
        """Change objects of `cluster`."""
        self.cluster = cluster
        self._dry_run = dry_run

    def do(self, each: StoredObject, done: str, change: Callable[P, None], *args: P.args, **options: P.kwargs) -> None:
        """Change an object and say so; only say it in a client's dry run."""
        if self._dry_run is not DryRun.CLIENT:
            change(*args, **options)
        told = {DryRun.NONE: "", DryRun.CLIENT: " (dry run)", DryRun.SERVER: " (server dry run)"}
        say(f"{each.called} {done}{told[self._dry_run]}")

    def do_all(self, objects: Sequence[StoredObject], done: str, change: Callable[[StoredObject], None]) -> None:
        """Change objects, whatever becomes of the others; raise AskError that says which were refused."""
        failed = []
        for each in objects:
            try:
                self.do(each, done, change, each)
            except AskError as error:
                failed.append((each, error))
        if failed and len(objects) == 1:
            raise failed[0][1]
        if failed:
            details = [f"{each.called}: {error}" for each, error in failed]
            raise AskError(f"{len(failed)} of {len(objects)} not {done}:", details=details)

    def evict(self, pod: StoredObject) -> None:
        """Evict a pod, within PodDisruptionBudgets."""
        about = {"name": pod.meta["name"], "namespace": pod.meta["namespace"]}
        self.cluster.post(f"{pod.path}/eviction", {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": about})

    def set_hold(self, gang: str, value: str | None, done: str) -> None:
        """Set the annotation by which a gang is held, or remove it."""
        from extender.objects.keys import HOLD

        wish = {"metadata": {"annotations": {HOLD: value}}}
        speakers = find_gang(self.cluster, gang).speakers
        self.do_all(speakers, done, lambda each: self.cluster.patch(each.path, wish))

    def move(self, gang: str, queue: str) -> None:
        """Have the objects that speak for a gang name another Queue; raise AskError if there is no such Queue."""
        from extender.objects.keys import QUEUE

        kind, name = split_target(queue)
        if kind != "queue":
            raise ServerError(f"'{queue}' is no Queue")
        with contextlib.suppress(ForbiddenError):  # who may not read Queues may name them all the same
            if self.cluster.find(queue_path(name)) is None:
                raise AskError(f"no Queue is called {name}")

        def renamed(each: StoredObject) -> None:
            stated = QUEUE in (each.meta.get("annotations") or {})
            annotations: Json = {"annotations": {QUEUE: None}} if stated else {}
            self.cluster.patch(each.path, {"metadata": {"labels": {QUEUE: name}, **annotations}})

        self.do_all(find_gang(self.cluster, gang).speakers, f"moved to Queue {name}", renamed)

    def set_state(self, target: str, state: NodeOrQueueState) -> None:
        """Have a Queue or a node start gangs, start none, or be drained."""
        kind, name = split_target(target)
        if kind == "node":
            self._set_node(name, state)
            return
        path = queue_path(name)
        found = StoredObject(path, f"queue.muster.dev/{name}", self.cluster.get(path))
        self.do(found, f"has stopPolicy {state}", self.cluster.patch, path, {"spec": {"stopPolicy": state}})

    def _set_node(self, name: str, state: NodeOrQueueState) -> None:
        """Cordon or uncordon a node, and set or remove the taint by which Muster drains it."""
        from extender.objects.podspec import DRAIN

        path = f"/api/v1/nodes/{quote(name)}"
        found = StoredObject(path, f"node/{name}", self.cluster.get(path))
        before = (found.body.get("spec") or {}).get("taints") or []
        taints = [each for each in before if each.get("key") != DRAIN]
        if state is NodeOrQueueState.DRAINED:
            taints.append({"key": DRAIN, "effect": "NoSchedule"})
        done = {"None": "uncordoned", "Hold": "cordoned", "HoldAndDrain": "cordoned, and its gangs are moved off it"}
        # The list is replaced as a whole: with its version nothing is lost that others have written meanwhile.
        version: Json = {} if taints == before else {"metadata": {"resourceVersion": found.meta.get("resourceVersion")}}
        spec: Json = {"unschedulable": state is not NodeOrQueueState.RUNNING or None}
        if taints != before:
            spec = {**spec, "taints": taints}
        self.do(found, done[state], self.cluster.patch, path, {**version, "spec": spec})


@contextlib.contextmanager
def _acting(command: str, options: ActingOptions) -> Iterator[Acting]:
    """Reach the API server for a command; what goes wrong ends it as `refusals` says."""
    with refusals(command):
        namespace = "default"  # of no use where no gang is named
        if isinstance(options, GangOptions):
            way = Connection(kubeconfig=options.kubeconfig, context=options.context)
            namespace = NamespaceOption(options.namespace).own(way)
        with api_session(options.kubeconfig, options.context) as api:
            cluster = ClusterObjects(api, dry_run=options.dry_run is DryRun.SERVER, namespace=namespace)
            yield Acting(cluster, options.dry_run)


def _nested(field: Sequence[str]) -> Json:
    """Return a patch that sets a field."""
    *outer, last = field
    patch: Json = {last: True}
    for part in reversed(outer):
        patch = {part: patch}
    return patch


def _made(cluster: ClusterObjects, gang: GangObjects) -> Sequence[StoredObject]:
    """Return what has to go so that nothing of a gang is left, each once: what made its object, else its pods."""
    found: dict[str, StoredObject] = {}
    if gang.about is not None:
        top = cluster.made_by(gang.about)
        found[top.path] = top
        if top is not gang.about or gang.about.kind not in _GROUP_KINDS:
            return [top]
    # A pod for each controller is enough: there may be a thousand pods.
    makers = {str((pod.controller or pod.meta).get("uid")): pod for pod in gang.pods}
    for pod in makers.values():
        top = cluster.made_by(pod)
        found[top.path] = top
    return list(reversed(found.values()))


def _suspended_by(gang: GangObjects) -> Sequence[str]:
    """Return the field by which a gang's object is suspended that Muster has resumed; nothing for any other."""
    from extender.objects.keys import PLACE
    from extender.objects.sources.table import JOB, SOURCE_OF

    if gang.about is None or PLACE not in (gang.about.meta.get("annotations") or {}):
        return ()
    if gang.api == JOB:
        return ("spec", "suspend")
    kinds = (kind for kind in SOURCE_OF[gang.api].kinds if kind.kind.lower() == gang.about.kind)
    return next((kind.suspending.field for kind in kinds if kind.suspending is not None), ())
