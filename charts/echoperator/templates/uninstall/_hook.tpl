{{/*
Annotations of the hooks that run before `helm uninstall`: (list . weight). Helm deletes the hooks when all have succeeded. If the
Job fails, Helm uninstalls nothing and the Job stays until the next attempt, for diagnosis.
*/}}
{{- define "echoperator.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/*
The ServiceAccount of the Job. With scope.namespaced it is the operator's, which exists until Helm uninstalls the release: roles of
the Job's own would have to be created in each watched namespace, which may be gone.
*/}}
{{- define "echoperator.uninstallServiceAccount" -}}
{{- if .Values.scope.namespaced }}{{ include "echoperator.serviceAccountName" . }}{{ else }}{{ include "echoperator.fullnameWith" (list . "uninstall") }}{{ end }}
{{- end }}

{{/* The rules of the Job: list the kinds whose objects the operator finalizes. */}}
{{- define "echoperator.uninstallRules" -}}
{{- regexReplaceAll "(?m)^#.*\n" (.Files.Get "files/rules/uninstall.yaml") "" }}
{{- end }}

{{/* The namespaces that the Job checks: those of the release, or all if another Job then deletes the CustomResourceDefinitions. */}}
{{- define "echoperator.uninstallNamespaces" -}}
{{- if not (include "echoperator.deletesCrds" .) }}{{ include "echoperator.watchedNamespaces" . | fromYamlArray | join "," }}{{ end }}
{{- end }}
