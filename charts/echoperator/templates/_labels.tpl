{{/*
The labels by which the Deployment and the Services select the operator's pods. A Deployment's selector is immutable, so these
labels must stay as in the chart's first version. No other pod of the chart may have all of them.
*/}}
{{- define "echoperator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "echoperator.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{/* The selector labels of a component with its own pods: (list . "crds"). */}}
{{- define "echoperator.partSelectorLabels" -}}
{{- $context := first . -}}
app.kubernetes.io/name: {{ printf "%s-%s" (include "echoperator.name" $context | trunc 50 | trimSuffix "-") (index . 1) | quote }}
app.kubernetes.io/instance: {{ $context.Release.Name | quote }}
{{- end }}

{{/*
The labels of every object besides its selector labels: (list . "component"). Each name appears once, because server-side apply
rejects duplicates.
*/}}
{{- define "echoperator.commonLabels" -}}
{{- $context := first . -}}
app.kubernetes.io/component: {{ index . 1 }}
app.kubernetes.io/part-of: echoperator
app.kubernetes.io/version: {{ $context.Chart.AppVersion | replace "+" "_" | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ $context.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $context.Chart.Name $context.Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{- with omit $context.Values.commonLabels "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/part-of" "app.kubernetes.io/version" "app.kubernetes.io/managed-by" "helm.sh/chart" }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* The labels of an object of the operator itself: (list . "component"). */}}
{{- define "echoperator.labels" -}}
{{ include "echoperator.selectorLabels" (first .) }}
{{ include "echoperator.commonLabels" . }}
{{- end }}

{{/* The labels of an object of a component with its own pods: (list . "crds"). */}}
{{- define "echoperator.partLabels" -}}
{{ include "echoperator.partSelectorLabels" . }}
{{ include "echoperator.commonLabels" . }}
{{- end }}

{{/*
A pod's labels: podLabels overridden by the chart's labels: (list . labelsAsYaml). Omits the chart's version, so that a new chart
for the same operator does not restart pods.
*/}}
{{- define "echoperator.podLabels" -}}
{{- mustMergeOverwrite (deepCopy (first .).Values.podLabels) (omit (index . 1 | fromYaml) "helm.sh/chart") | toYaml }}
{{- end }}
