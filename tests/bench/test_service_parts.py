"""The parts of the service family that need no Muster: objects, client, and the arithmetic of figures."""

from __future__ import annotations

import json
import math
import socket
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import numpy as np
import pytest

from bench.figures import Figure
from bench.histogram import quantile
from bench.service.calls import Call, Connection, prepare, request, time_calls
from bench.service.documents import GROUP_LABEL
from bench.service.growth import curves, exponent, exponents
from bench.service.lag import Lag
from bench.service.objects import NodeRecord, PodRecord, caller_pod, node_name, uid
from bench.service.population import PINNED, Population, Size, bound_pod, member
from bench.service.replayed import ReplayedCluster
from bench.service.verbs import Measured, growth
from bench.soak.sampling import Page
from extender.objects.node import decode_node, read_node
from extender.objects.pod import read_pod
from extender.objects.podspec import decode_pod
from extender.objects.queue import decode_queue, read_queue
from localcluster.errors import LocalClusterError
from localcluster.ports import LOOPBACK


class TestObjects:
    """What is replayed."""

    def test_objects_are_as_large_as_real_ones(self) -> None:
        """A running pod has 5.6 kB, a node 8.3 kB and a name of 41 characters."""
        assert len(bound_pod(7, node_name(3)).encode()) == pytest.approx(5_600, rel=0.03)
        assert len(NodeRecord(node_name(3), uid(1, 3), "zone-a").encode()) == pytest.approx(8_300, rel=0.03)
        assert len(node_name(3)) == 41

    def test_a_pod_reads_as_it_was_recorded(self) -> None:
        """Group, node, nomination, scheduler and UID all arrive."""
        pod = read_pod(decode_pod(member(PINNED, 5).encode()))
        assert (pod.uid, pod.scheduler_name, str(pod.group)) == (member(PINNED, 5).uid, "muster", "research/pinned")
        assert dict(pod.shape.requests)["nvidia.com/gpu"] == 1
        assert (pod.node_name, pod.nominated_node) == ("", "")
        placed = read_pod(decode_pod(PodRecord("a", "u", node="n", nominated="m").encode()))
        assert (placed.node_name, placed.nominated_node, placed.bound) == ("n", "m", True)

    def test_a_node_reads_as_ready_with_eight_gpus(self) -> None:
        """Nothing keeps pods off it."""
        node = read_node(decode_node(NodeRecord(node_name(3), uid(1, 3), "zone-a").encode()))
        assert (node.allocatable["nvidia.com/gpu"], node.taints, node.problem) == (8, (), None)

    def test_a_caller_sends_no_managed_fields(self) -> None:
        """kube-scheduler drops them from what it watches; the rest it sends."""
        sent = caller_pod(member(PINNED, 5))
        assert b"managedFields" not in sent
        assert GROUP_LABEL.encode() in sent

    def test_a_population_is_the_same_every_time_and_has_no_namesakes(self) -> None:
        """Both ends make it for themselves, and find each other's pods in it."""
        size = Size(nodes=10, bound=30, pinned=16, running=5, queues=30)
        population = Population.of(Size.parse(size.arguments()))
        assert len({pod.uid for pod in population.pods.values()}) == len(population.pods) == 30 + 16 + 8 + 8 + 8 + 40
        assert population.pods[member(PINNED, 5).name].uid == member(PINNED, 5).uid
        assert (len(population.nodes), population.groups[PINNED].min_member) == (10, 16)

    def test_gangs_that_run_are_in_the_queues_of_teams(self) -> None:
        """Queues have quota, those of departments have teams below them, and each team has as many gangs."""
        population = Population.of(Size(nodes=10, bound=0, running=56, queues=30))
        queues = [read_queue(decode_queue(json.dumps(each).encode())) for each in population.queues]
        assert [queue.name for queue in queues if not queue.parent] == ["department-0", "department-1"]
        assert not any(queue.problems for queue in queues)
        teams = Counter(group.queue for group in population.groups.values() if group.queue)
        assert teams == {queue.name: 2 for queue in queues if queue.parent}

    def test_a_replay_says_how_far_it_is(self) -> None:
        """A watch that begins again compares: the version of a list is that of what happened last."""
        cluster = ReplayedCluster(Population.of(Size(nodes=2, bound=4, pinned=2)), Random(1))
        assert cluster.page()["metadata"] == {"resourceVersion": "1"}
        cluster.happen(3)
        assert cluster.page()["metadata"] == {"resourceVersion": "4"}


