{{/*
What the Deployment and the Services find the operator's pods by. A Deployment's selector cannot be changed, so this is
what it was in the chart's first version. No other pod of the chart may carry all of it.
*/}}
{{- define "echoperator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "echoperator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The same for a part that has pods of its own: (list . "crds"). */}}
{{- define "echoperator.partSelectorLabels" -}}
{{- $context := first . -}}
app.kubernetes.io/name: {{ printf "%s-%s" (include "echoperator.name" $context | trunc 50 | trimSuffix "-") (index . 1) }}
app.kubernetes.io/instance: {{ $context.Release.Name | quote }}
{{- end }}

{{/* What every object carries besides what it is selected by: (list . "component"). */}}
{{- define "echoperator.commonLabels" -}}
{{- $context := first . -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: echoperator
app.kubernetes.io/version: {{ $context.Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The labels of what belongs to the running operator: (list . "component"). */}}
{{- define "echoperator.labels" -}}
{{ include "echoperator.selectorLabels" (first .) }}
{{ include "echoperator.commonLabels" . }}
{{- end }}

{{/* The labels of a part that has pods of its own: (list . "crds"). */}}
{{- define "echoperator.partLabels" -}}
{{ include "echoperator.partSelectorLabels" . }}
{{ include "echoperator.commonLabels" . }}
{{- end }}

{{/*
A pod's labels: the user's and the chart's, of which the chart's win: (list . labelsAsText). Without the chart's version:
a new chart of the same operator does not start pods anew.
*/}}
{{- define "echoperator.podLabels" -}}
{{- mustMergeOverwrite (deepCopy (first .).Values.podLabels) (omit (index . 1 | fromYaml) "helm.sh/chart") | toYaml }}
{{- end }}
