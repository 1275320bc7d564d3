"""What can happen in one step: what people, controllers and other schedulers do, and every fault."""

from __future__ import annotations

import datetime as dt
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import partial
from typing import TypeVar

from extender.control.ports import ApiError, WatchedKind
from extender.objects.pod import Phase
from extender.objects.sources.coscheduling import COSCHEDULING_POD_GROUPS
from muster_lab.simulation.virtual_time import EPOCH
from tests.properties.faults.apiline import Stream, Wreck, WriteFault
from tests.properties.faults.election import LEASE_SECONDS
from tests.properties.faults.host import Host
from tests.properties.faults.population import GPUS, PICKY_STEM, Gang, Population
from tests.properties.faults.process import State
from tests.properties.faults.verbline import CallFault, Mishap
from tests.properties.faults.world import World

T = TypeVar("T")

#: Gangs that are wanted at once, and pods without gang: more would only wait.
_MOST_GANGS, _MOST_SINGLES = 7, 6
#: How late something comes (seconds), and how long something lasts.
_LATE = (0.001, 0.01, 0.1, 0.3, 0.8, 2.0)
_SPELLS = (0.001, 0.01, 0.1, 0.6, 2.0, 8.0)
_SHAPES = ((1, 8), (2, 8), (3, 8), (2, 4), (4, 4), (3, 2), (6, 2), (2, 1), (4, 0), (1, 4))


class Theme(Enum):
    """What a story is mostly about."""

    WORK = auto()
    NODES = auto()
    WRITES = auto()
    WATCHES = auto()
    CALLS = auto()
    PROCESSES = auto()
    SHARING = auto()


@dataclass(frozen=True, slots=True)
class Scene:
    """Where an action takes place."""

    world: World
    people: Population


@dataclass(frozen=True, slots=True)
class Action:
    """Something that can happen, how often, and how: with two numbers that say on what."""

    theme: Theme
    weight: float
    act: Callable[[Scene, int, int], None]


ACTIONS: dict[str, Action] = {}


def action(
    theme: Theme, weight: float
) -> Callable[[Callable[[Scene, int, int], None]], Callable[[Scene, int, int], None]]:
    """Enter a function among the actions under its name."""

    def enter(act: Callable[[Scene, int, int], None]) -> Callable[[Scene, int, int], None]:
        ACTIONS[act.__name__] = Action(theme, weight, act)
        return act

    return enter


def _pick(things: Sequence[T], number: int) -> T | None:
    return things[number % len(things)] if things else None


# Work.


