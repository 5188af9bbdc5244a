{{/* The rules for reconciles. All resources are namespaced, so with watchNamespaces the operator needs no ClusterRole. */}}
{{- define "echoperator.rules" -}}
{{- range $name, $controller := .Values.controllers -}}
{{- $file := printf "files/rules/%s%s.yaml" $name (ternary "" ".disabled" $controller.enabled) -}}
{{- regexReplaceAll "(?m)^#.*\n" ($.Files.Get $file) "" -}}
{{- end -}}
{{- /* The uninstall check then uses this ServiceAccount. */ -}}
{{- if and .Values.scope.namespaced .Values.uninstallCheck.enabled }}{{ include "echoperator.uninstallRules" . | trim | printf "%s\n" }}{{ end -}}
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create, patch]
{{- end }}

{{- define "echoperator.subjects" -}}
- kind: ServiceAccount
  name: {{ include "echoperator.serviceAccountName" . | quote }}
  namespace: {{ .Release.Namespace | quote }}
{{- end }}
