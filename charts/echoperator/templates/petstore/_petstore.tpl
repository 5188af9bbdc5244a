{{/* The pet store's address. It omits the cluster's domain, which differs between clusters. */}}
{{- define "echoperator.petstoreAddress" -}}
{{- $own := printf "%s.%s.svc:%v" .Values.petstore.service.name .Release.Namespace .Values.petstore.service.port -}}
{{- .Values.pet.address | default (ternary $own "petstore-service.petstore.svc.cluster.local:6742" .Values.petstore.enabled) }}
{{- end }}

{{/* Not empty if the operator keeps Pets in the release's own pet store. */}}
{{- define "echoperator.petstoreIsOwn" -}}
{{- if and .Values.controllers.pet.enabled .Values.petstore.enabled (not .Values.pet.address) }}true{{ end }}
{{- end }}

{{/* Not empty if cert-manager issues the pet store's certificate. */}}
{{- define "echoperator.petstoreHasCertificate" -}}
{{- if and .Values.petstore.enabled (.Values.petstore.tls.certManager).enabled }}true{{ end }}
{{- end }}

{{/* The Secret with the pet store's certificate and key. Empty: plain text. */}}
{{- define "echoperator.petstoreSecret" -}}
{{- $made := ternary (include "echoperator.fullnameWith" (list . "petstore-tls")) "" (eq "true" (include "echoperator.petstoreHasCertificate" .)) -}}
{{- .Values.petstore.tls.existingSecret | default .Values.petstore.tls.secretName | default $made }}
{{- end }}

{{/* Not empty if the operator connects to the pet store over TLS. */}}
{{- define "echoperator.petstoreTls" -}}
{{- if or .Values.pet.tls.enabled (and (include "echoperator.petstoreIsOwn" .) (include "echoperator.petstoreHasCertificate" .)) }}true{{ end }}
{{- end }}

{{/* The Secret with the CA of the pet store's certificate. Empty if the operator does not use TLS or uses the public CAs. */}}
{{- define "echoperator.petstoreAuthority" -}}
{{- if and .Values.controllers.pet.enabled (include "echoperator.petstoreTls" .) -}}
{{- $issued := ternary (include "echoperator.petstoreSecret" .) "" (and (eq "true" (include "echoperator.petstoreIsOwn" .)) (eq "true" (include "echoperator.petstoreHasCertificate" .))) -}}
{{- .Values.pet.tls.existingSecret | default .Values.pet.tls.caSecret | default $issued }}
{{- end }}
{{- end }}

{{/* The gRPC port of the pet store's pod, which does not depend on the Service's port. */}}
{{- define "echoperator.petstoreGrpcPort" -}}
6742
{{- end }}

{{/* The port of the pet store's probes and metrics, in its pod and on its Service. */}}
{{- define "echoperator.petstoreHttpPort" -}}
8080
{{- end }}

{{/* The fields that all pods of the chart share, and the pet store's own security context. */}}
{{- define "echoperator.petstorePodSpec" -}}
{{- $common := include "echoperator.podSpec" . | fromYaml -}}
{{- with .Values.petstore.podSecurityContext }}
{{- $common = mustMerge $common (dict "securityContext" (deepCopy .)) }}
{{- end }}
{{- toYaml $common }}
{{- end }}

{{/* The fields that all containers of the chart share, with the pet store's own image and resources. */}}
{{- define "echoperator.petstoreContainerSpec" -}}
{{- $own := dict "image" (include "echoperator.imageOf" (list . .Values.petstore.image)) "imagePullPolicy" .Values.petstore.image.pullPolicy -}}
{{- $common := omit (include "echoperator.containerSpec" . | fromYaml) "resources" -}}
{{- with .Values.petstore.resources }}{{- $own = merge $own (dict "resources" .) }}{{ end -}}
{{- merge $own $common | toYaml }}
{{- end }}
