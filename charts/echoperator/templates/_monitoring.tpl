{{/* Not empty if the chart creates ServiceMonitors. */}}
{{- define "echoperator.hasServiceMonitor" -}}
{{- $known := .Capabilities.APIVersions.Has "monitoring.coreos.com/v1/ServiceMonitor" -}}
{{- with .Values.monitoring }}
{{- if and .enabled (or (eq .serviceMonitor "always") (and (eq .serviceMonitor "auto") $known)) }}true{{ end }}
{{- end }}
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
  namespace: {{ $monitoring.namespace | default $context.Release.Namespace }}
  labels:
    {{- mustMergeOverwrite (index . 2 | fromYaml) $monitoring.labels | toYaml | nindent 4 }}
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
