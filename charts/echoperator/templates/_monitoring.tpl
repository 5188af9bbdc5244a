{{/*
Which ServiceMonitors the chart creates: `always`, `auto` or `never`. Values in metrics take precedence over those in monitoring, which
are the original chart's.
*/}}
{{- define "echoperator.serviceMonitorMode" -}}
{{- $enabled := toString .Values.metrics.serviceMonitor.enabled -}}
{{- if not .Values.monitoring.enabled }}never
{{- else if eq $enabled "true" }}always
{{- else if eq $enabled "false" }}never
{{- else }}{{ .Values.monitoring.serviceMonitor | default "auto" }}
{{- end }}
{{- end }}

{{/*
Not empty if the chart creates ServiceMonitors. `auto` creates none where that would fail: the cluster does not serve the kind, or
lacks the namespace, or with scope.namespaced it is not the release's, in which who installs the release may create nothing. Nor does it
if there are PodMonitors, because Prometheus would scrape the same metrics twice.
*/}}
{{- define "echoperator.hasServiceMonitor" -}}
{{- $mode := include "echoperator.serviceMonitorMode" . -}}
{{- if eq $mode "always" }}true{{ end }}
{{- if and (eq $mode "auto") (not .Values.metrics.podMonitor.enabled) (include "echoperator.servesServiceMonitors" .) (not (include "echoperator.monitorsElsewhere" .)) (not (include "echoperator.lacksNamespaceOf" (list . .Values.metrics.serviceMonitor))) }}true{{ end }}
{{- end }}

{{/* Not empty if the namespace of the ServiceMonitors is outside of the namespaces of a release with scope.namespaced. */}}
{{- define "echoperator.monitorsElsewhere" -}}
{{- if and .Values.scope.namespaced (ne .Release.Namespace (include "echoperator.monitorNamespace" (list . .Values.metrics.serviceMonitor))) }}true{{ end }}
{{- end }}

{{/* Not empty if the chart creates PodMonitors. */}}
{{- define "echoperator.hasPodMonitor" -}}
{{- if and .Values.monitoring.enabled .Values.metrics.podMonitor.enabled (not (include "echoperator.lacksNamespaceOf" (list . .Values.metrics.podMonitor))) }}true{{ end }}
{{- end }}

{{/* Not empty if the cluster serves the kind ServiceMonitor. */}}
{{- define "echoperator.servesServiceMonitors" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor" }}true{{ end }}
{{- end }}

{{/*
Not empty if Helm can see that the namespace of the objects of a group in metrics does not exist: (list . .Values.metrics.podMonitor).
Without a cluster (`helm template`) `lookup` finds nothing, not even kube-system, which every cluster has. Then the chart assumes that
the namespace exists, as it does with scope.namespaced, because who installs the release may not read namespaces. The default values
need no lookup.
*/}}
{{- define "echoperator.lacksNamespaceOf" -}}
{{- $context := first . -}}
{{- $namespace := include "echoperator.monitorNamespace" . }}
{{- if and (ne $namespace $context.Release.Namespace) (not $context.Values.scope.namespaced) (lookup "v1" "Namespace" "" "kube-system") (not (lookup "v1" "Namespace" "" $namespace)) }}true{{ end }}
{{- end }}

{{/* The namespace of the objects of a group in metrics: (list . .Values.metrics.podMonitor). */}}
{{- define "echoperator.monitorNamespace" -}}
{{- $context := first . -}}
{{- (index . 1).namespace | default $context.Values.monitoring.namespace | default $context.Release.Namespace }}
{{- end }}

{{/*
The monitors that the values ask for: (list . "name" labels serviceLabels podLabels endpoint), where the last four are YAML. A
ServiceMonitor selects the Service in the release's namespace by its labels, a PodMonitor the pods.
*/}}
{{- define "echoperator.monitors" -}}
{{- $context := first . -}}
{{- $kinds := list -}}
{{- if include "echoperator.hasServiceMonitor" $context }}{{ $kinds = append $kinds "ServiceMonitor" }}{{ end -}}
{{- if include "echoperator.hasPodMonitor" $context }}{{ $kinds = append $kinds "PodMonitor" }}{{ end -}}
{{- range $kind := $kinds }}
{{- $monitor := get $context.Values.metrics (untitle $kind) }}
---
apiVersion: monitoring.coreos.com/v1
kind: {{ $kind }}
metadata:
  name: {{ include "echoperator.nameOutside" (list $context (index $ 1)) | quote }}
  namespace: {{ include "echoperator.monitorNamespace" (list $context $monitor) | quote }}
  labels:
    {{- mustMergeOverwrite (index $ 2 | fromYaml) ($monitor.labels | default $context.Values.monitoring.labels) | toYaml | nindent 4 }}
  {{- with $context.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  namespaceSelector:
    matchNames:
      - {{ $context.Release.Namespace | quote }}
  selector:
    matchLabels:
      {{- ternary (index $ 3) (index $ 4) (eq $kind "ServiceMonitor") | nindent 6 }}
  {{ ternary "endpoints" "podMetricsEndpoints" (eq $kind "ServiceMonitor") }}:
    - {{ index $ 5 | indent 6 | trim }}
      interval: {{ $monitor.interval | default $context.Values.monitoring.interval | quote }}
      {{- with $monitor.scrapeTimeout }}
      scrapeTimeout: {{ . | quote }}
      {{- end }}
      {{- with $monitor.relabelings }}
      relabelings:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      {{- with $monitor.metricRelabelings }}
      metricRelabelings:
        {{- toYaml . | nindent 8 }}
      {{- end }}
{{- end }}
{{- end }}
