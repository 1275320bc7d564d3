"""What kube-scheduler says of a pod that it did not place: whether it asked Muster first, and what a retry waits for.

The text is the message of the PodScheduled condition. Source: k8s.io/kubernetes pkg/scheduler/framework/types.go,
FitError.Error, release 1.37: `0/N nodes are available: ` and then either what a PreFilter plugin said, or how many
nodes were refused for which reason, sorted; after that what preemption came to.

    0/4 nodes are available: persistentvolumeclaim "data" not found. not found                      ALONE
    0/4 nodes are available: 4 node(s) didn't match pod affinity rules. preemption: ...             ALONE
    0/4 nodes are available: 1 node(s) didn't match pod affinity rules, 3 Insufficient cpu. ...     MIXED
    0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: ...                         ROOM
    0/4 nodes are available: 4 cannot allocate all claims. preemption: ...                          ROOM
    0/4 nodes are available: resource claim default/a is in the process of being allocated. ...     ROOM
    0/4 nodes are available: 4 gang waits: 0 of 2 members fit now. preemption: ...                  ASKED
    running PreBind plugin "VolumeBinding": binding volumes: timed out waiting for the condition    OTHER
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Final

#: How every reason begins that Muster gives kube-scheduler: for a member of a gang, for a pod that names no group.
OWN_WORDS: Final = ("gang waits: ", "pod waits: ")

_NO_NODE: Final = re.compile(r"0/\d+ nodes are available: ")
_PREEMPTION: Final = " preemption: "
#: One reason of several: how many nodes, and why.
_COUNTED: Final = re.compile(r"(?:^|, )\d+ ")
#: How NodeResourcesFit refuses a node that lacks room, and DynamicResources one that lacks devices, or is not the one
#: that a claim has devices of. Source: pkg/scheduler/framework/plugins/noderesources/fit.go, dynamicresources.
_LACKS_ROOM: Final = (
    *("Insufficient ", "Too many pods"),
    *("cannot allocate all claims", "resourceclaim not available on the node"),
)
#: What DynamicResources says of a claim that another pod is about to have: it ends by itself, in milliseconds.
_PASSES: Final = "is in the process of being allocated"


class RefusalKind(StrEnum):
    """What a refusal says; a pod is tried again when something changes that may end it."""

    NONE = ""
    ASKED = "asked"  # Muster was asked, and refused
    ALONE = "alone"  # kube-scheduler's own, and free room does not end it
    MIXED = "mixed"  # kube-scheduler's own: some nodes lack room, the others refuse for other reasons
    ROOM = "room"  # kube-scheduler's own: every node lacks room
    OTHER = "other"  # anything else, such as an error


def refusal_kind(text: str) -> RefusalKind:
    """Return what a refusal says. Complexity: O(text)."""
    if not text:
        return RefusalKind.NONE
    if any(words in text for words in OWN_WORDS):
        return RefusalKind.ASKED
    begin = _NO_NODE.match(text)
    if begin is None:
        return RefusalKind.OTHER
    said = text[begin.end() :].partition(_PREEMPTION)[0]
    if _COUNTED.match(said) is None:
        return RefusalKind.ROOM if _PASSES in said else RefusalKind.ALONE
    reasons = [each for each in _COUNTED.split(said) if each]
    lacking = sum(each.startswith(_LACKS_ROOM) for each in reasons)
    if not lacking:
        return RefusalKind.ALONE
    return RefusalKind.ROOM if lacking == len(reasons) else RefusalKind.MIXED


#: What stands for a refusal whose words are kept back: it says the same.
SKELETONS: Final = {
    RefusalKind.ALONE: "0/0 nodes are available: ",
    RefusalKind.MIXED: "0/0 nodes are available: 1 Insufficient room, 1 ",
    RefusalKind.ROOM: "0/0 nodes are available: 1 Insufficient ",
}

#: How much of a refusal is repeated: an Event has room for 1024 characters.
_LONGEST_QUOTE: Final = 400


def shortened(text: str) -> str:
    """Return what of a refusal people are told: without what preemption came to, and not too long."""
    said = text.partition(_PREEMPTION)[0].rstrip()
    return said if len(said) <= _LONGEST_QUOTE else f"{said[: _LONGEST_QUOTE - 3]}..."
