"""What annotations say about the GPUs and zones that a pod holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.objects.holdings import DeviceHolding, Holdings, prediction, read_holdings
from extender.objects.meta import encode
from extender.objects.pod import Pod, Rejection, RejectionReason, read_pod
from extender.objects.podspec import decode_pod
from tests.builders import pod_json

KAI = "kai.scheduler/numa-placement-observed"
HAMI = "hami.io/vgpu-devices-allocated"
KOORDINATOR = "scheduling.koordinator.sh/device-allocated"
GPU = "GPU-859b872c-0ba2-97b0-10b4-8b7185c55039"

#: Keys of annotations, and keys like them.
KEYS = [
    KAI,
    HAMI,
    KOORDINATOR,
    *(f"muster.dev/{said}-{what}" for said in ("observed", "predicted") for what in ("gpus", "zones")),
]


def observed(**annotations: str) -> DeviceHolding | None:
    """Return what annotations say was observed; `gpus` and `zones` are Muster's own keys."""
    names = {"gpus": "muster.dev/observed-gpus", "zones": "muster.dev/observed-zones"}
    names |= {"kai": KAI, "hami": HAMI, "koordinator": KOORDINATOR}
    return read_holdings({names[name]: text for name, text in annotations.items()}).observed


def read(annotations: dict[str, str], **status: object) -> Pod:
    """Read a pod with these annotations and this status."""
    return read_pod(decode_pod(encode(pod_json(annotations=annotations, status=status))))


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({"gpus": "0,1"}, DeviceHolding(gpus=(0, 1))),
        ({"gpus": " 3, 1 ", "zones": "0"}, DeviceHolding(gpus=(1, 3), zones=(0,))),
        ({"kai": '[{"zone":"node-1","amount":{"nvidia.com/gpu":"2","cpu":"8"}}]'}, DeviceHolding(zones=(1,))),
        (
            {"kai": '[{"zone":"node-1","amount":{"cpu":"8"}},{"zone":"node-0","amount":{"cpu":2}}]'},
            DeviceHolding(zones=(0, 1)),
        ),
        (
            {"kai": '[{"zone":"node-0","amount":{"cpu":"0"}},{"zone":"node-1","amount":{"cpu":"8"}}]'},
            DeviceHolding(zones=(1,)),
        ),
        ({"hami": f"{GPU},NVIDIA,4000,0:;"}, DeviceHolding(uuids=(GPU,))),
        ({"hami": f"{GPU},NVIDIA,4000,0:GPU-b,NVIDIA,1,0:;GPU-b,NVIDIA,1,0:;"}, DeviceHolding(uuids=(GPU, "GPU-b"))),
        ({"hami": "GPU-a[0-1],NVIDIA,4000,0:;"}, DeviceHolding(uuids=("GPU-a",))),
        (
            {"koordinator": '{"gpu":[{"minor":1,"id":"a"},{"minor":0}],"rdma":[{"minor":5,"id":"0000:09:00.0"}]}'},
            DeviceHolding(gpus=(0, 1)),
        ),
    ],
)
def test_each_format_is_read(annotations: dict[str, str], expected: DeviceHolding) -> None:
    """Muster's own, KAI's, HAMi's and Koordinator's words mean GPUs, zones and UUIDs."""
    assert observed(**annotations) == expected


def test_each_fact_comes_from_the_first_that_states_it() -> None:
    """Own keys go before HAMi, HAMi before Koordinator; who speaks of zones only adds zones."""
    hami, koordinator = "GPU-a,NVIDIA,1,0:;", '{"gpu":[{"minor":7}]}'
    zones = '[{"zone":"node-1","amount":{"cpu":"8"}}]'
    assert observed(gpus="2", hami=hami, koordinator=koordinator) == DeviceHolding(gpus=(2,))
    assert observed(hami=hami, koordinator=koordinator, kai=zones) == DeviceHolding(uuids=("GPU-a",), zones=(1,))
    assert observed(koordinator=koordinator, zones="0", kai=zones) == DeviceHolding(gpus=(7,), zones=(0,))


