{{/*
Annotations of what runs before `helm uninstall`: (list . weight). Helm deletes each when all of them have succeeded; when
the Job fails, nothing is uninstalled, and it stays, to be looked at, until the next attempt.
*/}}
{{- define "echoperator.uninstallHook" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* What the Job may do: list what the operator has to clean up after. */}}
{{- define "echoperator.uninstallRules" -}}
{{- regexReplaceAll "(?m)^#.*\n" (.Files.Get "files/rules/uninstall.yaml") "" }}
{{- end }}
