{{/*
Adds the values that are missing. `helm upgrade --reuse-values` replaces the defaults of the new chart with those of the old one, which
lack its new values; `--set` then adds single values of a group. Every template calls this first, because Helm promises no order.
*/}}
{{- define "echoperator.fillDefaults" -}}
{{- include "echoperator.fillGroup" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml) "") -}}
{{- end }}

{{/*
Adds what is missing in a group of values: (list values defaults path). Stays missing: for which null means "none", and what an earlier
version of the chart did without, where the group exists.
*/}}
{{- define "echoperator.fillGroup" -}}
{{- $nullable := list "podSecurityContext" "securityContext" "resources" "nodeSelector" "labels" -}}
{{- $later := list "/petstore/tls/enabled" "/petstore/networkPolicy/enabled" -}}
{{- $values := index . 0 -}}
{{- $path := index . 2 -}}
{{- range $key, $default := index . 1 -}}
{{- $at := printf "%s/%s" $path $key -}}
{{- if not (or (has $key $nullable) (has $at $later)) -}}
{{- if not (hasKey $values $key) -}}
{{- $_ := set $values $key $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $values $key)) -}}
{{- include "echoperator.fillGroup" (list (get $values $key) $default $at) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
