"""Admission webhooks that deny, fail or hang, on the real API server."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from localcluster.processes import Server
from localcluster.sandbox import Sandbox
from tests.controlplane.admission import Scope, WebhookMood, webhook

pytestmark = [pytest.mark.controlplane, pytest.mark.usefixtures("judged")]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("mood", list(WebhookMood))
def test_x(cluster: Sandbox, muster: Server, tenant: str, other: str, tmp_path: Path, mood: WebhookMood) -> None:
    cluster.nodes(4, gpus=8)
    with webhook(cluster.api, tmp_path, [Scope("pods/binding", "CREATE", tenant)]) as hook:
        hook.mood = mood
        gang = cluster.gang("gang", namespace=tenant, members=4, gpus=8)
        began = time.monotonic()
        seen = None
        late = None
        while time.monotonic() - began < 150:
            if late is None and time.monotonic() - began > 3:
                late = cluster.gang("late", namespace=other, members=2, gpus=8)
            cond = (gang.condition() or {})
            l = late and (late.condition() or {})
            now = (cond.get("reason"), cond.get("message"), len(gang.bound), l and (l.get("reason"), l.get("message"), len(late.bound)),
              [m[:150] for m in gang.messages if not m.startswith("FailedSch")])
            if seen != now:
                seen = now
                print(round(time.monotonic()-began,1), now, flush=True)
            if late and late.whole: break
            time.sleep(0.25)
        print(len(hook.asked))
        hook.mood = WebhookMood.ADMIT
        if late.whole:
            late.delete()
        print("whole", gang.wait_bound(4, timeout=90))
    muster.check()
