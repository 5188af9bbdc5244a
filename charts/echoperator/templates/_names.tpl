{{/* The chart's name, or what takes its place. */}}
{{- define "echoperator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The name of what the release makes. A release whose name holds the chart's (`helm install echoperator …`) is not
called echoperator-echoperator. 63 characters and no dots, since Services and labels hold no more.
*/}}
{{- define "echoperator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $made .Values.fullnameOverride | replace "." "-" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The full name with a suffix: (list . "metrics"). The suffix is never what is cut off. */}}
{{- define "echoperator.fullnameWith" -}}
{{- $suffix := index . 1 -}}
{{- $room := int (sub 62 (len $suffix)) -}}
{{- printf "%s-%s" (include "echoperator.fullname" (first .) | trunc $room | trimSuffix "-") $suffix }}
{{- end }}

{{/*
The name of what the release makes outside of its own namespace: (list . name). Two releases of one name may stand in two
namespaces, and meet where these objects are. Written as a Service's name in DNS: neither part holds a dot.
*/}}
{{- define "echoperator.nameOutside" -}}
{{- printf "%s.%s" (index . 1) (first .).Release.Namespace }}
{{- end }}

{{/* The operator's ServiceAccount: the one made, or the one that is there. */}}
{{- define "echoperator.serviceAccountName" -}}
{{- $own := ternary (include "echoperator.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $own .Values.serviceAccount.name }}
{{- end }}
