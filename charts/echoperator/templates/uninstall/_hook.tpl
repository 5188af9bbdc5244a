{{/*
Annotations of the hooks that run before `helm uninstall`: (list . weight). Helm deletes the hooks when all have succeeded. If the
Job fails, Helm uninstalls nothing and the Job stays until the next attempt, for diagnosis.
*/}}
{{- define "echoperator.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The rules of the Job: list the kinds whose objects the operator finalizes. */}}
{{- define "echoperator.uninstallRules" -}}
{{- regexReplaceAll "(?m)^#.*\n" (.Files.Get "files/rules/uninstall.yaml") "" }}
{{- end }}
