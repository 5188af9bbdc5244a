{{/* What the operator may do where it reconciles. All of it is in namespaces: with watchNamespaces it needs no ClusterRole. */}}
{{- define "echoperator.rules" -}}
{{- range $name, $controller := .Values.controllers -}}
{{- /* Of most kinds there is no second file, and nothing is read. */ -}}
{{- $file := printf "files/rules/%s%s.yaml" $name (ternary "" ".disabled" $controller.enabled) -}}
{{- regexReplaceAll "(?m)^#.*\n" ($.Files.Get $file) "" -}}
{{- end -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "echoperator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "echoperator.serviceAccountName" . }}
  namespace: {{ .Release.Namespace }}
{{- end }}
