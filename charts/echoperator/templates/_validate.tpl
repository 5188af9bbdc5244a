{{/* Checks that values.schema.json cannot express: relations between values. */}}
{{- define "echoperator.validate" -}}
{{- if not (include "echoperator.controllers" .) }}
{{- fail "controllers: enable at least one controller, or the operator has nothing to do." }}
{{- end }}
{{- if .Values.controllers.postgresWriter.enabled }}
{{- if not .Values.postgresWriter.host }}
{{- fail "controllers.postgresWriter.enabled requires postgresWriter.host, the host of the database that PostgresWriters write to." }}
{{- end }}
{{- $names := list }}{{- range .Values.extraEnv }}{{- $names = append $names .name }}{{- end }}
{{- if not (or .Values.postgresWriter.credentials.existingSecret (has "PSQL_USER" $names)) }}
{{- fail "controllers.postgresWriter.enabled requires postgresWriter.credentials.existingSecret, the Secret with the role's name and password." }}
{{- end }}
{{- end }}
{{- range .Values.extraEnv }}
{{- if eq .name "HA_LEASE_LOCK_NAME" }}
{{- fail "extraEnv has HA_LEASE_LOCK_NAME, but the Roles and the alerts follow the chart's name of the Lease. Set fullnameOverride to the old Lease's name, or scale the Deployment to 0 first, and remove the variable. Otherwise new pods would wait for old ones, which hold the other Lease and do not stop before the new ones are ready." }}
{{- end }}
{{- if eq .name "NAMESPACE" }}
{{- fail "extraEnv has NAMESPACE, but the operator's Roles, its Lease and the search for other operators belong to the release's namespace. Scale the Deployment to 0 first, and remove the variable. Otherwise new pods would work beside old ones, whose Lease is in another namespace." }}
{{- end }}
{{- end }}
{{- range $label := list "app" "version" "app.example.com/template-hash" "app.kubernetes.io/name" "app.kubernetes.io/instance" "app.kubernetes.io/component" "app.kubernetes.io/managed-by" "batch.kubernetes.io/controller-uid" "batch.kubernetes.io/job-name" "controller-uid" "job-name" }}
{{- if hasKey ($.Values.childPods.labels | default dict) $label }}
{{- fail (printf "childPods.labels has %s=%s, but the operator or Kubernetes finds pods by this label: remove it." $label (get $.Values.childPods.labels $label)) }}
{{- end }}
{{- end }}
{{- if and .Values.petstore.enabled .Values.petstore.tls.enabled (not (include "echoperator.petstoreSecret" .)) }}
{{- fail "petstore.enabled requires petstore.tls.existingSecret, a Secret with tls.crt, tls.key and ca.crt, or petstore.tls.certManager: the pet store serves only clients with a certificate. With petstore.tls.enabled=false it serves everybody who can connect, in plain text." }}
{{- end }}
{{- if and (include "echoperator.petstoreIsOwn" .) .Values.pet.tls.enabled (not (include "echoperator.petstoreSecret" .)) }}
{{- fail "pet.tls.enabled requires petstore.tls.enabled: the operator would connect over TLS, but the pet store would serve plain text." }}
{{- end }}
{{- if and (include "echoperator.petstoreHasCertificate" .) (not .Values.petstore.tls.certManager.issuerRef.name) }}
{{- fail "petstore.tls.certManager.enabled requires petstore.tls.certManager.issuerRef, the issuer of the certificate: {name: my-issuer, kind: ClusterIssuer}." }}
{{- end }}
{{- if and (include "echoperator.deletesCrds" .) (not .Values.uninstallCheck.enabled) }}
{{- fail "crds.keep=false requires uninstallCheck.enabled: without the check the Job that deletes the CustomResourceDefinitions would wait for objects that only the operator can finalize." }}
{{- end }}
{{- if and .Values.podDisruptionBudget.enabled (eq "" (toString .Values.podDisruptionBudget.maxUnavailable)) (eq "" (toString .Values.podDisruptionBudget.minAvailable)) }}
{{- fail "podDisruptionBudget.enabled requires podDisruptionBudget.maxUnavailable or podDisruptionBudget.minAvailable." }}
{{- end }}
{{- $remedy := "Your values are those of the original chart: remove image.repository and image.tag from them. If the release already has them, pass all others again with --reset-values." }}
{{- if regexMatch "(^|/)mmontes11/echoperator$" .Values.image.repository }}
{{- fail (printf "image.repository is %q, the image of the original operator, which this chart cannot run. %s" .Values.image.repository $remedy) }}
{{- end }}
{{- if and (eq .Values.image.repository "ghcr.io/echoperator/echoperator") (regexMatch "^v[0-9]" .Values.image.tag) (not .Values.image.digest) }}
{{- fail (printf "image.tag is %q, but %s has only tags without a v. %s" .Values.image.tag .Values.image.repository $remedy) }}
{{- end }}
{{- with .Values.ha.leaderElection }}
{{- if le (int .leaseDurationSeconds) (int .renewDeadlineSeconds) }}
{{- fail (printf "ha.leaderElection.leaseDurationSeconds (%d) must be greater than ha.leaderElection.renewDeadlineSeconds (%d): a leader that cannot renew its Lease must stop before another replica can acquire it." (int .leaseDurationSeconds) (int .renewDeadlineSeconds)) }}
{{- end }}
{{- if le (mul 10 .renewDeadlineSeconds) (mul 12 .retryPeriodSeconds) }}
{{- fail (printf "ha.leaderElection.renewDeadlineSeconds (%d) must be greater than 1.2 times ha.leaderElection.retryPeriodSeconds (%d): a leader needs time for a second attempt." (int .renewDeadlineSeconds) (int .retryPeriodSeconds)) }}
{{- end }}
{{- end }}
{{- if lt (int .Values.terminationGracePeriodSeconds) (add .Values.shutdownTimeoutSeconds 6 | int) }}
{{- fail (printf "terminationGracePeriodSeconds (%d) must be at least 6 more than shutdownTimeoutSeconds (%d): otherwise the kubelet kills the operator before it finishes its reconciles, writes its last Events and releases its Lease." (int .Values.terminationGracePeriodSeconds) (int .Values.shutdownTimeoutSeconds)) }}
{{- end }}
{{- if and .Values.monitoring.enabled (eq (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- fail (printf "monitoring.port (%d) and health.port (%d) must differ: the operator runs a server on each." (int .Values.monitoring.port) (int .Values.health.port)) }}
{{- end }}
{{- end }}

{{/*
Fails if an upgrade of the original chart's release lengthens the Lease. The original's standbys acquire the Lease when their own
leaseDuration has passed (client-go 0.21), whatever this operator has written on it, so two could lead. The Deployment of this chart has a
label that the original's lacks. The Lease has the duration of the original that holds it.
*/}}
{{- define "echoperator.rejectLongerLease" -}}
{{- $name := include "echoperator.fullname" . -}}
{{- $deployment := lookup "apps/v1" "Deployment" .Release.Namespace $name -}}
{{- if and $deployment (ne "echoperator" (dig "metadata" "labels" "app.kubernetes.io/part-of" "" $deployment)) }}
{{- $lease := lookup "coordination.k8s.io/v1" "Lease" .Release.Namespace $name -}}
{{- $former := dig "spec" "leaseDurationSeconds" 0 $lease | int -}}
{{- $duration := int .Values.ha.leaderElection.leaseDurationSeconds -}}
{{- if and (gt $former 0) (gt $duration $former) }}
{{- fail (printf "ha.leaderElection.leaseDurationSeconds (%d) is longer than the Lease of the original (%d), whose replicas would not wait so long for a leader of this operator: two could lead. Upgrade with ha.leaderElection.leaseDurationSeconds=%d first, and lengthen it in another upgrade, when no pod of the original runs." $duration $former $former) }}
{{- end }}
{{- end }}
{{- end }}
