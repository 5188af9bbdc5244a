{{/* The chart's name, or nameOverride. */}}
{{- define "echoperator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/*
The prefix of the names of the release's objects. A release whose name contains the chart's (`helm install echoperator …`) does not
become echoperator-echoperator. At most 63 characters and no dots, because names of Services and labels allow no more.
*/}}
{{- define "echoperator.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- $made := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) -}}
{{- default $made .Values.fullnameOverride | replace "." "-" | trunc 63 | trimSuffix "-" }}
{{- end }}

{{/* The full name with a suffix: (list . "metrics"). A long name is truncated before the suffix. */}}
{{- define "echoperator.fullnameWith" -}}
{{- $suffix := index . 1 -}}
{{- $room := int (sub 62 (len $suffix)) -}}
{{- printf "%s-%s" (include "echoperator.fullname" (first .) | trunc $room | trimSuffix "-") $suffix }}
{{- end }}

{{/*
The name of an object outside of the release's namespace: (list . name). It contains the namespace, because releases with the same
name may exist in several namespaces. The dot is unambiguous: neither part contains one.
*/}}
{{- define "echoperator.nameOutside" -}}
{{- printf "%s.%s" (index . 1) (first .).Release.Namespace }}
{{- end }}

{{/* The name of the operator's ServiceAccount, created by the chart or existing. */}}
{{- define "echoperator.serviceAccountName" -}}
{{- $own := ternary (include "echoperator.fullname" .) "default" .Values.serviceAccount.create -}}
{{- default $own .Values.serviceAccount.name }}
{{- end }}