@pytest.mark.parametrize(
    "annotations",
    [
        {},
        {"gpus": ""},
        {"kai": "null"},
        {"kai": '[{"zone":"west","amount":{"cpu":"8"}}]'},
        {"kai": '[{"zone":"node-4096","amount":{"cpu":"8"}}]'},
        {"kai": '[{"zone":"node-0"}]'},
        {"kai": "[]"},
        {"hami": ":;"},
        {"hami": "GPU-a"},
        {"koordinator": '{"gpu":[{"minor":-1}]}'},
        {"koordinator": '{"gpu":[{"minor":1e9}]}'},
        {"koordinator": '{"rdma":[{"minor":1}]}'},
        {"koordinator": "["},
        {"koordinator": "\ud800"},
    ],
)
def test_what_others_write_unreadably_says_nothing(annotations: dict[str, str]) -> None:
    """A fact that cannot be read is not known; whose annotation it is may change its format without a word from us."""
    assert observed(**annotations) is None


@pytest.mark.parametrize("text", ["0,0", "a", "0;1", "-1", "1024", "0,", "1_0", "0x1", "\u0661", ",".join("0" * 9000)])
def test_own_keys_that_cannot_be_read_are_problems(text: str) -> None:
    """Who runs an agent that writes nonsense is told the key and what belongs there."""
    holdings = read_holdings({"muster.dev/observed-gpus": text, "muster.dev/observed-zones": "1"})
    assert holdings.observed == DeviceHolding(zones=(1,))
    (problem,) = holdings.problems
    assert problem.field == "metadata.annotations[muster.dev/observed-gpus]"
    assert "is not different whole numbers from 0 to 1023, separated by commas" in problem.message
    assert len(problem.message) < 200


@given(
    st.sets(st.integers(0, 1023), max_size=16),
    st.sets(st.integers(0, 1023), max_size=8),
)
def test_what_is_predicted_is_read_back(gpus: set[int], zones: set[int]) -> None:
    """The annotations of a prediction say what it says, and nothing about what it does not."""
    annotations = prediction(list(gpus), list(zones))
    expected = DeviceHolding(tuple(sorted(gpus)), tuple(sorted(zones)))
    assert read_holdings(annotations) == Holdings(predicted=expected if gpus or zones else None)
    assert len(annotations) == bool(gpus) + bool(zones)


@given(st.dictionaries(st.sampled_from(KEYS), st.text(st.sampled_from('[]{},:;"-0129aGPUminorzone \x00\ud800'))))
def test_no_annotation_stops_the_reading(annotations: dict[str, str]) -> None:
    """Whatever stands there, reading ends with values in their bounds."""
    holdings = read_holdings(annotations)
    for holding in filter(None, (holdings.observed, holdings.predicted)):
        assert all(0 <= number < 1024 for number in (*holding.gpus, *holding.zones))
    assert {problem.field.partition("[")[2][:-1] for problem in holdings.problems} <= set(KEYS[3:])


def test_a_pod_tells_what_it_holds() -> None:
    """Observation, prediction and problems are part of the pod."""
    pod = read({"muster.dev/observed-zones": "1", "muster.dev/predicted-zones": "0", "muster.dev/observed-gpus": "x"})
    assert pod.observed == DeviceHolding(zones=(1,))
    assert pod.predicted == DeviceHolding(zones=(0,))
    assert [problem.field for problem in pod.options.problems] == ["metadata.annotations[muster.dev/observed-gpus]"]


@pytest.mark.parametrize("reason", RejectionReason)
def test_a_pod_that_its_kubelet_turned_away_says_why(reason: RejectionReason) -> None:
    """The reason of a failed pod's status is the kubelet's, the message beside it."""
    message = "Pod was rejected: Resources cannot be allocated with Topology locality"
    assert read({}, phase="Failed", reason=reason.value, message=message).rejection == Rejection(reason, message)
    assert read({}, phase="Failed", reason=reason.value).rejection == Rejection(reason, "")


@pytest.mark.parametrize(
    "status", [{"phase": "Failed", "reason": "Evicted"}, {"phase": "Running", "reason": "TopologyAffinityError"}]
)
def test_a_pod_that_failed_otherwise_was_not_turned_away(status: dict[str, str]) -> None:
    """An evicted pod ran, and a running pod was admitted."""
    assert read({}, **status).rejection is None
