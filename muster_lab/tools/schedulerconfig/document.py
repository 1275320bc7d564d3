"""Structs of the KubeSchedulerConfiguration (kubescheduler.config.k8s.io/v1), as far as its fields are known.

kube-scheduler decodes the file strictly: a field that is not listed here makes it refuse to start, so every field of
the Go types is listed, read here or not. The defaults are those that kube-scheduler fills in.
Source: k8s.io/kube-scheduler/config/v1 types.go and k8s.io/component-base/config/v1alpha1 types.go, release 1.37.
"""

from __future__ import annotations

from typing import Any

from msgspec import Struct, field


class ManagedResource(Struct, frozen=True, rename="camel"):
    """A resource that decides which pods the extender is asked about."""

    name: str = ""
    ignored_by_scheduler: bool = False


class ExtenderTls(Struct, frozen=True, rename="camel"):
    """How kube-scheduler speaks TLS with the extender; data is PEM in base64 and goes before the file."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class Extender(Struct, frozen=True, rename="camel"):
    """An HTTP extender. An absent httpTimeout is 5 s (DefaultExtenderTimeout)."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = field(default=False, name="enableHTTPS")
    tls_config: ExtenderTls | None = None
    http_timeout: str = field(default="", name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: list[ManagedResource] | None = None
    ignorable: bool = False


class PluginName(Struct, frozen=True, rename="camel"):
    """A plugin at an extension point."""

    name: str = ""
    weight: int | None = None


class PluginSet(Struct, frozen=True, rename="camel"):
    """What is added to and taken from the default plugins of an extension point; `*` in `disabled` takes all."""

    enabled: list[PluginName] | None = None
    disabled: list[PluginName] | None = None


class Plugins(Struct, frozen=True, rename="camel"):
    """The extension points; `multi_point` stands for all that a plugin implements."""

    pre_enqueue: PluginSet | None = None
    queue_sort: PluginSet | None = None
    pre_filter: PluginSet | None = None
    filter: PluginSet | None = None
    post_filter: PluginSet | None = None
    pre_score: PluginSet | None = None
    score: PluginSet | None = None
    reserve: PluginSet | None = None
    permit: PluginSet | None = None
    pre_bind: PluginSet | None = None
    bind: PluginSet | None = None
    post_bind: PluginSet | None = None
    multi_point: PluginSet | None = None
    placement_generate: PluginSet | None = None
    placement_score: PluginSet | None = None
    pod_group_post_filter: PluginSet | None = None


class PluginConfig(Struct, frozen=True, rename="camel"):
    """Arguments of a plugin; their form is the plugin's affair."""

    name: str = ""
    args: Any = None


class SchedulerProfile(Struct, frozen=True, rename="camel"):
    """A profile: which pods, by spec.schedulerName, and which plugins."""

    scheduler_name: str | None = None
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins | None = None
    plugin_config: list[PluginConfig] | None = None


class LeaderElection(Struct, frozen=True, rename="camel"):
    """Which of several kube-schedulers acts, by a Lease. Durations as Go writes them."""

    leader_elect: bool | None = None
    lease_duration: str = ""
    renew_deadline: str = ""
    retry_period: str = ""
    resource_lock: str = ""
    resource_name: str = ""
    resource_namespace: str = ""


class ClientConnection(Struct, frozen=True, rename="camel"):
    """How kube-scheduler reaches the API server; 0 requests per second mean its defaults, 50 and 100."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = ""
    qps: float = 0.0
    burst: int = 0


class SchedulerConfiguration(Struct, frozen=True, rename="camel"):
    """A KubeSchedulerConfiguration."""

    api_version: str = ""
    kind: str = ""
    parallelism: int | None = None
    leader_election: LeaderElection | None = None
    client_connection: ClientConnection | None = None
    enable_profiling: bool | None = None
    enable_contention_profiling: bool | None = None
    percentage_of_nodes_to_score: int | None = None
    pod_initial_backoff_seconds: int | None = None
    pod_max_backoff_seconds: int | None = None
    profiles: list[SchedulerProfile] | None = None
    extenders: list[Extender] | None = None
    delay_cache_until_active: bool = False
