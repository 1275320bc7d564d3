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
        seen = []
        while time.monotonic() - began < 75:
            cond = (gang.condition() or {})
            now = (cond.get("reason"), cond.get("message"), [ (p.object or {}).get("status",{}).get("conditions",[{}])[0].get("message","") for p in gang.members], gang.messages)
            if not seen or seen[-1] != now:
                seen.append(now)
                print(round(time.monotonic()-began,1), now, flush=True)
            time.sleep(0.25)
        print(len(hook.asked))
        hook.mood = WebhookMood.ADMIT
        print("whole", gang.wait_bound(4, timeout=90))
    muster.check()
