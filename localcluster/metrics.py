"""Read Muster's metrics, as Prometheus would."""

import re

import httpx

#: How long Muster may take to answer with its metrics, in seconds.
METRICS_TIMEOUT_SECONDS = 5.0


def read_metric(url: str, series: str) -> float:
    """Return one series, labels included, of the metrics at `url`; 0 where it does not exist yet."""
    text = httpx.get(url, timeout=METRICS_TIMEOUT_SECONDS, trust_env=False).text
    line = re.search(rf"^{re.escape(series)} (\S+)$", text, re.MULTILINE)
    return 0.0 if line is None else float(line[1])
