{{/*
Not empty if the chart creates ServiceMonitors. `auto` creates none where that would fail: the cluster does not serve the kind, or
lacks the namespace.
*/}}
{{- define "echoperator.hasServiceMonitor" -}}
{{- with .Values.monitoring }}
{{- if and .enabled (eq .serviceMonitor "always") }}true{{ end }}
{{- if and .enabled (eq .serviceMonitor "auto") (include "echoperator.servesServiceMonitors" $) (not (include "echoperator.lacksMonitoringNamespace" $)) }}true{{ end }}
{{- end }}
{{- end }}

{{/* Not empty if the cluster serves the kind ServiceMonitor. */}}
{{- define "echoperator.servesServiceMonitors" -}}
{{- if .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor" }}true{{ end }}
{{- end }}

{{/*
Not empty if Helm can see that monitoring.namespace does not exist. Without a cluster (`helm template`) `lookup` finds nothing, not
even kube-system, which every cluster has. Then the chart assumes that the namespace exists, as it does with scope.namespaced, because
who installs the release may not read namespaces. The default values need no lookup.
*/}}
{{- define "echoperator.lacksMonitoringNamespace" -}}
{{- $namespace := include "echoperator.monitoringNamespace" . }}
{{- if and (ne $namespace .Release.Namespace) (not .Values.scope.namespaced) (lookup "v1" "Namespace" "" "kube-system") (not (lookup "v1" "Namespace" "" $namespace)) }}true{{ end }}
{{- end }}

{{/* The namespace of the ServiceMonitors. */}}
{{- define "echoperator.monitoringNamespace" -}}
{{- .Values.monitoring.namespace | default .Release.Namespace }}
{{- end }}

{{/*
A ServiceMonitor: (list . "name" labels selectorLabels endpoint), where the last three are YAML. It scrapes the Service with the
selector labels in the release's namespace.
*/}}
{{- define "echoperator.serviceMonitor" -}}
{{- $context := first . -}}
{{- $monitoring := $context.Values.monitoring -}}
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ include "echoperator.nameOutside" (list $context (index . 1)) }}
  namespace: {{ include "echoperator.monitoringNamespace" $context }}
  labels:
    {{- mustMergeOverwrite (index . 2 | fromYaml) $monitoring.labels | toYaml | nindent 4 }}
  {{- with $context.Values.commonAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  namespaceSelector:
    matchNames:
      - {{ $context.Release.Namespace }}
  selector:
    matchLabels:
      {{- index . 3 | nindent 6 }}
  endpoints:
    - {{ index . 4 | indent 6 | trim }}
      interval: {{ $monitoring.interval }}
{{- end }}
