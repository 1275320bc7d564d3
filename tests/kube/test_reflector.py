"""Lists, watches, and everything that happens to them on the way."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs

from extender.kube.rights import CREDENTIALS_REFUSED
from extender.kube.transport import Transport
from extender.kube.watch import WatchOptions
from tests.kube.apiscript import (
    Answer,
    ApiScript,
    JsonObject,
    abort,
    added,
    bookmark,
    deleted,
    event,
    gone,
    hold,
    line,
    listed,
    modified,
    named,
    page,
    refuses,
    says,
    slam,
    watch,
)
from tests.kube.watched import PODS, watching

#: The same collection in earlier versions of the API.
OLD, OLDEST = "/apis/old/pods", "/apis/oldest/pods"

NO_WATCH_LIST = refuses(422, "Invalid", "sendInitialEvents: Forbidden: the WatchList feature gate is disabled")
UNKNOWN_FIELD = refuses(400, "BadRequest", "resourceVersionMatch is forbidden for watch")


#: How often nothing is heard in a test of silence.
REPEATS = 5


def asked(script: ApiScript) -> list[str]:
    """Return, for every request, where it asked to begin."""
    words = []
    for request in script.of(PODS):
        if "sendInitialEvents" in request.query:
            words.append("everything")
        elif "watch" in request.query:
            words.append(f"after {request.query['resourceVersion']}")
        else:
            words.append(f"page {request.query.get('continue', '')}".strip())
    return words


class TestWatchList:
    """The list as the beginning of the watch."""

    async def test_initial_events_and_bookmark_make_it_synced(self, script: ApiScript, transport: Transport) -> None:
        """What exists comes first; the bookmark that ends it makes the kind synced, once; then come the changes."""
        script.plan(
            PODS, watch(added("a", version=3), added("b", version=5), listed(7), modified("a", version=8), then=hold)
        )
        async with watching(transport) as watched:
            await watched.observer.until(lambda: len(watched.told) == 4)
        assert watched.told == [("seen", "/a", "uid-a"), ("seen", "/b", "uid-b"), ("synced",), ("seen", "/a", "uid-a")]

    async def test_request_asks_for_a_consistent_beginning(self, script: ApiScript, transport: Transport) -> None:
        """The query is the one of the WatchList API, without a version: the newest state, and bookmarks."""
        async with watching(transport):
            await script.until(lambda: script.of(PODS))
        assert script.of(PODS)[0].query == {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
            "timeoutSeconds": "290",
        }

    async def test_plain_bookmark_does_not_end_the_list(self, script: ApiScript, transport: Transport) -> None:
        """Only the marked bookmark says that the list is complete."""
        script.plan(PODS, watch(added("a"), bookmark(4), added("b"), listed(7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert [words[0] for words in watched.told] == ["seen", "seen", "synced"]

    async def test_list_that_breaks_off_starts_again(self, script: ApiScript, transport: Transport) -> None:
        """Initial events cannot be resumed: after a break everything is asked for again."""
        script.plan(PODS, watch(added("a", version=3), then=abort), watch(added("b", version=4), listed(7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert asked(script) == ["everything", "everything"]
        assert watched.told == [("seen", "/a", "uid-a"), ("seen", "/b", "uid-b"), ("gone", "/a", "uid-a"), ("synced",)]

    async def test_deletion_during_the_list_counts(self, script: ApiScript, transport: Transport) -> None:
        """An object that is deleted before the list is complete is gone."""
        script.plan(PODS, watch(added("a"), deleted("a"), listed(7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert watched.told == [("seen", "/a", "uid-a"), ("gone", "/a", "uid-a"), ("synced",)]


class TestPages:
    """The list of servers without WatchList."""

    @pytest.mark.parametrize("refusal", [NO_WATCH_LIST, UNKNOWN_FIELD])
    async def test_server_without_watch_list_is_asked_for_pages(
        self, script: ApiScript, transport: Transport, refusal: Answer
    ) -> None:
        """A server that refuses WatchList is listed 500 at a time, and watched from the version of the list."""
        script.plan(
            PODS,
            refusal,
            says(page(named("a"), version=7, more="token+/=")),
            says(page(named("b"), version=7)),
            watch(deleted("a", version=8), then=hold),
        )
        async with watching(transport) as watched:
            await watched.tells("gone", "/a", "uid-a")
        assert asked(script) == ["everything", "page", "page token+/=", "after 7"]
        assert script.of(PODS)[1].query == {"limit": "500"}
        assert watched.told[:3] == [("seen", "/a", "uid-a"), ("seen", "/b", "uid-b"), ("synced",)]
        assert watched.observer.restarts == []
        assert watched.naps.seconds == []

    async def test_list_that_takes_too_long_starts_again(self, script: ApiScript, transport: Transport) -> None:
        """A continue token that has expired means a new list, and what only the old one had is gone."""
        script.plan(
            PODS,
            NO_WATCH_LIST,
            says(page(named("a"), version=7, more="old")),
            refuses(410, "Expired", "The provided continue parameter is too old"),
            NO_WATCH_LIST,
            says(page(named("b"), version=9)),
        )
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert watched.told == [("seen", "/a", "uid-a"), ("seen", "/b", "uid-b"), ("gone", "/a", "uid-a"), ("synced",)]
        assert watched.observer.restarts == ["expired"]

    async def test_empty_list_is_complete(self, script: ApiScript, transport: Transport) -> None:
        """A kind without objects is synced; Go writes its items as null."""
        empty = page(version=7)
        empty["items"] = None
        script.plan(PODS, NO_WATCH_LIST, says(empty))
        async with watching(transport) as watched:
            await watched.tells("synced")
            await script.until(lambda: asked(script)[-1] == "after 7")

    @pytest.mark.parametrize("body", ["<html>", '{"items": 7}', '{"items": []}'])
    async def test_page_that_is_no_list_is_tried_again(
        self, script: ApiScript, transport: Transport, body: str
    ) -> None:
        """An answer without items or version is not taken for an empty cluster."""
        script.plan(PODS, NO_WATCH_LIST, says(body), says(page(named("a"), version=7)))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert watched.told == [("seen", "/a", "uid-a"), ("synced",)]
        assert watched.observer.restarts == ["disconnected"]


class TestResuming:
    """Connections that end."""

    async def test_watch_resumes_from_the_last_event(self, script: ApiScript, transport: Transport) -> None:
        """After the server ended a watch, the next begins where it was."""
        script.plan(PODS, watch(listed(7), added("a", version=9)), watch(added("b", version=11)), watch(then=hold))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 3)
        assert asked(script) == ["everything", "after 9", "after 11"]
        assert watched.observer.restarts == ["closed", "closed"]
        assert watched.observer.synced_kinds == ["pods"]

    async def test_bookmark_moves_the_place(self, script: ApiScript, transport: Transport) -> None:
        """A bookmark tells nothing but where the watch stands."""
        script.plan(PODS, watch(listed(7), bookmark(40), then=abort))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 2)
        assert asked(script) == ["everything", "after 40"]
        assert watched.told == [("synced",)]
        assert watched.observer.restarts == ["disconnected"]

    async def test_half_open_watch_is_opened_again(self, script: ApiScript, transport: Transport) -> None:
        """A watch on which nothing comes any more is given up after the idle timeout, and resumes at once."""
        script.plan(PODS, watch(listed(7), then=hold), watch(added("a", version=9), then=hold))
        async with watching(transport, WatchOptions(idle_timeout_seconds=0.5)) as watched:
            await watched.tells("seen", "/a", "uid-a")
        assert asked(script) == ["everything", "after 7"]
        assert watched.observer.restarts == ["silent"]
        assert watched.naps.seconds == [0.5]

    async def test_quiet_kind_is_never_listed_again(self, script: ApiScript, transport: Transport) -> None:
        """Silence alone, however often, is neither a reason for a new list nor for longer pauses."""
        script.plan(PODS, watch(listed(7), then=hold))
        # Long enough for the list itself, which is silence too where a busy machine takes that long to answer.
        async with watching(transport, WatchOptions(idle_timeout_seconds=0.1)) as watched:
            await watched.observer.until(lambda: asked(script).count("after 7") >= REPEATS)
        words = asked(script)
        assert set(words[words.index("after 7") :]) == {"after 7"}
        assert watched.naps.seconds[-REPEATS:] == [0.5] * REPEATS

    async def test_silent_watch_is_a_sign_of_life(self, script: ApiScript, transport: Transport) -> None:
        """Each accepted connection counts as heard, so that a quiet kind does not look stale."""
        script.plan(PODS, watch(listed(7), then=hold))
        async with watching(transport, WatchOptions(idle_timeout_seconds=0.01)) as watched:
            await watched.restarts("silent")
            before = watched.observer.heard_of
            await watched.restarts("silent", "silent")
        assert watched.observer.heard_of > before

    async def test_line_cut_short_comes_again(self, script: ApiScript, transport: Transport) -> None:
        """A watch that ends inside a line loses nothing: the rest of the line is not taken for damage."""
        cut = line(added("a", version=9))[:-10]
        script.plan(PODS, watch(listed(7), cut), watch(added("a", version=9), then=hold))
        async with watching(transport) as watched:
            await watched.tells("seen", "/a", "uid-a")
        assert asked(script) == ["everything", "after 7"]
        assert watched.reflector.undecodable == 0
        assert watched.told == [("synced",), ("seen", "/a", "uid-a")]

    async def test_lines_may_arrive_in_any_pieces(self, script: ApiScript, transport: Transport) -> None:
        """Where the network cuts the bytes does not matter."""
        whole = b"".join(line(part) for part in (added("a"), added("b"), listed(7), deleted("a", version=8)))
        pieces = [whole[start : start + 7] for start in range(0, len(whole), 7)]
        script.plan(PODS, watch(*pieces, then=hold))
        async with watching(transport) as watched:
            await watched.tells("gone", "/a", "uid-a")
        assert [words[0] for words in watched.told] == ["seen", "seen", "synced", "gone"]


class TestPlaceLost:
    """A server that has forgotten where the watch was."""

    async def test_expired_place_means_a_new_list_that_infers_deletions(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """After an ERROR event with 410 everything is asked for anew; what is missing is gone, and the end is told."""
        script.plan(
            PODS,
            watch(added("a"), added("b"), listed(7), gone()),
            watch(added("b", version=8), added("c", version=9), listed(12), then=hold),
        )
        async with watching(transport) as watched:
            await watched.tells("gone", "/a", "uid-a")
        assert asked(script) == ["everything", "everything"]
        seen, gone_then = [("seen", "/b", "uid-b"), ("seen", "/c", "uid-c")], [("gone", "/a", "uid-a"), ("synced",)]
        assert watched.told[3:] == seen + gone_then
        assert watched.observer.restarts == ["expired"]

    @pytest.mark.parametrize("answer", [refuses(410, "Gone"), watch(gone(code=None))])
    async def test_expiry_is_understood_in_every_form(
        self, script: ApiScript, transport: Transport, answer: Answer
    ) -> None:
        """410 as the status of the answer, or as the reason of an ERROR event without code, means the same."""
        script.plan(PODS, watch(listed(7)), answer, watch(listed(9), then=hold))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 3)
        assert asked(script) == ["everything", "after 7", "everything"]
        assert watched.observer.restarts == ["closed", "expired"]

    async def test_place_that_expires_at_once_does_not_make_a_storm_of_lists(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """A server that forgets every place at once is asked for ever rarer lists."""
        script.plan(PODS, *[watch(added("a"), listed(7), gone())] * 6)
        async with watching(transport) as watched:
            await watched.restarts(*["expired"] * 6)
        assert watched.naps.seconds == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]

    async def test_refused_place_is_given_up_after_some_attempts(self, script: ApiScript, transport: Transport) -> None:
        """A server that cannot read the place answers 500, not 410: after six attempts it is given up."""
        invalid = refuses(500, "InternalError", 'resourceVersion: Invalid value: "x"')
        script.plan(PODS, watch(listed(7), then=abort), *[invalid] * 6, watch(listed(9), then=hold))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 8)
        assert asked(script) == ["everything", *["after 7"] * 6, "everything"]
        assert watched.observer.restarts == ["disconnected", *["refused"] * 5, "stuck"]

    async def test_place_survives_refusals_that_end(self, script: ApiScript, transport: Transport) -> None:
        """Five refusals, an event, and five more: the count starts again with what comes."""
        storm = [refuses(500, "InternalError")] * 5
        script.plan(PODS, watch(listed(7)), *storm, watch(added("a", version=9)), *storm, watch(then=hold))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 13)
        assert asked(script).count("everything") == 1
        assert "stuck" not in watched.observer.restarts


class TestNames:
    """Names that are used again."""

    async def test_new_uid_under_an_old_name_is_a_deletion_and_an_addition(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """An object that was deleted and made again unseen is told of as just that, in that order."""
        script.plan(
            PODS,
            watch(added("a", "one", namespace="x"), listed(7), gone()),
            watch(added("a", "two", version=9, namespace="x"), listed(12), then=hold),
        )
        async with watching(transport) as watched:
            await watched.tells("seen", "x/a", "two")
        first, anew = [("seen", "x/a", "one"), ("synced",)], [("gone", "x/a", "one"), ("seen", "x/a", "two")]
        assert watched.told[:4] == first + anew

    async def test_deletion_of_the_former_bearer_is_not_the_new_ones(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """A deletion that names another UID than the one known does not delete."""
        script.plan(PODS, watch(added("a", "two"), listed(7), deleted("a", "one", version=8), added("b"), then=hold))
        async with watching(transport) as watched:
            await watched.tells("seen", "/b", "uid-b")
        assert [words[0] for words in watched.told] == ["seen", "synced", "seen"]

    async def test_same_name_in_two_namespaces_is_two_objects(self, script: ApiScript, transport: Transport) -> None:
        """A namespace is part of the name."""
        script.plan(
            PODS,
            watch(added("a", "one", namespace="x"), added("a", "two", namespace="y"), listed(7), gone()),
            watch(added("a", "two", namespace="y"), listed(9), then=hold),
        )
        async with watching(transport) as watched:
            await watched.tells("gone", "x/a", "one")
        assert ("gone", "y/a", "two") not in watched.told


class TestUndecodable:
    """Bytes that make no sense."""

    async def test_object_that_cannot_be_decoded_is_skipped(self, script: ApiScript, transport: Transport) -> None:
        """A bad object is counted and logged with kind, name and position; the watch goes on, and its place moves."""
        bad = added("bad", version=8, spec={"containers": 7})
        script.plan(PODS, watch(listed(7), bad, then=abort), watch(added("a", version=9), then=hold))
        with capture_logs() as logs:
            async with watching(transport) as watched:
                await watched.tells("seen", "/a", "uid-a")
        assert asked(script) == ["everything", "after 8"]
        assert watched.reflector.undecodable == 1
        (skipped,) = [entry for entry in logs if entry["event"].startswith("skipped")]
        assert (skipped["kind"], skipped["where"], skipped["after"]) == ("pods", "line 2 of the watch", "7")
        assert skipped["object"] == "/bad"
        assert "$.spec.containers" in skipped["error"]

    async def test_object_that_can_no_longer_be_decoded_is_not_gone(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """An object that becomes unreadable still exists: a new list does not make it a deletion."""
        script.plan(
            PODS,
            watch(added("a"), added("b"), listed(7), gone()),
            watch(added("a", version=8, spec=7), listed(9), then=hold),
        )
        async with watching(transport) as watched:
            await watched.observer.until(lambda: watched.told[-2:] == [("gone", "/b", "uid-b"), ("synced",)])
        assert ("gone", "/a", "uid-a") not in watched.told

    async def test_unreadable_object_under_an_old_name_ends_the_old_one(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """That the name belongs to another UID by now can be read even where the rest cannot."""
        script.plan(PODS, watch(added("a", "one"), listed(7), added("a", "two", version=8, spec=7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("gone", "/a", "one")
        assert watched.told == [("seen", "/a", "one"), ("synced",), ("gone", "/a", "one")]

    @pytest.mark.parametrize("bad", [named("bad", spec={"containers": 7}), {"metadata": {}}, {"metadata": 7}])
    async def test_item_of_a_page_that_cannot_be_decoded_is_skipped(
        self, script: ApiScript, transport: Transport, bad: JsonObject
    ) -> None:
        """A bad item does not keep the rest of the list away; its position is the page's."""
        script.plan(PODS, NO_WATCH_LIST, says(page(named("a"), bad, named("b"), version=7)))
        with capture_logs() as logs:
            async with watching(transport) as watched:
                await watched.tells("synced")
        assert watched.told == [("seen", "/a", "uid-a"), ("seen", "/b", "uid-b"), ("synced",)]
        assert [entry["where"] for entry in logs if "where" in entry] == ["item 1 of page 1"]

    @pytest.mark.parametrize(
        "garbage",
        [
            b"garbage\n",
            b'{"type": "ADDED", "object": {"metadata": {}}}\n',
            b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n',
            b'{"type": "DELETED", "object": 7}\n',
            b'{"type": "BOOKMARK", "object": 7}\n',
            b"\xff\n",
        ],
    )
    async def test_line_that_says_nothing_leads_to_a_new_list(
        self, script: ApiScript, transport: Transport, garbage: bytes
    ) -> None:
        """What cannot even be attributed is skipped, and when the watch ends a new list finds what it may have been."""
        script.plan(
            PODS,
            watch(added("a"), listed(7), garbage, added("b", version=9)),
            watch(added("b", version=9), listed(12), then=hold),
        )
        async with watching(transport) as watched:
            await watched.tells("gone", "/a", "uid-a")
        assert watched.reflector.undecodable == 1
        assert asked(script) == ["everything", "everything"]
        assert watched.observer.restarts == ["damaged"]

    async def test_unknown_type_of_event_is_skipped(self, script: ApiScript, transport: Transport) -> None:
        """A type of event that a later API server may invent does no harm."""
        script.plan(PODS, watch(listed(7), event("INVENTED", named("a")), added("b", version=8), then=hold))
        async with watching(transport) as watched:
            await watched.tells("seen", "/b", "uid-b")
        assert watched.reflector.undecodable == 1

    @pytest.mark.parametrize("status", [{"code": "seven"}, {}])
    async def test_error_event_that_explains_nothing_is_a_refusal(
        self, script: ApiScript, transport: Transport, status: dict[str, str]
    ) -> None:
        """An ERROR event without a readable status ends the connection, and the watch resumes."""
        script.plan(PODS, watch(listed(7), {"type": "ERROR", "object": status}), watch(then=hold))
        async with watching(transport) as watched:
            await script.until(lambda: len(script.of(PODS)) == 2)
        assert asked(script) == ["everything", "after 7"]
        assert watched.observer.restarts == ["refused"]

    @pytest.mark.parametrize(
        ("refusal", "said"),
        [
            (
                (403, "Forbidden", 'pods is forbidden: User "muster" cannot watch resource "pods"'),
                (
                    "Muster's ClusterRole must grant to watch pods (403 Forbidden: "
                    'pods is forbidden: User "muster" cannot watch resource "pods")'
                ),
            ),
            ((401, "Unauthorized", "Unauthorized"), CREDENTIALS_REFUSED),
            ((503, "ServiceUnavailable", "shutting down"), "503 ServiceUnavailable: shutting down"),
        ],
    )
    async def test_what_failed_is_said_to_people(
        self, script: ApiScript, transport: Transport, refusal: tuple[int, str, str], said: str
    ) -> None:
        """Beside the word for the metric the sink hears what the server answered, and which right is missing."""
        script.plan(PODS, *[refuses(*refusal)] * 2, watch(listed(7), then=hold))  # of a 401 the first renews the token
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert set(watched.observer.failures) == {said}

    async def test_end_of_the_list_without_version_is_no_end(self, script: ApiScript, transport: Transport) -> None:
        """A list from which no watch can start is asked for again."""
        pointless = listed(7)
        del pointless["object"]["metadata"]["resourceVersion"]
        script.plan(PODS, watch(added("a"), pointless), watch(added("a"), listed(9), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert asked(script) == ["everything", "everything"]


class TestPauses:
    """How often a server in trouble is asked."""

    async def test_pauses_grow_while_the_server_is_in_trouble(self, script: ApiScript, transport: Transport) -> None:
        """A storm of 500s is met with pauses that double up to 30 seconds."""
        script.plan(PODS, *[refuses(500, "InternalError", "etcdserver: leader changed")] * 8)
        async with watching(transport) as watched:
            await watched.restarts(*["refused"] * 8)
        assert watched.naps.seconds == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]

    async def test_pauses_start_small_again_after_progress(self, script: ApiScript, transport: Transport) -> None:
        """An event that moves the place ends the trouble."""
        trouble = [refuses(503, "ServiceUnavailable")] * 3
        script.plan(PODS, *trouble, watch(listed(7), added("a", version=9)), *trouble[:1])
        async with watching(transport) as watched:
            await watched.restarts("refused", "refused", "refused", "closed", "refused")
        assert watched.naps.seconds == [0.5, 1.0, 2.0, 0.5, 1.0]

    async def test_pauses_stay_short_while_nobody_answers(self, script: ApiScript, transport: Transport) -> None:
        """A server that is away is asked for every five seconds at the latest, and is no burden when it is back."""
        away = [slam] * 8 * 2  # aiohttp asks a second time by itself
        script.plan(PODS, watch(listed(7)), *away, watch(gone()), watch(listed(9), then=hold))
        async with watching(transport) as watched:
            await watched.restarts("closed", *["disconnected"] * 8, "expired")
            await script.until(lambda: asked(script)[-1] == "everything")
        assert watched.naps.seconds == [0.5, 1.0, 2.0, 4.0, *[5.0] * 5, 0.5]

    async def test_pauses_grow_while_every_connection_breaks(self, script: ApiScript, transport: Transport) -> None:
        """A server that answers and breaks off is in trouble, not away."""
        script.plan(PODS, *[watch(added("a"), then=abort)] * 6)
        async with watching(transport) as watched:
            await watched.restarts(*["disconnected"] * 6)
        assert watched.naps.seconds == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]

    async def test_server_is_left_alone_as_long_as_it_asks(self, script: ApiScript, transport: Transport) -> None:
        """A 429 with Retry-After is heeded, and never counts against the place."""
        busy = refuses(429, "TooManyRequests", headers={"Retry-After": "7"})
        script.plan(PODS, watch(listed(7)), *[busy] * 8, watch(added("a", version=9), then=hold))
        async with watching(transport) as watched:
            await watched.tells("seen", "/a", "uid-a")
        assert watched.naps.seconds[1:] == [7.0, 7.0, 7.0, 8.0, 16.0, 30.0, 30.0, 30.0]
        assert asked(script)[1:] == ["after 7"] * 9
        assert set(watched.observer.restarts[1:]) == {"throttled"}

    async def test_missing_right_is_named(self, script: ApiScript, transport: Transport) -> None:
        """A 403 is logged with the verb and the resource that the ClusterRole lacks, and tried again."""
        message = 'pods is forbidden: User "muster" cannot watch resource "pods" in API group "" at the cluster scope'
        script.plan(PODS, refuses(403, "Forbidden", message), watch(listed(7), then=hold))
        with capture_logs() as logs:
            async with watching(transport) as watched:
                await watched.tells("synced")
        (entry,) = [entry for entry in logs if entry["log_level"] == "error"]
        assert (entry["kind"], entry["verb"]) == ("pods", "watch")
        assert message in entry["answer"]
        assert "ClusterRole" in entry["event"]
        assert watched.observer.restarts == ["forbidden"]

    async def test_missing_right_to_list_is_named(self, script: ApiScript, transport: Transport) -> None:
        """Where pages are listed, the verb that is missing is `list`."""
        script.plan(PODS, NO_WATCH_LIST, refuses(403, "Forbidden"), says(page(version=7)))
        with capture_logs() as logs:
            async with watching(transport) as watched:
                await watched.tells("synced")
        assert [entry["verb"] for entry in logs if entry["log_level"] == "error"] == ["list"]

    async def test_unknown_credentials_are_tried_again(self, script: ApiScript, transport: Transport) -> None:
        """A 401 that fresh credentials do not cure is retried: they may be on their way."""
        script.plan(PODS, *[refuses(401, "Unauthorized")] * 2, watch(listed(7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert watched.observer.restarts == ["forbidden"]


class TestOptionalKinds:
    """APIs that need not be installed."""

    async def test_missing_api_counts_as_empty(self, script: ApiScript, transport: Transport) -> None:
        """A 404 makes an optional kind synced, without a restart, and it is looked for again every 30 seconds."""
        script.plan(PODS, *[says("404 page not found\n", 404)] * 3, watch(added("a"), listed(7), then=hold))
        async with watching(transport, optional=True) as watched:
            await watched.tells("seen", "/a", "uid-a")
            await script.until(lambda: len(script.of(PODS)) == 4)
        assert watched.told[:2] == [("synced",), ("seen", "/a", "uid-a")]
        assert watched.naps.seconds == [30.0, 30.0, 30.0]
        assert watched.observer.restarts == []
        assert watched.observer.heard_of >= 3

    async def test_removed_api_takes_its_objects_along(self, script: ApiScript, transport: Transport) -> None:
        """When the API of an optional kind goes away, its objects are gone; when it comes back, it is listed."""
        script.plan(
            PODS,
            watch(added("a"), listed(7)),
            refuses(404, "NotFound", "the server could not find the requested resource"),
            watch(added("b"), listed(9), then=hold),
        )
        async with watching(transport, optional=True) as watched:
            await watched.tells("seen", "/b", "uid-b")
        before, after = [("seen", "/a", "uid-a"), ("synced",)], [("gone", "/a", "uid-a"), ("seen", "/b", "uid-b")]
        assert watched.told[:4] == before + after
        assert asked(script) == ["everything", "after 7", "everything"]

    async def test_older_version_is_asked_for_before_an_api_counts_as_missing(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """An older version is watched where only that is served, without a pause; without any all are tried again."""
        script.plan(PODS, refuses(404, "NotFound"), refuses(404, "NotFound"))
        script.plan(OLD, refuses(404, "NotFound"), refuses(404, "NotFound"))
        script.plan(OLDEST, refuses(404, "NotFound"), watch(added("a"), listed(7), then=hold))
        async with watching(transport, optional=True, older=(OLD, OLDEST)) as watched:
            await watched.tells("seen", "/a", "uid-a")
        assert [request.path for request in script.requests] == [PODS, OLD, OLDEST] * 2
        assert watched.naps.seconds == [30.0]

    async def test_objects_outlive_the_version_by_which_they_were_read(
        self, script: ApiScript, transport: Transport
    ) -> None:
        """When an upgrade drops one version for another, the watch goes on from where it was."""
        script.plan(PODS, refuses(404, "NotFound"), watch(added("b", version=8), then=hold))
        script.plan(OLD, watch(added("a"), listed(7)), refuses(404, "NotFound"))
        async with watching(transport, optional=True, older=(OLD,)) as watched:
            await watched.tells("seen", "/b", "uid-b")
        assert watched.told == [("seen", "/a", "uid-a"), ("synced",), ("seen", "/b", "uid-b")]
        assert script.requests[-1].query["resourceVersion"] == "7"

    async def test_missing_api_of_a_needed_kind_is_no_empty_one(self, script: ApiScript, transport: Transport) -> None:
        """A kind that every cluster has is never taken for empty because of a 404."""
        script.plan(PODS, refuses(404, "NotFound"), watch(added("a"), listed(7), then=hold))
        async with watching(transport) as watched:
            await watched.tells("synced")
        assert watched.told == [("seen", "/a", "uid-a"), ("synced",)]
        assert watched.observer.restarts == ["refused"]


class TestEventLoop:
    """Sharing the loop with the verbs."""

    @pytest.mark.parametrize("in_pages", [False, True])
    async def test_others_get_their_turn_while_a_list_comes_in(
        self, script: ApiScript, transport: Transport, *, in_pages: bool
    ) -> None:
        """No more than 20 objects are taken in between two turns of the event loop."""
        names = [f"pod-{number}" for number in range(1000)]
        if in_pages:
            script.plan(PODS, NO_WATCH_LIST, says(page(*map(named, names), version=7)))
        else:
            script.plan(PODS, watch(b"".join(line(added(name)) for name in names), listed(7), then=hold))
        seen_at_once = []

        async def others() -> None:
            before = 0
            while True:
                seen_at_once.append(len(watched.told) - before)
                before = len(watched.told)
                await asyncio.sleep(0)

        async with watching(transport) as watched:
            bystander = asyncio.create_task(others())
            await watched.tells("synced")
            bystander.cancel()
        assert len(watched.told) == 1001
        assert max(seen_at_once) <= 20 + len(["synced"])


class TestRestore:
    """An API server whose etcd was restored to an older state."""

    async def test_place_that_is_yet_to_come_is_given_up(self, script: ApiScript, transport: Transport) -> None:
        """A watch does not resume from where the server is not: all is listed, and what was not yet there is gone."""
        script.plan(
            PODS,
            watch(added("a", version=3), added("b", version=6), listed(7), then=abort),
            watch(added("a", version=3), listed(5), modified("a", version=6), then=hold),
        )
        script.version = 5
        with capture_logs() as logs:
            async with watching(transport) as watched:
                await watched.observer.until(lambda: len(watched.told) == 7)
        assert asked(script) == ["everything", "everything"]
        assert watched.told[3:] == [
            ("seen", "/a", "uid-a"),
            ("gone", "/b", "uid-b"),
            ("synced",),
            ("seen", "/a", "uid-a"),
        ]
        assert watched.observer.restarts == ["disconnected", "rewound"]
        (warning,) = [log for log in logs if "older state" in log["event"]]
        assert (warning["version"], warning["seen"]) == ("5", "7")

    async def test_version_that_goes_back_is_noticed_in_a_watch(self, script: ApiScript, transport: Transport) -> None:
        """Whatever comes with a version before the place: all is listed again."""
        script.plan(
            PODS,
            watch(added("a", version=3), listed(7), bookmark(6), then=hold),
            watch(added("a", version=3), listed(6), then=hold),
        )
        async with watching(transport):
            await script.until(lambda: len(script.of(PODS)) == 2)
        assert asked(script) == ["everything", "everything"]

    async def test_place_that_the_server_has_is_resumed(self, script: ApiScript, transport: Transport) -> None:
        """A server that is where the watch was, or further, is asked for what came since."""
        script.version = 7
        script.plan(PODS, watch(added("a", version=3), listed(7), then=abort), watch(then=hold))
        async with watching(transport):
            await script.until(lambda: len(script.of(PODS)) == 2)
        assert asked(script) == ["everything", "after 7"]
