{{/* Not empty if the release has a PodDisruptionBudget. */}}
{{- define "echoperator.hasDisruptionBudget" -}}
{{- if and .Values.podDisruptionBudget.enabled .Values.ha.enabled (gt (int .Values.ha.replicaCount) 1) }}true{{ end }}
{{- end }}

{{/* Not empty if it permits no eviction while all replicas run. */}}
{{- define "echoperator.blocksDrains" -}}
{{- if include "echoperator.hasDisruptionBudget" . -}}
{{- $min := toString .Values.podDisruptionBudget.minAvailable -}}
{{- $max := toString .Values.podDisruptionBudget.maxUnavailable -}}
{{- if eq $min "" -}}
{{- if has $max (list "0" "0%") }}true{{ end -}}
{{- else if hasSuffix "%" $min -}}
{{- /* Kubernetes rounds up. */ -}}
{{- if gt (mul (trimSuffix "%" $min | int) .Values.ha.replicaCount) (mul 100 (sub .Values.ha.replicaCount 1)) }}true{{ end -}}
{{- else if ge (int $min) (int .Values.ha.replicaCount) }}true{{ end -}}
{{- end -}}
{{- end }}
