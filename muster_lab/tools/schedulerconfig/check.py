"""From the text of a file to findings: find the configurations in it and hold each against the rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from extender.strictyaml import DocumentError, load_documents
from muster_lab.tools.schedulerconfig.document import SchedulerConfiguration
from muster_lab.tools.schedulerconfig.extenders import check_extenders, find_muster
from muster_lab.tools.schedulerconfig.finding import Expectations, Finding, Severity, error, read_struct, warning
from muster_lab.tools.schedulerconfig.process import check_process
from muster_lab.tools.schedulerconfig.profiles import check_profiles

KIND = "KubeSchedulerConfiguration"
API_VERSION = "kubescheduler.config.k8s.io/v1"


class NoConfigurationError(ValueError):
    """A text without a KubeSchedulerConfiguration that could be read; the message says why."""


@dataclass(frozen=True, slots=True)
class Checked:
    """A configuration that was found, where it stands in the file ("" if alone), and its findings, errors first."""

    where: str
    findings: tuple[Finding, ...]

    @property
    def errors(self) -> int:
        """Count the findings that break gangs."""
        return sum(finding.severity is Severity.ERROR for finding in self.findings)


def check_text(text: str, expected: Expectations) -> list[Checked]:
    """Check every configuration in a YAML text, those that ConfigMaps wrap included.

    Raises NoConfigurationError if the text cannot be read, or holds none.
    """
    try:
        documents = [document for document in load_documents(text) if document is not None]
    except DocumentError as failure:
        raise NoConfigurationError(str(failure)) from failure
    found = [item for index, document in enumerate(documents) for item in _configurations(index, document)]
    if not found and len(documents) == 1 and _looks_like_one(documents[0]):
        found = [_Found("", documents[0], 0)]
    if not found:
        kinds = ", ".join(_kind(document) for document in documents) or "nothing"
        msg = f"holds no {KIND}, and no ConfigMap with one; found: {kinds}"
        raise NoConfigurationError(msg)
    alone = len(documents) == 1
    return [Checked("" if alone and not item.key else item.where, _check(item, expected)) for item in found]


@dataclass(frozen=True, slots=True)
class _Found:
    """A configuration and its place: which ConfigMap key (if any), and which document of its own file."""

    key: str
    value: object
    position: int
    outer: int = 0

    @property
    def where(self) -> str:
        """Name the place for people."""
        if self.key:
            return f"document {self.outer + 1}, {self.key}"
        return f"document {self.position + 1}"


def _configurations(index: int, document: object) -> Iterator[_Found]:
    """Yield the configurations that a document is, or wraps."""
    if not isinstance(document, dict):
        return
    if document.get("kind") == KIND:
        yield _Found("", document, index)
    data = document.get("data")
    if document.get("kind") != "ConfigMap" or not isinstance(data, dict):
        return
    for key, text in data.items():
        if not isinstance(text, str) or KIND not in text:
            continue
        try:
            inner = [item for item in load_documents(text) if item is not None]
        except DocumentError as failure:
            msg = f"document {index + 1}, data[{key}]: {failure}"
            raise NoConfigurationError(msg) from failure
        for position, item in enumerate(inner):
            if isinstance(item, dict) and item.get("kind") == KIND:
                yield _Found(f"data[{key}]", item, position, outer=index)


def _check(found: _Found, expected: Expectations) -> tuple[Finding, ...]:
    """Return a configuration's findings, errors first, else in the order of the rules."""
    findings: list[Finding] = []
    config = read_struct(SchedulerConfiguration, found.value, "", findings)
    if config.kind != KIND:
        findings.append(error("kind", "kube-scheduler refuses to start", KIND))
    if config.api_version != API_VERSION:
        told = f"{config.api_version} is gone; " if config.api_version else "is missing; "
        findings.append(error("apiVersion", f"{told}kube-scheduler refuses to start", API_VERSION))
    if found.position > 0:
        problem = "kube-scheduler reads only the first document of its file"
        findings.append(warning("", problem, "a file of its own"))
    extenders = config.extenders or []
    findings += check_extenders(extenders, expected)
    if find_muster(extenders, expected.port):  # without Muster the rest is another scheduler's affair
        findings += check_profiles(config, expected)
        findings += check_process(config, expected)
    return tuple(sorted(findings, key=lambda finding: finding.severity is not Severity.ERROR))


def _looks_like_one(document: object) -> bool:
    """Tell whether a mapping without the kind is meant to be a configuration."""
    return isinstance(document, dict) and bool({"extenders", "profiles"} & document.keys())


def _kind(document: object) -> str:
    return str(document.get("kind", "a mapping without kind")) if isinstance(document, dict) else "no mapping"
