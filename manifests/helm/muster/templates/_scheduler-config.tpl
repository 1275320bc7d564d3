{{/* scheduler-config/muster.yaml, with what values change. A test compares the two. */}}
{{- define "muster.schedulerConfig" -}}
# kube-scheduler with Muster as its extender. Extenders belong to a kube-scheduler process, not to a profile, so run a
# second kube-scheduler with this file beside the cluster's own; only pods with `schedulerName: muster` come here.
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration

# Two of these would place the same pods: the one without the Lease stands by. The Muster beside it watches the
# same Lease (--scheduler-lease) and acts only while its kube-scheduler holds it.
leaderElection:
  leaderElect: true
  resourceName: muster
  resourceNamespace: {{ .Release.Namespace }}
  # How long after a crash the other replica waits. kube-scheduler's default is 15 s. Shorter, and a hiccup of the API
  # server as long as renewDeadline restarts the active kube-scheduler, which costs gangs in flight another attempt.
  leaseDuration: {{ .Values.kubeScheduler.leaderElection.leaseSeconds }}s
  renewDeadline: {{ .Values.kubeScheduler.leaderElection.renewSeconds }}s
  # Seven writes a second by the active one. The other one looks every one to 2.2 of it: so late it sees a renewal, and
  # that there are no more.
  retryPeriod: 150ms

clientConnection:
  # The defaults (50 and 100) would be the slowest part of a gang's start: every bind, event and status is a request.
  qps: {{ .Values.kubeScheduler.clientConnection.qps }}
  burst: {{ .Values.kubeScheduler.clientConnection.burst }}

# Offer every feasible node. By default kube-scheduler stops looking after a part of a large cluster, and the node that
# Muster planned for a gang member may be in the other part.
percentageOfNodesToScore: 100

profiles:
  # The name that pods put into spec.schedulerName. Muster must be told the same (its setting scheduler_names).
  {{- range $name := .Values.schedulerNames }}
  - schedulerName: {{ $name }}
  {{- with $.Values.kubeScheduler.profile }}
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- end }}

extenders:
  # Loopback: the protocol has no token, so every client of this port can place pods. The two run in one pod.
  - urlPrefix: http://127.0.0.1:{{ .Values.verbs.port }}/v1
    # filter refuses members of waiting gangs and pins the others to their planned node.
    filterVerb: filter
    # prioritize ranks nodes for single pods, if Muster's setting single_pods is ranked; a pinned pod never gets that far.
    prioritizeVerb: prioritize
    # bind is held until enough members of the gang have arrived; then all are bound at once.
    bindVerb: bind
    # preempt keeps kube-scheduler from evicting pods one node at a time for a gang that would still not fit.
    preemptVerb: preempt
    # An extender's score counts up to 100 x weight. The scores of the default plugins add up to 1200; the largest single
    # one is 300 (TaintToleration). 5 lets Muster's packing outweigh any one of them, while the preferences that a pod
    # itself states (node and pod affinity, spread, tolerations) still win together.
    weight: 5
    # Send node names only: Muster has its own copy of the nodes. Whole nodes are 8 kB each, 40 MB at 5,000 nodes.
    nodeCacheCapable: true
    # It covers bind, which Muster holds for up to bind_hold_seconds (20 s) while the rest of the gang arrives. The
    # default of 5 s would break gangs up.
    httpTimeout: {{ include "muster.httpTimeout" . }}s
    # Without Muster's answer nothing may start: a gang placed without it may start in part and hold its GPUs for ever.
    ignorable: false
    # No managedResources: with it, pods that ask for none of them, such as a gang's CPU-only launcher, would bypass Muster.
{{- end }}
