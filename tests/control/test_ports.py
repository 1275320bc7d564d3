"""What the outside tells Muster."""

from __future__ import annotations

import pytest

from extender.control.ports import ApiError

MISSING_RIGHT = (
    'pods "job-0" is forbidden: User "system:serviceaccount:muster-system:muster" cannot create resource '
    '"pods/binding" in API group "" in the namespace "default"'
)
TERMINATING = 'events "job.1" is forbidden: unable to create new content in namespace a because it is being terminated'
DENIED = 'pods "job-0" is forbidden: exceeded quota: gpus, requested: pods=1, used: pods=4, limited: pods=4'


@pytest.mark.parametrize(
    ("status", "message", "transient"),
    [
        (0, "connection refused", True),
        (429, "too many requests", True),
        (500, "etcdserver: leader changed", True),
        (503, "shutting down", True),
        (401, "Unauthorized", True),
        (403, MISSING_RIGHT, True),
        (403, TERMINATING, False),
        (403, DENIED, False),
        (404, "not found", False),
        (409, "conflict", False),
        (422, "invalid", False),
    ],
)
def test_what_may_succeed_later_is_transient(status: int, message: str, *, transient: bool) -> None:
    """No answer, overload, errors of the server, rights that it does not know yet; a plugin's denial is final."""
    assert ApiError(status, "Reason", message).transient is transient


@pytest.mark.parametrize(
    ("status", "message", "outdated", "at_webhook"),
    [
        (404, 'pods "a" not found', True, False),
        (409, "the object has been modified", True, False),
        (409, 'admission webhook "audit.example.com" denied the request: not now', False, False),
        (500, 'failed calling webhook "audit.example.com": connection refused', False, True),
        (500, "etcdserver: request timed out", False, False),
    ],
)
def test_a_webhook_is_told_from_the_api_server_itself(
    status: int, message: str, *, outdated: bool, at_webhook: bool
) -> None:
    """What a webhook denies is not outdated, whatever its status; one that fails says nothing of the API server."""
    error = ApiError(status, "Reason", message)
    assert (error.outdated, error.at_webhook) == (outdated, at_webhook)
