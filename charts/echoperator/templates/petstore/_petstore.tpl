{{/* Where the operator finds the pet store. Without the cluster's domain, which is not the same everywhere. */}}
{{- define "echoperator.petstoreAddress" -}}
{{- $own := printf "%s.%s.svc:%v" .Values.petstore.service.name .Release.Namespace .Values.petstore.service.port -}}
{{- .Values.pet.address | default (ternary $own "petstore-service.petstore.svc.cluster.local:6742" .Values.petstore.enabled) }}
{{- end }}

{{/* Not empty where Pets are kept in this release's own store. */}}
{{- define "echoperator.petstoreIsOwn" -}}
{{- if and .Values.controllers.pet.enabled .Values.petstore.enabled (not .Values.pet.address) }}true{{ end }}
{{- end }}

{{/* The Secret with whose authority the operator trusts the pet store; nothing where it is not asked to. */}}
{{- define "echoperator.petstoreAuthority" -}}
{{- if and .Values.controllers.pet.enabled .Values.pet.tls.enabled }}{{ .Values.pet.tls.caSecret }}{{ end }}
{{- end }}

{{/* The port of gRPC in the pet store's pod, whatever its Service has. */}}
{{- define "echoperator.petstoreGrpcPort" -}}
6742
{{- end }}

{{/* The port of the pet store's probes and metrics, in its pod and on its Service. */}}
{{- define "echoperator.petstoreHttpPort" -}}
8080
{{- end }}

{{/* The pet store's pod has all that the chart's pods have in common, and a group to which its volume belongs. */}}
{{- define "echoperator.petstorePodSpec" -}}
{{- $group := dict "fsGroup" 65532 "fsGroupChangePolicy" "OnRootMismatch" -}}
{{- $common := include "echoperator.podSpec" . | fromYaml -}}
{{- merge (dict "securityContext" (merge (deepCopy .Values.podSecurityContext) $group)) $common | toYaml }}
{{- end }}

{{/* Its container likewise: with an image and resources of its own. */}}
{{- define "echoperator.petstoreContainerSpec" -}}
{{- $own := dict "image" (include "echoperator.imageOf" (list . .Values.petstore.image)) "imagePullPolicy" .Values.petstore.image.pullPolicy -}}
{{- $common := omit (include "echoperator.containerSpec" . | fromYaml) "resources" -}}
{{- with .Values.petstore.resources }}{{- $own = merge $own (dict "resources" .) }}{{ end -}}
{{- merge $own $common | toYaml }}
{{- end }}
