{{/* Labels of every object, those of the kustomize base first. */}}
{{- define "muster.labels" -}}
app.kubernetes.io/part-of: muster
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end }}

{{/*
What the names of objects begin with. Not the Lease's, by which the command line finds the pod that leads, nor the labels'.
*/}}
{{- define "muster.fullname" -}}
{{- .Values.fullnameOverride | default .Values.nameOverride | default "muster" }}
{{- end }}

{{/* A name of manifests/ as this release has it. (dict "root" $ "name" "muster:lease-reader") */}}
{{- define "muster.named" -}}
{{- regexReplaceAll "^muster\\b" .name (include "muster.fullname" .root) }}
{{- end }}

{{/* Labels by which pods are found. */}}
{{- define "muster.selector" -}}
app.kubernetes.io/name: muster
{{- end }}

{{/*
The text of a file of manifests/. In a checkout it is a symbolic link, which Helm follows; a package holds the file itself.
  (dict "root" $ "file" "files/rbac.yaml" "with" "kind")
*/}}
{{- define "muster.file" -}}
{{- $text := .root.Files.Get .file }}
{{- if not (contains .with $text) }}
{{- fail (printf "%s is no copy of a file of manifests/: the checkout lost its symbolic links (git config core.symlinks true), install the package that `helm package` makes of a whole one" .file) }}
{{- end }}
{{- $text }}
{{- end }}

{{/*
The objects of a file, in the release's namespace and with its names and labels. The files are those of manifests/, whose
namespace is muster-system, and whose policies know the scheduler muster.
  (dict "root" $ "file" "files/rbac.yaml" "annotations" (dict))
*/}}
{{- define "muster.objects" -}}
{{- $labels := include "muster.labels" .root | fromYaml }}
{{- $text := include "muster.file" (dict "root" .root "file" .file "with" "kind: ") | replace "muster-system" .root.Release.Namespace }}
{{- $schedulers := .root.Values.schedulerNames }}
{{- $text = $text | replace "['muster']" (printf "['%s']" (join "', '" $schedulers)) | replace "'muster'" (squote (first $schedulers)) }}
{{- range $document := splitList "\n---\n" $text }}
{{- $object := fromYaml $document }}
{{- if ne $object.kind "CustomResourceDefinition" }}
{{- $accounts := list }}
{{- if eq $object.kind "FlowSchema" }}
{{- range $rule := $object.spec.rules }}
{{- range $rule.subjects }}
{{- $accounts = append $accounts .serviceAccount }}
{{- end }}
{{- end }}
{{- end }}
{{- range $named := concat (list $object.metadata) ($object.subjects | default list) (compact (list $object.roleRef)) $accounts }}
{{- $_ := set $named "name" (include "muster.named" (dict "root" $.root "name" $named.name)) }}
{{- end }}
{{- with (dig "spec" "policyName" "" $object) }}
{{- $_ := set $object.spec "policyName" (include "muster.named" (dict "root" $.root "name" .)) }}
{{- end }}
{{- end }}
{{- $_ := set $object.metadata "labels" (merge (dict) ($object.metadata.labels | default dict) ($.labels | default dict) $labels) }}
{{- with $.annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) . ($object.metadata.annotations | default dict)) }}
{{- end }}
---
{{ toYaml $object }}
{{- end }}
{{- end }}

{{/* What `helm uninstall` leaves in place. */}}
{{- define "muster.crdAnnotations" -}}
{{- if .Values.crds.keep }}
helm.sh/resource-policy: keep
{{- end }}
{{- end }}

{{/* The ServiceAccount of the pods: with the rights of a kube-scheduler only where one is in them. */}}
{{- define "muster.account" -}}
{{- include "muster.fullname" . }}{{ if .Values.kubeScheduler.enabled }}-scheduler{{ end }}
{{- end }}

{{/* Not empty where a Service for readers follows the replica that leads. */}}
{{- define "muster.readService" -}}
{{- if and .Values.view.enabled .Values.view.readService (gt (int .Values.replicas) 1) }}yes{{ end }}
{{- end }}

{{/* Muster's image. */}}
{{- define "muster.image" -}}
{{- if .Values.image.digest }}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest }}
{{- else }}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) }}
{{- end }}
{{- end }}

{{/* kube-scheduler's image; a cluster's version may have a provider's suffix: v1.36.2-eks-1a2b3c4. */}}
{{- define "muster.kubeSchedulerImage" -}}
{{- $tag := .Values.kubeScheduler.image.tag | default (regexFind "^v[0-9]+\\.[0-9]+\\.[0-9]+" .Capabilities.KubeVersion.Version) }}
{{- printf "%s:%s" .Values.kubeScheduler.image.repository $tag }}
{{- end }}

{{/* The settings file: .Values.settings with what the chart itself decides. Empty if all is as by default. */}}
{{- define "muster.settings" -}}
{{- $settings := deepCopy .Values.settings }}
{{- if not .Values.dashboard }}
{{- $_ := set $settings "dashboard" false }}
{{- end }}
{{- if and (ne .Release.Namespace "muster-system") (not (hasKey $settings "calibration_config_map")) }}
{{- $_ := set $settings "calibration_config_map" (printf "%s/muster-calibration" .Release.Namespace) }}
{{- end }}
{{- if .Values.history.enabled }}
{{- $_ := set $settings "history_store" (.Values.history.postgresql | default "/var/lib/muster/history.db") }}
{{- end }}
{{- if $settings }}
{{- toYaml $settings }}
{{- end }}
{{- end }}

