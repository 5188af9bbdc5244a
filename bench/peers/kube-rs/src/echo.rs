//! The Echo resource as the API server stores it, and the Job that prints its message.

use k8s_openapi::{
    api::batch::v1::Job, apimachinery::pkg::apis::meta::v1::Condition, apimachinery::pkg::apis::meta::v1::OwnerReference,
};
use kube::{CustomResource, ResourceExt};
use serde::{Deserialize, Serialize};
use serde_json::json;

// The CRD is the project's own, so no schema is derived here.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize)]
#[kube(
    group = "mmontes.io",
    version = "v1alpha1",
    kind = "Echo",
    plural = "echos",
    namespaced,
    schema = "disabled",
    status = "EchoStatus"
)]
#[serde(rename_all = "camelCase")]
pub struct EchoSpec {
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ttl_seconds_after_finished: Option<i32>,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct EchoStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job_name: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

const LABELS: [(&str, &str); 2] = [
    ("app.kubernetes.io/name", "echo"),
    ("app.kubernetes.io/managed-by", "echoperator"),
];

/// The same Job, field by field, that the other operators make.
pub fn job_for(echo: &Echo, owner: OwnerReference, image: &str) -> Result<Job, serde_json::Error> {
    let labels: serde_json::Map<_, _> = LABELS.iter().map(|(key, value)| (key.to_string(), json!(value))).collect();
    serde_json::from_value(json!({
        "metadata": {
            "name": echo.name_any(),
            "namespace": echo.namespace(),
            "labels": labels,
            "annotations": {"mmontes.io/generation": echo.metadata.generation.unwrap_or_default().to_string()},
            "ownerReferences": [owner],
        },
        "spec": {
            "ttlSecondsAfterFinished": echo.spec.ttl_seconds_after_finished,
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "restartPolicy": "Never",
                    "automountServiceAccountToken": false,
                    "enableServiceLinks": false,
                    "securityContext": {
                        "runAsNonRoot": true,
                        "runAsUser": 65534,
                        "runAsGroup": 65534,
                        "seccompProfile": {"type": "RuntimeDefault"},
                    },
                    "containers": [{
                        "name": "echo",
                        "image": image,
                        "imagePullPolicy": "IfNotPresent",
                        "command": ["printf", "%s\\n", echo.spec.message.replace('$', "$$")],
                        "securityContext": {
                            "allowPrivilegeEscalation": false,
                            "readOnlyRootFilesystem": true,
                            "capabilities": {"drop": ["ALL"]},
                        },
                        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
                    }],
                },
            },
        },
    }))
}
