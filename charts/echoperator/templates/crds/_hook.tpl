{{/*
The Jobs for the CustomResourceDefinitions, as a list: the component, the command, the hook, and the verbs that the command needs.

The chart has no folder crds/, because the versions of Helm install it differently. Helm 3 skips a definition that exists. Helm 4 applies it
without force: that fails if another field manager has applied a different one, and replaces a newer one of the same field manager. Nor
are the definitions templates: Helm refuses an object that exists and belongs to no release or to another one.

One Job applies them before an installation and an upgrade; there is none for a rollback, because the newer CustomResourceDefinitions contain
everything that the older operator knows. With crds.keep=false another one deletes them after the release.
*/}}
{{- define "echoperator.crdJobs" -}}
{{- $jobs := list -}}
{{- if and (include "echoperator.managesCrds" .) .Values.crds.upgradeJob.enabled -}}
{{- $jobs = append $jobs (dict "component" "crds" "command" "apply-crds" "hook" "pre-install,pre-upgrade" "verbs" (list "get" "patch")) -}}
{{- end -}}
{{- if include "echoperator.deletesCrds" . -}}
{{- $jobs = append $jobs (dict "component" "crds-delete" "command" "delete-crds" "hook" "post-delete" "verbs" (list "get" "delete")) -}}
{{- end -}}
{{- toYaml $jobs }}
{{- end }}

{{/* Not empty if the release manages the CustomResourceDefinitions. An earlier version had no crds.enabled. */}}
{{- define "echoperator.managesCrds" -}}
{{- if and (ne (toString .Values.crds.enabled) "false") (not .Values.scope.namespaced) }}true{{ end }}
{{- end }}

{{/* Not empty if a Job deletes the CustomResourceDefinitions after the release. */}}
{{- define "echoperator.deletesCrds" -}}
{{- if and (include "echoperator.managesCrds" .) (eq (toString .Values.crds.keep) "false") }}true{{ end }}
{{- end }}

{{/*
Annotations of the hooks: (list $job weight). Helm deletes the hooks when all have succeeded. A Job that fails stays with its pods until
the next attempt, for diagnosis.
*/}}
{{- define "echoperator.crdHook" -}}
helm.sh/hook: {{ (first .).hook }}
helm.sh/hook-weight: {{ index . 1 | quote }}
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}

{{/* The names of the chart's CustomResourceDefinitions, as a list. Never empty: a rule without resourceNames permits every name. */}}
{{- define "echoperator.crdNames" -}}
{{- $names := list -}}
{{- range $path, $_ := .Files.Glob "files/crds/*.yaml" }}
{{- $names = append $names ($.Files.Get $path | fromYaml).metadata.name }}
{{- end }}
{{- if not $names }}{{ fail "The chart has no CustomResourceDefinitions in files/crds: run `make generate`." }}{{ end }}
{{- toYaml $names }}
{{- end }}
