"""An admission webhook of the tests' own, which the real API server asks about writes and which has its moods."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from localcluster.client import ApiClient, JsonObject, Resource
from localcluster.waiting import wait_until
from tests.kube.certificates import make_certificate, server_context

WEBHOOKS = Resource(
    "admissionregistration.k8s.io/v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)

#: Who writes for Muster here. The webhook is asked about nobody else: kwok writes statuses of pods as well.
MUSTER = "system:serviceaccount:muster-system:muster"

#: What the webhook says when it denies, and by which name the API server calls it.
DENIAL = "not before the audit is over"
NAME = "audit.example.com"

#: How long the API server waits for the webhook (seconds): the least that it allows is one.
TIMEOUT = 2


class WebhookMood(Enum):
    """What the webhook does with what it is asked."""

    ADMIT = "admits"
    DENY = "denies"
    DENY_AS_BAD = "denies without a code"  # to the API server that is a 400
    CONFLICT = "denies with code 409"
    FAIL = "answers 500"
    HANG = "does not answer"


_CONFIGURATION = "audit"
#: What no client here creates but to find out whether the webhook is asked.
_PROBED = "podtemplates"

#: The codes of the moods that deny; without one the API server makes it 400. Source: ToStatusErr in k8s.io/apiserver
#: pkg/admission/plugin/webhook/errors.
_CODES = {WebhookMood.DENY: 403, WebhookMood.DENY_AS_BAD: 0, WebhookMood.CONFLICT: 409}


@dataclass(frozen=True, slots=True)
class Scope:
    """Which of Muster's writes the webhook is asked about.

    `resource` is such as `pods/binding`; `namespace` is the only one whose objects are meant, None for objects that
    have none; `where` narrows that by an expression in CEL about the `request`.
    """

    resource: str
    operation: str
    namespace: str | None
    group: str = ""
    where: str = ""

    def rule(self) -> JsonObject:
        """Return the rule of the configuration."""
        return {
            "apiGroups": [self.group],
            "apiVersions": ["*"],
            "resources": [self.resource],
            "operations": [self.operation],
            "scope": "*",
        }

    def conditions(self) -> list[JsonObject]:
        """Return the matchConditions of the configuration."""
        said = {"by-muster": f'request.userInfo.username == "{MUSTER}"', "where": self.where}
        return [{"name": name, "expression": text} for name, text in said.items() if text]


@dataclass
class Webhook:
    """A webhook that is in force.

    Attributes:
        mood: what it does from now on.
        asked: namespace and name of what it was asked about, in order, in moods other than to admit.
    """

    url: str
    mood: WebhookMood = WebhookMood.ADMIT
    asked: list[tuple[str, str]] = field(default_factory=list)
    release: threading.Event = field(default_factory=threading.Event)
    probed: threading.Event = field(default_factory=threading.Event)

    def answer(self, review: Mapping[str, Any]) -> tuple[int, JsonObject] | None:
        """Return status and body of the answer to an AdmissionReview, None for none within the API server's time."""
        request, mood = review["request"], self.mood
        if request["resource"]["resource"] == _PROBED:
            self.probed.set()
            mood = WebhookMood.ADMIT
        if mood is not WebhookMood.ADMIT:
            self.asked.append((request.get("namespace", ""), request.get("name", "")))
        if mood is WebhookMood.FAIL:
            return 500, {}
        if mood is WebhookMood.HANG:
            self.release.wait(TIMEOUT + 2)
            return None
        response: JsonObject = {"uid": request["uid"], "allowed": mood is WebhookMood.ADMIT}
        if mood in _CODES:
            response["status"] = {"message": DENIAL} | ({"code": _CODES[mood]} if _CODES[mood] else {})
        return 200, {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


@contextmanager
def webhook(api: ApiClient, folder: Path, scopes: Sequence[Scope], *, policy: str = "Fail") -> Iterator[Webhook]:
    """Have the API server ask a webhook about what the scopes name; it admits all until its mood changes."""
    certificate = make_certificate(folder, "webhook")
    found: list[Webhook] = []

    class Handler(BaseHTTPRequestHandler):
        """Ask the webhook."""

        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            """Answer an AdmissionReview."""
            said = found[0].answer(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            if said is None:
                self.close_connection = True
                return
            status, body = said[0], json.dumps(said[1]).encode()
            with suppress(OSError):
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = server_context(certificate).wrap_socket(server.socket, server_side=True)
    found.append(Webhook(f"https://127.0.0.1:{server.server_port}/"))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    bundle = base64.b64encode(certificate.certificate.read_bytes()).decode()
    try:
        api.create(_configuration(found[0].url, bundle, scopes, policy))
        wait_until(lambda: _is_asked(api, found[0]), timeout_seconds=10, description="the webhook is asked")
        yield found[0]
    finally:
        found[0].mood = WebhookMood.ADMIT
        found[0].release.set()
        api.delete(WEBHOOKS, _CONFIGURATION)
        wait_until(lambda: not _is_asked(api, found[0]), timeout_seconds=10, description="the webhook is not asked")
        server.shutdown()
        server.server_close()
        thread.join()


def _configuration(url: str, bundle: str, scopes: Sequence[Scope], policy: str) -> JsonObject:
    """Return the ValidatingWebhookConfiguration: a webhook for each scope, and one to find out that it is asked."""
    shared = {
        "clientConfig": {"url": url, "caBundle": bundle},
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": policy,
        "timeoutSeconds": TIMEOUT,
    }
    probe = {"apiGroups": [""], "apiVersions": ["v1"], "resources": [_PROBED], "operations": ["CREATE"]}
    webhooks: list[JsonObject] = [shared | {"name": f"probe.{NAME}", "rules": [probe]}]
    for scope in scopes:
        name = scope.resource.replace("/", "-")
        asked = shared | {"name": f"{name}.{NAME}", "rules": [scope.rule()], "matchConditions": scope.conditions()}
        if scope.namespace is not None:
            asked["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": scope.namespace}}
        webhooks.append(asked)
    return {
        "apiVersion": WEBHOOKS.api_version,
        "kind": WEBHOOKS.kind,
        "metadata": {"name": _CONFIGURATION},
        "webhooks": webhooks,
    }


def _is_asked(api: ApiClient, hook: Webhook) -> bool:
    """Create what is not kept, and tell whether the webhook was asked about it."""
    hook.probed.clear()
    pod = {"metadata": {}, "spec": {"containers": [{"name": "main", "image": "none"}]}}
    body = {"apiVersion": "v1", "kind": "PodTemplate", "metadata": {"name": "probe"}, "template": pod}
    api.request("POST", "/api/v1/namespaces/default/podtemplates", body=body, query={"dryRun": "All"})
    return hook.probed.is_set()
