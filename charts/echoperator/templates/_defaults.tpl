{{/*
Adds the values that are missing. `helm upgrade --reuse-values` replaces the defaults of the new chart with those of the old one, which
lack its new values; `--set` then adds single values of a group. Every template calls this first, because Helm promises no order.
*/}}
{{- define "echoperator.fillDefaults" -}}
{{- include "echoperator.fillEarlierPetstore" . -}}
{{- include "echoperator.fillGroup" (list .Values (.Files.Get "files/defaults.yaml" | fromYaml)) -}}
{{- end }}

{{/* Adds what is missing in a group of values: (list values defaults). Stays missing: for which null means "none". */}}
{{- define "echoperator.fillGroup" -}}
{{- $nullable := list "podSecurityContext" "securityContext" "resources" "nodeSelector" "labels" -}}
{{- $values := index . 0 -}}
{{- range $key, $default := index . 1 -}}
{{- if not (has $key $nullable) -}}
{{- if not (hasKey $values $key) -}}
{{- $_ := set $values $key $default -}}
{{- else if and (kindIs "map" $default) (kindIs "map" (get $values $key)) -}}
{{- include "echoperator.fillGroup" (list (get $values $key) $default) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}

{{/*
Keeps the pet store of an earlier version of the chart, which had TLS only with a certificate, and a NetworkPolicy only with
networkPolicy.enabled. Its values lack pet.tls.clientCertificate, which came with these two switches.
*/}}
{{- define "echoperator.fillEarlierPetstore" -}}
{{- with (.Values.pet).tls -}}
{{- if not (hasKey . "clientCertificate") -}}
{{- $petstore := $.Values.petstore | default dict -}}
{{- if and $petstore.tls (not (hasKey $petstore.tls "enabled")) -}}
{{- $_ := set $petstore.tls "enabled" (or $petstore.tls.existingSecret $petstore.tls.secretName ($petstore.tls.certManager).enabled | empty | not) -}}
{{- end -}}
{{- if and $petstore.networkPolicy (not (hasKey $petstore.networkPolicy "enabled")) -}}
{{- $_ := set $petstore.networkPolicy "enabled" (($.Values.networkPolicy).enabled | default false) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end }}