def answering(*pieces: bytes) -> int:
    """Serve one connection on a port that is returned: every request gets these pieces, one by one, then the end."""
    listening = socket.create_server((LOOPBACK, 0))

    def serve() -> None:
        with listening, listening.accept()[0] as connection:
            while connection.recv(65_536):
                for piece in pieces:
                    connection.sendall(piece)
                if b"close" in b"".join(pieces):
                    return

    threading.Thread(target=serve, daemon=True).start()
    port: int = listening.getsockname()[1]
    return port


class TestCalls:
    """The client."""

    def test_an_answer_in_pieces_is_put_together(self) -> None:
        """As many bytes are read as the head promises, and the connection is used again."""
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-"
        with Connection(answering(head, b"Length: 7\r\n\r\nabc", b"defg")) as connection:
            assert bytes(connection.exchange(request("filter", b"{}"))) == b"abcdefg"
            assert bytes(connection.exchange(request("filter", b"{}"))) == b"abcdefg"

    @pytest.mark.parametrize("answer", [b"HTTP/1.1 500 Oops\r\ncontent-length: 0\r\n\r\n", b"HTTP/1.1 200 close"])
    def test_anything_but_a_whole_success_ends_the_measurement(self, answer: bytes) -> None:
        """Another status, or a connection that ends early, is no answer to be timed."""
        with Connection(answering(answer)) as connection, pytest.raises(LocalClusterError):
            connection.exchange(request("filter", b"{}"))

    def test_a_wrong_answer_is_not_measured(self) -> None:
        """What the situation does not call for is refused with the answer in the message."""
        with Connection(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nno")) as connection:
            with pytest.raises(LocalClusterError, match="'no'"):
                prepare(connection, "filter", b"{}", lambda answer: answer == b"yes")
            with pytest.raises(LocalClusterError, match="changed"):
                time_calls(connection, [Call(request("filter", b""), b"yes")], at_most=1, seconds=1)

    def test_a_round_ends_after_its_calls_or_its_time(self) -> None:
        """Slow calls are made less often, but not never."""
        with Connection(answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")) as connection:
            call = prepare(connection, "filter", b"{}", lambda answer: answer == b"ok")
            assert len(time_calls(connection, [call], at_most=30, seconds=10)) == 30
            assert len(time_calls(connection, [call], at_most=30, seconds=0, at_least=4)) == 4


def rounds(*milliseconds: float) -> list[np.ndarray[tuple[int], np.dtype[np.float64]]]:
    """Return rounds of calls that all took the same."""
    return [np.full(100, value) for value in milliseconds]


class TestFigures:
    """From calls to figures."""

    def test_a_percentile_is_the_median_of_its_rounds_with_its_bound(self) -> None:
        """Only the figures of the budget have bounds, and those at rest only."""
        found = {
            figure.name: figure for figure in Measured("filter", 5_000, busy=False, rounds=rounds(1, 2, 9)).figures()
        }
        assert found.keys() == {"filter_p50_5000", "filter_p99_5000", "filter_p999_5000"}
        p99 = found["filter_p99_5000"]
        assert (p99.value, p99.low, p99.high, p99.bound, p99.holds) == (2, 1, 9, 5.0, True)
        busy = Measured("filter", 5_000, busy=True, rounds=rounds(1)).figures()
        assert [(figure.name, figure.bound) for figure in busy][1] == ("filter_p99_5000_busy", None)

    def test_growth_relates_the_two_largest_clusters(self) -> None:
        """The ratio is that of the medians, its spread that of the rounds."""
        measured = [
            Measured("pinned_filter", nodes, busy=False, rounds=rounds(*taken))
            for nodes, taken in ((500, (9, 9, 9)), (5_000, (1, 2, 4)), (15_000, (2, 2, 2)))
        ]
        p99, p50, fastest = growth(measured)
        assert p99.name == "pinned_filter_growth_5000_to_15000"
        assert p50.name == "pinned_filter_p50_growth_5000_to_15000"
        assert fastest.name == "pinned_filter_fastest_growth_5000_to_15000"
        assert (p99.value, p99.low, p99.high, p99.holds) == (1, 0.5, 2, True)

    @pytest.mark.parametrize("power", [0.0, 1.0, 1.7])
    def test_a_power_law_has_its_exponent(self, power: float) -> None:
        """Between any two points, and over all."""
        sizes = [500, 5_000, 50_000]
        values = [3 * size**power for size in sizes]
        assert exponent(sizes, values) == pytest.approx(power, abs=1e-9)
        assert exponents(sizes, values) == pytest.approx([power, power], abs=1e-9)

    def test_curves_keep_their_points_and_say_where_they_bend(self) -> None:
        """The exponent spreads from the flattest stretch to the steepest."""
        points = {
            size: [Figure("filter_p50", "ms", value, value, value)] for size, value in ((1, 1), (10, 1), (100, 10))
        }
        growth, *rest = curves("nodes", points)
        assert (growth.name, growth.bound) == ("growth_filter_p50_nodes", 1.0)
        assert (growth.value, growth.low, growth.high) == pytest.approx((0.5, 0, 1), abs=1e-9)
        assert [point.name for point in rest] == [f"filter_p50_nodes_{size}" for size in points]


def page(longest: float, counts: Sequence[tuple[str, int]]) -> Page:
    """Return a page with the longest lag, and the lag's histogram by upper bound, in seconds."""
    lines = [f"muster_event_loop_longest_lag_seconds {longest}"]
    lines += [f'muster_event_loop_lag_seconds_bucket{{le="{bound}"}} {count}' for bound, count in counts]
    return Page.parse(
        "# TYPE muster_event_loop_lag_seconds histogram\n" + "\n".join([*lines[1:], ""]) + lines[0] + "\n"
    )


class TestLag:
    """Stalls of the event loop between two readings."""

    EARLIER: Callable[[], Page] = staticmethod(lambda: page(0.04, [("0.01", 10), ("0.05", 11), ("+Inf", 11)]))

    def test_the_longest_is_exact_when_it_is_new(self) -> None:
        """The gauge tells."""
        later = page(0.07, [("0.01", 15), ("0.05", 16), ("+Inf", 17)])
        assert Lag.between(self.EARLIER(), later).longest == pytest.approx(70)

    def test_one_from_before_is_not_counted_again(self) -> None:
        """The gauge still has the former; the histogram knows that nothing came near it."""
        later = page(0.04, [("0.01", 20), ("0.05", 21), ("+Inf", 21)])
        lag = Lag.between(self.EARLIER(), later)
        assert (lag.longest, lag.p99) == pytest.approx((10, 9.9))

    def test_no_look_means_no_lag(self) -> None:
        """Two readings in one moment say nothing."""
        assert Lag.between(self.EARLIER(), self.EARLIER()) == Lag(0.0, 0.0, 0.0, 0.0)

    def test_stalls_are_told_apart_by_their_cause(self) -> None:
        """Muster answers for those in which it computed itself."""
        stalls = 'muster_event_loop_stalls_total{{cause="{}"}} {}\n'
        before, after = (
            Page.parse(stalls.format("busy", busy) + stalls.format("starved", starved))
            for busy, starved in ((2, 5), (3, 9))
        )
        lag = Lag.between(before, after)
        assert (lag.busy, lag.starved) == (1, 4)

    def test_quantiles_interpolate_within_their_bucket(self) -> None:
        """Beyond the last bound there is nothing to interpolate to."""
        counts = {0.01: 50.0, 0.05: 100.0, math.inf: 100.0}
        assert quantile(counts, 0.75) == pytest.approx(0.03)
        assert quantile({0.01: 1.0, math.inf: 2.0}, 1.0) == 0.01
