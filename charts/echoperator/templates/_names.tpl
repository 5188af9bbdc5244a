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

{{/* The full name with a suffix: (list . "crds"). */}}
{{- define "echoperator.fullnameWith" -}}
{{- include "echoperator.withSuffix" (list (include "echoperator.fullname" (first .)) (index . 1)) }}
{{- end }}

{{/* A name with a suffix: (list "demo-echoperator" "crds"). A long name is truncated before the suffix. */}}
{{- define "echoperator.withSuffix" -}}
{{- $suffix := index . 1 -}}
{{- printf "%s-%s" (first . | trunc (int (sub 62 (len $suffix))) | trimSuffix "-") $suffix }}
{{- end }}

{{/*
The name of a Service: (list . "metrics"). It begins with a letter: the names of a release and of a namespace may begin with a digit, but
that of a Service only with the feature gate RelaxedServiceNameValidation of Kubernetes 1.34 and later.
*/}}
{{- define "echoperator.serviceName" -}}
{{- $name := regexReplaceAll "^([0-9])" (include "echoperator.fullname" (first .)) "s-${1}" -}}
{{- include "echoperator.withSuffix" (list $name (index . 1)) }}
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
