{{/*
Annotations of what runs before an installation and an upgrade: (list . weight). Helm deletes each when all of them
have succeeded; when the Job fails, it and its pods stay, to be looked at, until the next attempt. No rollback hook: a
rollback leaves the newer CustomResourceDefinitions, which hold what the older operator knows.
*/}}
{{- define "echoperator.crdHook" -}}
helm.sh/hook: pre-install,pre-upgrade
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The names of the chart's CustomResourceDefinitions, as a list. Never empty: a rule that names nothing allows everything. */}}
{{- define "echoperator.crdNames" -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "crds/*.yaml" }}
{{- $names = append $names ($.Files.Get $path | fromYaml).metadata.name }}
{{- end }}
{{- if not $names }}{{ fail "The chart has no CustomResourceDefinitions in crds/: `make generate` writes them." }}{{ end }}
{{- toYaml $names }}
{{- end }}
