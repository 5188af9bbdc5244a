{{/*
Annotations of the hooks that run before an installation and an upgrade: (list . weight). Helm deletes the hooks when all have
succeeded. A Job that fails stays with its pods until the next attempt, for diagnosis. There is no rollback hook: the newer
CustomResourceDefinitions contain everything that the older operator knows.
*/}}
{{- define "echoperator.crdHook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* Not empty if a Job applies the CustomResourceDefinitions. */}}
{{- define "echoperator.hasCrdJob" -}}
{{- if and .Values.crds.upgradeJob.enabled (not .Values.scope.namespaced) }}true{{ end }}
{{- end }}

{{/* The names of the chart's CustomResourceDefinitions, as a list. Never empty: a rule without resourceNames permits every name. */}}
{{- define "echoperator.crdNames" -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $names = append $names ($.Files.Get $path | fromYaml).metadata.name }}
{{- end }}
{{- if not $names }}{{ fail "The chart has no CustomResourceDefinitions in crds/: run `make generate`." }}{{ end }}
{{- toYaml $names }}
{{- end }}
