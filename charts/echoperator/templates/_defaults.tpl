{{/*
Adds the top-level values that are missing. `helm upgrade --reuse-values` replaces the defaults of the new chart with those of the old
one, which lack its new values. Every template calls this first, because Helm promises no order. Values for which null means "none" stay
missing.
*/}}
{{- define "echoperator.fillDefaults" -}}
{{- $nullable := list "podSecurityContext" "securityContext" "resources" "nodeSelector" -}}
{{- range $key, $default := .Files.Get "files/defaults.yaml" | fromYaml -}}
{{- if and (not (hasKey $.Values $key)) (not (has $key $nullable)) }}{{ $_ := set $.Values $key $default }}{{ end -}}
{{- end -}}
{{- end }}