@action(Theme.WORK, 7)
def create_gang(scene: Scene, a: int, b: int) -> None:
    """Create a gang that fits alone."""
    people = scene.people
    shape = gang_shape(people, a, b)
    if shape is None:
        return
    minimum, members, gpus = shape
    picky = b // 1024 % 12 == 0
    parts = 2 if members % 2 == 0 and a // 32 % 4 == 0 else 0
    if parts:
        minimum = members // (1 + b // 4096 % 2)
    gang = Gang(
        people.next_name(PICKY_STEM if picky else "gang-"),
        minimum,
        members,
        gpus,
        priority=(0, 0, 10)[b // 8 % 3],
        grace=(0, 0, 3)[b // 32 % 3],
        timeout=(0, 0, 0, 5)[b // 128 % 4],
        picky=picky,
        claims=people.claims_devices and a // 16 % 2 == 0,
        parts=parts,
    )
    people.create_gang(gang, gated=b % 11 == 0, group_last=b % 7 == 0)


def gang_shape(people: Population, a: int, b: int) -> tuple[int, int, int] | None:
    """Return minMember, members and GPUs of each for a gang that fits alone; None if there are enough gangs."""
    if len(people.gangs) >= _MOST_GANGS:
        return None
    minimum, gpus = _SHAPES[a % len(_SHAPES)]
    room = len(people.nodes) * (GPUS // gpus if gpus else 8)
    minimum = min(minimum, room)
    return minimum, min(minimum + (b % 4 == 0) * (1 + b // 4 % 2), room), gpus


@action(Theme.WORK, 2)
def create_single(scene: Scene, a: int, b: int) -> None:
    """Create a pod without gang, sometimes one that may preempt."""
    singles = [pod for pod in scene.people.pods() if pod.name.startswith("single-")]
    if len(singles) < _MOST_SINGLES:
        scene.people.create_single(a % (GPUS + 1), (0, 0, 100)[b % 3])


@action(Theme.WORK, 2)
def end_single(scene: Scene, a: int, b: int) -> None:
    """Delete a pod without gang, or let it end."""
    pod = _pick([pod for pod in scene.people.pods() if pod.name.startswith("single-")], a)
    if pod is not None:
        scene.people.end_pod(pod.name, Phase.SUCCEEDED) if b % 2 else scene.people.delete_pod(pod.name)


@action(Theme.WORK, 4)
def delete_member(scene: Scene, a: int, b: int) -> None:
    """Delete a member; its controller creates it again at once, later, or never."""
    nominated = [
        pod for pod in scene.people.pods() if pod.nominated_node and not pod.group.is_pod and not pod.node_name
    ]
    chosen = _pick(nominated, a // 16) if b // 4 % 2 else None  # one that is on its way is the hardest case
    gang = _gang(scene, a) if chosen is None else scene.people.gangs.get(chosen.group.name)
    if gang is None:
        return
    member = chosen.name if chosen is not None else gang.names()[a // 16 % gang.members]
    scene.people.delete_pod(member)
    if b % 3:
        scene.world.later((b % 3 - 1) * 1.0, _recreate, scene.people, gang, member)


def _recreate(people: Population, gang: Gang, member: str) -> None:
    if gang.name in people.gangs:
        people.create_member(gang, member)


@action(Theme.WORK, 2)
def replace_lost(scene: Scene, a: int, _b: int) -> None:
    """Let a gang's controller create what is missing."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.replace_lost(gang.name)


@action(Theme.WORK, 5)
def finish_gang(scene: Scene, a: int, _b: int) -> None:
    """Let a gang that has its minimum succeed."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.finish_gang(gang.name)


@action(Theme.WORK, 4)
def delete_gang(scene: Scene, a: int, _b: int) -> None:
    """Delete a gang, one that has ended first."""
    ended = [
        gang
        for gang in scene.people.gangs.values()
        if (pods := scene.people.members(gang)) and all(pod.done for pod in pods)
    ]
    gang = _pick(ended, a) or _gang(scene, a)
    if gang is not None:
        scene.people.delete_gang(gang.name)


@action(Theme.WORK, 1)
def recreate_gang(scene: Scene, a: int, b: int) -> None:
    """Delete a gang and create another one under its name at once."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.delete_gang(gang.name)
        scene.people.create_gang(gang, group_last=bool(b % 2))


@action(Theme.WORK, 1)
def delete_group(scene: Scene, a: int, b: int) -> None:
    """Delete a PodGroup, not its pods, and perhaps create another one under its name."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.delete_group(gang.name)
        if b % 2:
            scene.people.create_group(gang)


@action(Theme.WORK, 2)
def edit_group(scene: Scene, a: int, b: int) -> None:
    """Change a gang's minMember."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.edit_group(gang.name, 1 + b % gang.members)


@action(Theme.WORK, 2)
def open_gates(scene: Scene, a: int, _b: int) -> None:
    """Take the scheduling gates off a gang."""
    gang = _gang(scene, a)
    if gang is not None:
        scene.people.open_gates(gang.name)


@action(Theme.WORK, 2)
def fail_member(scene: Scene, a: int, b: int) -> None:
    """Let a pod fail, or succeed by itself."""
    pod = _pick([pod for pod in scene.people.pods() if pod.bound], a)
    if pod is not None:
        scene.people.end_pod(pod.name, Phase.FAILED if b % 2 else Phase.SUCCEEDED)


@action(Theme.WORK, 3)
def create_foreign(scene: Scene, a: int, b: int) -> None:
    """Let another scheduler fill a node."""
    foreign = [pod for pod in scene.people.pods() if pod.name.startswith("foreign-")]
    if len(foreign) < _MOST_SINGLES:
        scene.people.create_foreign(scene.people.nodes[a % len(scene.people.nodes)], b % (GPUS + 1))


@action(Theme.WORK, 3)
def end_foreign(scene: Scene, a: int, _b: int) -> None:
    """Delete a pod of another scheduler."""
    pod = _pick([pod for pod in scene.people.pods() if pod.name.startswith("foreign-")], a)
    if pod is not None:
        scene.people.delete_pod(pod.name)


@action(Theme.WORK, 12)
def wait(_scene: Scene, _a: int, _b: int) -> None:
    """Do nothing."""


# Nodes.


@action(Theme.NODES, 2)
def cordon(scene: Scene, a: int, b: int) -> None:
    """Cordon or taint a node."""
    name = _node(scene, a)
    scene.people.cordon(name) if b % 2 else scene.people.taint(name)


@action(Theme.NODES, 1)
def announce_end(scene: Scene, a: int, b: int) -> None:
    """Say that a node will be taken away; perhaps it is."""
    name = _node(scene, a)
    scene.people.announce_end(name)
    if b % 2:
        scene.world.later(_SPELLS[b // 2 % len(_SPELLS)], _take_away, scene, name)


def _take_away(scene: Scene, name: str) -> None:
    if not scene.world.quiet:
        scene.people.remove_node(name)


@action(Theme.NODES, 1)
def silence_node(scene: Scene, a: int, b: int) -> None:
    """Let a node answer no more, and perhaps after a while again."""
    world, name = scene.world, _node(scene, a)
    scene.people.silence(name, (EPOCH + dt.timedelta(seconds=world.loop.time())).isoformat())
    if b % 2:
        world.later(_SPELLS[b // 2 % len(_SPELLS)] * 4, scene.people.add_node, name)


@action(Theme.NODES, 5)
def repair_node(scene: Scene, a: int, _b: int) -> None:
    """Put a node right, or create it again."""
    scene.people.add_node(_node(scene, a))


@action(Theme.NODES, 1)
def drain(scene: Scene, a: int, _b: int) -> None:
    """Drain a node."""
    scene.people.drain(_node(scene, a))


@action(Theme.NODES, 1)
def remove_node(scene: Scene, a: int, _b: int) -> None:
    """Delete a node."""
    scene.people.remove_node(_node(scene, a))


@action(Theme.NODES, 2)
def shrink(scene: Scene, a: int, b: int) -> None:
    """Let a node lose some of its GPUs, or its driver publish fewer devices."""
    if scene.people.claims_devices and a // 16 % 2:
        scene.people.publish(_node(scene, a), b % (GPUS + 1))
    else:
        scene.people.shrink(_node(scene, a), b % (GPUS + 1))


# Writes.

_WRITES = (
    *("binding", "binding", "binding", "nomination", "nomination", "nomination"),
    *("report", "read", "eviction", "eviction", "suspension"),
)
_STATUSES = (409, 410, 429, 500, 503, 503)


def _fault_writes(scene: Scene, a: int, b: int, wreck: Wreck) -> None:
    """Let something happen to the next one to three writes of a sort."""
    sort = _WRITES[a % len(_WRITES)]
    fault = WriteFault(wreck, _LATE[b % len(_LATE)], _STATUSES[b // 8 % len(_STATUSES)])
    scene.world.record.writes.append(fault.seconds)
    faults = scene.world.host(a // 32).line.faults.setdefault(sort, deque())
    if len(faults) < 4:
        faults.extend([fault] * (1 + a // 8 % 3))


@action(Theme.WRITES, 2)
def delay_writes(scene: Scene, a: int, b: int) -> None:
    """Let writes arrive late, or their answers."""
    _fault_writes(scene, a, b, Wreck.DELAYED if b % 2 else Wreck.ANSWERED_LATE)


@action(Theme.WRITES, 2)
def drop_writes(scene: Scene, a: int, b: int) -> None:
    """Let writes be lost before they arrive."""
    _fault_writes(scene, a, b, Wreck.DROPPED)


@action(Theme.WRITES, 3)
def lose_answers(scene: Scene, a: int, b: int) -> None:
    """Let writes be applied and their answers be lost, or be an error."""
    _fault_writes(scene, a, b, (Wreck.LOST, Wreck.FAILED, Wreck.LOST)[b % 3])


@action(Theme.WRITES, 2)
def apply_late(scene: Scene, a: int, b: int) -> None:
    """Let writes be applied after their sender has given them up."""
    _fault_writes(scene, a, b, Wreck.LATE)


@action(Theme.WRITES, 1)
def repeat_writes(scene: Scene, a: int, b: int) -> None:
    """Let writes be applied twice."""
    _fault_writes(scene, a, b, Wreck.TWICE)


@action(Theme.WRITES, 2)
def overtake_writes(scene: Scene, a: int, b: int) -> None:
    """Let what is written to be deleted and created anew under its name while the write is on its way."""
    _fault_writes(scene, a, b, Wreck.OVERTAKEN)


@action(Theme.WRITES, 3)
def refuse_writes(scene: Scene, a: int, b: int) -> None:
    """Let writes be refused."""
    _fault_writes(scene, a, b, Wreck.REFUSED)


@action(Theme.WRITES, 1)
def api_away(scene: Scene, a: int, b: int) -> None:
    """Take the API server away for a while: from all hosts, or from one."""
    world = scene.world
    hosts = world.hosts if a % 2 else [world.host(a // 2)]
    seconds = _SPELLS[b % len(_SPELLS)] * 4
    for host in hosts:
        host.line.down = True
        for stream in host.streams():
            stream.end(ApiError(0, "Disconnected", "connection lost"))
        world.later(seconds, _api_back, host)
    world.record.news.append(2 * seconds + 1.0)  # the pauses between attempts to connect grow as it lasts
    world.record.writes.append(seconds)


def _api_back(host: Host) -> None:
    host.line.down = False


# Watches.

#: How long the first pause before another connection is at most; it doubles when that comes to nothing.
_RECONNECT_SECONDS = 1.0


@action(Theme.WATCHES, 3)
def delay_watch(scene: Scene, a: int, b: int) -> None:
    """Let news of a kind come late, until further notice."""
    seconds = (0.0, *_LATE)[b % (len(_LATE) + 1)]
    scene.world.host(a // 256).line.lag[_kind(scene, a)] = seconds
    scene.world.record.news.append(seconds)


@action(Theme.WATCHES, 3)
def stall_watch(scene: Scene, a: int, b: int) -> None:
    """Let news of a kind pile up, and come all at once."""
    stream = _stream(scene, a)
    if stream is not None:
        stream.stalled = True
        seconds = _SPELLS[b % len(_SPELLS)]
        scene.world.later(seconds, stream.release)
        scene.world.record.news.append(seconds)


@action(Theme.WATCHES, 3)
def end_watch(scene: Scene, a: int, b: int) -> None:
    """Let a watch end, break, or break within a line."""
    stream = _stream(scene, a)
    if stream is not None:
        broken = ApiError(0, "Disconnected", "connection lost")
        (stream.end, partial(stream.end, broken), stream.cut)[b % 3]()
        scene.world.record.news.append(_RECONNECT_SECONDS)


@action(Theme.WATCHES, 2)
def lose_place(scene: Scene, a: int, _b: int) -> None:
    """Let a watch end and its place be forgotten: what happens until it has listed again is never told."""
    scene.world.front.compact()
    stream = _stream(scene, a)
    if stream is not None:
        stream.end()
        scene.world.record.news.append(2 * _RECONNECT_SECONDS)


@action(Theme.WATCHES, 2)
def replay_watch(scene: Scene, a: int, b: int) -> None:
    """Let a watch tell again what it has told."""
    stream = _stream(scene, a)
    if stream is not None:
        scene.world.front.replay(stream, 1 + b % 6)


@action(Theme.WATCHES, 1)
def garble_watch(scene: Scene, a: int, _b: int) -> None:
    """Let a watch carry something that is no event."""
    stream = _stream(scene, a)
    if stream is not None:
        stream.send(b'{"type":"MODIFIED","object":{"metadata":\n')
        scene.world.record.news.append(_RECONNECT_SECONDS)


# Calls.

_VERBS = ("bind", "bind", "filter", "filter", "preempt", "prioritize")


def _fault_calls(scene: Scene, a: int, b: int, mishap: Mishap) -> None:
    """Let something happen to the next one or two calls of a verb."""
    fault = CallFault(mishap, _LATE[b % len(_LATE)])
    faults = scene.world.host(a // 32).calls.faults.setdefault(_VERBS[a % len(_VERBS)], deque())
    if len(faults) < 3:
        faults.extend([fault] * (1 + a // 8 % 2))


@action(Theme.CALLS, 2)
def delay_calls(scene: Scene, a: int, b: int) -> None:
    """Let calls arrive late, or their answers."""
    _fault_calls(scene, a, b, Mishap.DELAYED if b % 2 else Mishap.ANSWERED_LATE)


@action(Theme.CALLS, 2)
def drop_calls(scene: Scene, a: int, b: int) -> None:
    """Let calls be lost on the way, or their answers."""
    _fault_calls(scene, a, b, Mishap.DROPPED if b % 2 else Mishap.LOST)


@action(Theme.CALLS, 2)
def repeat_calls(scene: Scene, a: int, b: int) -> None:
    """Let calls arrive twice."""
    _fault_calls(scene, a, b, Mishap.TWICE)


@action(Theme.CALLS, 0.5)
def hang_calls(scene: Scene, a: int, b: int) -> None:
    """Let calls never be answered."""
    _fault_calls(scene, a, b, Mishap.HUNG)


@action(Theme.CALLS, 2)
def clear_nomination(scene: Scene, a: int, _b: int) -> None:
    """Let kube-scheduler take a nomination off a pod."""
    pod = _pick([pod for pod in scene.people.pods() if pod.nominated_node and not pod.node_name], a)
    if pod is not None:
        scene.people.clear_nomination(pod.name)


@action(Theme.CALLS, 2)
def refuse_node(scene: Scene, a: int, b: int) -> None:
    """Let kube-scheduler have reasons of its own against a node for some pods, and drop those it had."""
    world = scene.world
    if b % 2:
        world.clear_obstacles()
        world.record.obstructed(none=True)
    else:
        world.record.obstructed()
        world.obstacles.add((_node(scene, a), b // 2 % 4))


# Processes.


@action(Theme.PROCESSES, 2)
def kill_muster(scene: Scene, a: int, b: int) -> None:
    """Kill Muster now, or its host."""
    host = scene.world.host(a)
    host.restart_after = 1.0 + _SPELLS[b % len(_SPELLS)]
    host.kill_muster()
    if a // 2 % 4 == 0:
        host.restart_scheduler()


@action(Theme.PROCESSES, 3)
def kill_at_write(scene: Scene, a: int, b: int) -> None:
    """Kill Muster as it writes."""
    host = scene.world.host(a // 32)
    host.restart_after = 1.0 + _SPELLS[b % len(_SPELLS)]
    sort = _WRITES[a % len(_WRITES)]
    fault = WriteFault(Wreck.KILLED_BEFORE if b // 8 % 2 else Wreck.KILLED_AFTER)
    host.line.faults.setdefault(sort, deque()).append(fault)


@action(Theme.PROCESSES, 2)
def kill_at_call(scene: Scene, a: int, b: int) -> None:
    """Kill Muster as it serves."""
    host = scene.world.host(a // 32)
    host.restart_after = 1.0 + _SPELLS[b % len(_SPELLS)]
    fault = CallFault(Mishap.KILLED_BEFORE if b // 8 % 2 else Mishap.KILLED_AFTER)
    host.calls.faults.setdefault(_VERBS[a % len(_VERBS)], deque()).append(fault)


@action(Theme.PROCESSES, 2)
def pause_muster(scene: Scene, a: int, b: int) -> None:
    """Stop Muster for a while."""
    replica = scene.world.host(a // 32).replica
    if replica is not None and replica.process.state is State.RUNNING:
        replica.process.pause()
        seconds = _SPELLS[b % len(_SPELLS)] * (5 if a % 8 == 0 else 1)
        scene.world.later(seconds, replica.process.resume)
        scene.world.record.news.append(seconds)
        scene.world.record.writes.append(seconds)


@action(Theme.PROCESSES, 1)
def pause_scheduler(scene: Scene, a: int, b: int) -> None:
    """Stop kube-scheduler for a while."""
    process = scene.world.host(a).scheduler
    if process.state is State.RUNNING:
        process.pause()
        scene.world.later(_SPELLS[b % len(_SPELLS)], process.resume)


@action(Theme.PROCESSES, 2)
def restart_scheduler(scene: Scene, a: int, _b: int) -> None:
    """Kill kube-scheduler and start another one."""
    scene.world.host(a).restart_scheduler()


@action(Theme.PROCESSES, 1)
def freeze_host(scene: Scene, a: int, b: int) -> None:
    """Stop all that runs on a host for about as long as its Lease lasts, where others can take over."""
    world, host = scene.world, scene.world.host(a)
    running = [each for each in host.processes() if each.state is State.RUNNING]
    if len(world.hosts) > 1 and running:
        seconds = (4.0, 11.0, 16.0, 18.0, 40.0)[b % 5]
        for process in running:
            process.pause()
            world.later(seconds, process.resume)
        world.record.news.append(min(seconds, LEASE_SECONDS))
        world.record.writes.append(min(seconds, LEASE_SECONDS))


@action(Theme.PROCESSES, 1)
def jump_clock(scene: Scene, a: int, b: int) -> None:
    """Let the steady clock jump forwards by minutes, or the wall clock anywhere."""
    host = scene.world.host(a // 2)
    if a % 2:
        host.jump((5.0, 30.0, 90.0, 400.0)[b % 4])
    else:
        host.clock.wall_ahead = (-3600.0, -5.0, 0.0, 86_400.0)[b % 4]


def _gang(scene: Scene, number: int) -> Gang | None:
    return _pick(list(scene.people.gangs.values()), number)


def _node(scene: Scene, number: int) -> str:
    return scene.people.nodes[number % len(scene.people.nodes)]


def _kind(scene: Scene, number: int) -> str:
    if scene.people.claims_devices and number // 16 % 4 == 0:
        return WatchedKind.RESOURCE_CLAIM
    if number // 64 % 8 == 0:
        return WatchedKind.JOB
    kinds = [WatchedKind.POD, WatchedKind.POD, WatchedKind.NODE, COSCHEDULING_POD_GROUPS, WatchedKind.QUEUE]
    kinds += [WatchedKind.LEASE] * (len(scene.world.hosts) - 1)
    return kinds[number % len(kinds)]


def _stream(scene: Scene, number: int) -> Stream | None:
    kind = _kind(scene, number)
    return next((stream for stream in scene.world.front.streams if stream.kind is kind and not stream.ended), None)