{{/* The volume of the history's file, as in a pod; empty if there is none. */}}
{{- define "muster.historyVolume" -}}
{{- if .Values.history.volume }}
{{- toYaml .Values.history.volume }}
{{- else if include "muster.historyClaim" . }}
{{- toYaml (dict "persistentVolumeClaim" (dict "claimName" (include "muster.historyClaim" .))) }}
{{- end }}
{{- end }}

{{/* The claim that the chart makes for the history; empty if it makes none. */}}
{{- define "muster.historyClaim" -}}
{{- if and .Values.history.enabled (not .Values.history.postgresql) (not .Values.history.volume) }}
{{- include "muster.fullname" . }}-history
{{- end }}
{{- end }}

{{/* Ten characters that differ where a text differs: a ConfigMap that changes has another name, which rolls the pods. */}}
{{- define "muster.hash" -}}
{{- sha256sum . | trunc 10 }}
{{- end }}

{{- define "muster.schedulerConfigName" -}}
{{ include "muster.fullname" . }}-scheduler-config-{{ include "muster.schedulerConfig" . | include "muster.hash" }}
{{- end }}

{{- define "muster.settingsName" -}}
{{ include "muster.fullname" . }}-settings-{{ include "muster.settings" . | include "muster.hash" }}
{{- end }}

{{/* How long bind may be held, and how long kube-scheduler waits for it, in seconds. */}}
{{- define "muster.bindHold" -}}
{{- .Values.settings.bind_hold_seconds | default 20 }}
{{- end }}
{{- define "muster.httpTimeout" -}}
{{- .Values.settings.http_timeout_seconds | default 30 }}
{{- end }}

{{/* Refuse values that contradict each other, which a schema cannot say in words. */}}
{{- define "muster.check" -}}
{{- $hold := include "muster.bindHold" . | float64 }}
{{- $timeout := include "muster.httpTimeout" . | float64 }}
{{- if ge $hold $timeout }}
{{- fail (printf "settings.bind_hold_seconds (%v) must be below settings.http_timeout_seconds (%v), or kube-scheduler gives up on binds that Muster still holds" $hold $timeout) }}
{{- end }}
{{- with .Values.history }}
{{- if and .enabled $.Values.settings.history_store }}
{{- fail "history.enabled sets settings.history_store: leave one of the two out" }}
{{- end }}
{{- if and .postgresql (not .enabled) }}
{{- fail "history.postgresql says where a history is kept, and none is: set history.enabled: true" }}
{{- end }}
{{- if and .postgresql .volume }}
{{- fail "history.volume is for a file and history.postgresql needs none: leave one of the two out" }}
{{- end }}
{{- if and .enabled (not .postgresql) (gt (int $.Values.replicas) 1) }}
{{- fail (printf "history.enabled with %d replicas needs history.postgresql, where both find one history; a file on a volume belongs to one: set replicas: 1" (int $.Values.replicas)) }}
{{- end }}
{{- end }}
{{- if and .Values.onboarding.enabled (semverCompare "<1.36.0-0" .Capabilities.KubeVersion.Version) }}
{{- fail (printf "onboarding.enabled needs Kubernetes 1.36, which serves MutatingAdmissionPolicies, and this is %s" .Capabilities.KubeVersion.Version) }}
{{- end }}
{{- if .Values.kubeScheduler.enabled }}
{{- if has "default-scheduler" .Values.schedulerNames }}
{{- fail "schedulerNames: default-scheduler is the cluster's own kube-scheduler, and two would place the same pods; take another name, or set kubeScheduler.enabled: false and give that kube-scheduler Muster as its extender" }}
{{- end }}
{{- if ge (int .Values.kubeScheduler.leaderElection.renewSeconds) (int .Values.kubeScheduler.leaderElection.leaseSeconds) }}
{{- fail "kubeScheduler.leaderElection: renewSeconds must be below leaseSeconds" }}
{{- end }}
{{- else }}
{{- if not .Values.verbs.tls.secretName }}
{{- fail "verbs.tls.secretName is needed with kubeScheduler.enabled: false: every client of the verbs can place pods, so off loopback they are served over TLS alone" }}
{{- end }}
{{- if ne (int .Values.replicas) 1 }}
{{- fail "replicas must be 1 with kubeScheduler.enabled: false: replicas know by the Lease of the kube-scheduler in their own pod which of them decides" }}
{{- end }}
{{- end }}
{{- $ports := list 10262 (int .Values.verbs.port) }}
{{- if .Values.view.enabled }}
{{- $ports = append $ports (int .Values.view.port) }}
{{- end }}
{{- if .Values.kubeScheduler.enabled }}
{{- $ports = append $ports 10259 }}
{{- end }}
{{- if ne (len $ports) (len (uniq $ports)) }}
{{- fail (printf "view.port and verbs.port must differ from each other and from 10262 (metrics) and 10259 (kube-scheduler): %v" $ports) }}
{{- end }}
{{- end }}
