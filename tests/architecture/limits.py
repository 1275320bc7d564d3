"""The bounds of this folder's tests, in one place.

Each names what may be reached at most, and what it is to come down to. A change that makes a figure better lowers its
limit to what is reached then; a change that raises one says why in its commit.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limit:
    """What a figure may be `now`, and the `goal` that it is to reach."""

    now: float
    goal: float


#: Own files that one trip crosses; of a pass, those that decide (`trips.DECIDING`).
TRIPS: Mapping[str, Limit] = {
    # One of them for the extenders behind Muster that refuse the planned node, one that counts the last minute's calls.
    "filter": Limit(11, goal=10),
    "budget": Limit(8, goal=8),
    # Two of them with `caches`, which bounds in bytes what is remembered.
    # Two of them with the accounts of gangs and GPU-seconds, which stand beside the way to the engine.
    # Three of them with how long gangs run and when those that wait are expected to start.
    "pod": Limit(21, goal=16),
    # One of them with what gangs are alike, of which one is evaluated, and one with what becomes of each: the pass was
    # 750 lines in one module. Three of them with whose verdict stands, who is parked, and who is old: parts of modules
    # that would have had more than 500 lines.
    "pass": Limit(40, goal=35),
    "explain": Limit(34, goal=35),
}

#: What `counts` counts.
COUNTS: Mapping[str, Limit] = {
    # Bounds on what one tenant, a full disk, a restored etcd and a foreign page can do are code of their own; so is
    # a complete search for places, the members that join others of their slice, groups of roles inside each other, what
    # pods may borrow that cannot be evicted and which those are, bounds by the number of a tier, shares that even out
    # by eviction, subgroups by the values of labels, commands that may be interrupted at any moment, the status of
    # PodGroups without pods, gangs that move by themselves to make room, with their places kept, telling of each
    # start where a gang is, bandwidth and whole nodes weighed against each other, and what was passed by for a place.
    # How much of a node pods of several shapes can use together is counted before they are planned. A gang starts with
    # any of its pods that fit, however many choices there are; the best node for a pod is known while claims come and
    # go, and what a watch tells of a pod again is known by its text. Requests are sent by aiohttp without a wrapper.
    # Explanations of one state share its copies. What members of one shape are promised and charged is done once for
    # all of them on a node. Statuses and gauges of Queues are made in steps.
    # A recording has pages of its own, and free memory goes back.
    # Devices of Dynamic Resource Allocation: five kinds, selectors in CEL, pools, and the search of the allocator.
    # Devices are held as GPUs are: columns for what is asked for, claims as they are allocated, and trials of others.
    # Nodes that fail are told from those that are well, lost members get a new place before they are evicted, and
    # Queues keep nodes for that. Gangs are told before they are evicted, answer, and end when they run for too long.
    # Jobs that are suspended are gangs of expected pods: what these are, which pods take their part, and two writes.
    # Gangs have parts in parts, native groups of groups are one gang, and KAI's PodGroups are read.
    # Operators' objects are suspended too: how each kind says so, and whose pods are told by a gang's name.
    # Gangs ask autoscalers for nodes: what they ask for, when again, and two kinds of objects to write and withdraw.
    # What gangs used is kept in a store: accounts, tables, a thread that writes, two questions and two commands.
    # Lists have kubectl's namespaces, names, order, templates and watches, and shells complete what there is.
    # Callers are told apart: who they are, what they may list, and every answer without the rest.
    # When each gang that waits will start is worked out on copies, and how long gangs run is learned.
    # What a cluster has and lacks is told before an install, and gangs are chosen by labels.
    # The Service for readers is followed by a keeper of its own: 75 lines, an option and its wiring.
    # 60 more: runtimes that are learned from the history, and a module for threads with calls that block.
    # What each user and group runs of what a Queue lets one run is counted and shown: 50 lines.
    # Tokens go through the API server's proxy by a header of their own; answers say how much they leave out.
    # A gang that waits for quota is told what its Queue has, who has the rest, when it comes back, and why not now.
    # What would help is looked for in other Queues, GPUs per pod and the ends of others: 90 lines.
    # Of gangs that are alike one is evaluated, and all are told: 270 lines. Evictions on their way leave although they
    # were withdrawn: 130 lines. Who has no place for certain is judged last: 140 lines. Snapshots have pseudonyms for
    # every text (300), writes are held up by namespace (250), and time is the API server's (100). Devices that pods
    # without a node keep count as nodes do: 20 lines. The pass is in two modules (75 lines), and what a forecast
    # gathers is let alone by the garbage collector (30); who is asked about has its turn at once (5), and gates that
    # stay and evictions that are refused are told of (43). Scrapes pass over single pods that run (8). Where names have
    # no numbers any slice may be the smaller one (62). What is kept for the first that waits stands for a while (39).
    # Buffers of connections are kept apart from the heap (27). One step of a pass has a turn of the event loop, writes
    # begin a few in each, and of nodes that are alike no more are compared than can be needed (44).
    # Hours of use are counted once a store is adopted (8). A word from behind Muster is none before it (14).
    # Gangs that are gone leave nothing that waits for them to be old (26), recordings no pods that are gone (11), and
    # what members are charged is one object (7). A walk passes over gangs of many kinds together: who is parked, on
    # what, and when each is looked at again (390). Members beyond minMember hear what they lack themselves, who is to
    # leave waits from then on, and room is kept for the first in order, whoever is judged first (30).
    "lines in extender": Limit(71_675, goal=38_000),
    # Merging modules that belong together shortens the trips and lengthens the list of imports of each that is left.
    # The simulation plays devices too: its plugin, its controller and its scenarios each read several kinds.
    # Its autoscaler is a client of its own beside Muster: it knows nodes, pods, requests and evictions.
    # What a verdict rests on, and of which gangs it is true, is a module of its own; so are pseudonyms,
    # the names of devices, and words that stay: four hundredths. The two halves of a pass know the same parts: five.
    "own imports of a module, on average": Limit(6.26, goal=3.5),
    "modules under 60 lines": Limit(0, goal=0),
    "class names in several modules": Limit(0, goal=0),
    "words of dialect": Limit(0, goal=0),
    "places in tests that reach through": Limit(0, goal=0),
}

#: Small modules that are a concept of their own, each with its reason: they do not count as too small.
SMALL_CONCEPTS: Mapping[str, str] = {
    # One file for each kind of object, with its struct, its value and its reader.
    "extender.objects.devices": "Koordinator's Device, which a watch, the model and the laboratory read",
    "extender.objects.lease": "the Lease of kube-scheduler, which a watch and the leadership read",
    "extender.journal.tape": "the memory of a recording, which the journal fills and files are read into",
    # One file for each source of gangs, and one table of them.
    "extender.objects.sources.kueue": "Kueue's groups of plain pods, which no object describes",
    "extender.objects.sources.table": "the sources in the order in which they are asked; it imports each of them",
    "extender.admission.protection": "which members autoscalers are not to move, which only binding asks",
}
