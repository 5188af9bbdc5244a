{{/* The pet store's address. It omits the cluster's domain, which differs between clusters. */}}
{{- define "echoperator.petstoreAddress" -}}
{{- $own := printf "%s:%v" (include "echoperator.petstoreHost" .) .Values.petstore.service.port -}}
{{- .Values.pet.address | default (ternary $own "petstore-service.petstore.svc.cluster.local:6742" .Values.petstore.enabled) }}
{{- end }}

{{/*
The name of the pet store's StatefulSet. At most 52 characters, because a label of its pods adds a hash of 11 to it, and no label may be
longer than 63: Kubernetes would create no pod.
*/}}
{{- define "echoperator.petstoreStatefulSet" -}}
{{- printf "%s-petstore" (include "echoperator.fullname" . | trunc 43 | trimSuffix "-") }}
{{- end }}

{{/* Not empty if the operator keeps Pets in the release's own pet store. */}}
{{- define "echoperator.petstoreIsOwn" -}}
{{- if and .Values.controllers.pet.enabled .Values.petstore.enabled (not .Values.pet.address) }}true{{ end }}
{{- end }}

{{/* Not empty if cert-manager issues the certificate of the pet store and of its clients. */}}
{{- define "echoperator.petstoreHasCertificate" -}}
{{- if and .Values.petstore.enabled .Values.petstore.tls.enabled (.Values.petstore.tls.certManager).enabled }}true{{ end }}
{{- end }}

{{/* The Secret with the certificate and key of the pet store and of its clients, and their CA. Empty: plain text. */}}
{{- define "echoperator.petstoreSecret" -}}
{{- if .Values.petstore.tls.enabled -}}
{{- $made := ternary (include "echoperator.fullnameWith" (list . "petstore-tls")) "" (eq "true" (include "echoperator.petstoreHasCertificate" .)) -}}
{{- .Values.petstore.tls.existingSecret | default .Values.petstore.tls.secretName | default $made }}
{{- end }}
{{- end }}

{{/* Not empty if the release's own pet store serves the operator, and only clients with a certificate. */}}
{{- define "echoperator.petstoreIsMutual" -}}
{{- if and (include "echoperator.petstoreIsOwn" .) (include "echoperator.petstoreSecret" .) }}true{{ end }}
{{- end }}

{{/* Not empty if the operator connects to the pet store over TLS. */}}
{{- define "echoperator.petstoreTls" -}}
{{- if or .Values.pet.tls.enabled (include "echoperator.petstoreIsMutual" .) }}true{{ end }}
{{- end }}

{{/* The Secret with the operator's certificate and key, and the CA of the pet store's certificate. Empty if it needs none. */}}
{{- define "echoperator.petstoreClientSecret" -}}
{{- if and .Values.controllers.pet.enabled (include "echoperator.petstoreTls" .) -}}
{{- $own := ternary (include "echoperator.petstoreSecret" .) "" (eq "true" (include "echoperator.petstoreIsMutual" .)) -}}
{{- .Values.pet.tls.existingSecret | default .Values.pet.tls.caSecret | default $own }}
{{- end }}
{{- end }}

{{/* Not empty if the operator presents a certificate to the pet store. */}}
{{- define "echoperator.petstoreHasClientCertificate" -}}
{{- if and (include "echoperator.petstoreClientSecret" .) (or .Values.pet.tls.clientCertificate (include "echoperator.petstoreIsMutual" .)) }}true{{ end }}
{{- end }}

{{/* The pet store's name in the cluster, which its certificate names too. */}}
{{- define "echoperator.petstoreHost" -}}
{{ .Values.petstore.service.name }}.{{ .Release.Namespace }}.svc
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
