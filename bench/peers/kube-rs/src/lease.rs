//! The Lease of a single replica. kube-rs has no leader election: this costs what renewing costs, and excludes nobody.

use std::{env, time::Duration};

use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::json;
use tracing::warn;

const RETRY_PERIOD: Duration = Duration::from_secs(2);

/// Takes the Lease, and renews it from then on.
pub async fn take(client: &Client) -> kube::Result<()> {
    let (Ok(name), Ok(namespace)) = (env::var("LEADER_ELECTION_ID"), env::var("LEADER_ELECTION_NAMESPACE")) else {
        return Ok(());
    };
    let leases = Api::namespaced(client.clone(), &namespace);
    renew(&leases, &name).await?;
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(RETRY_PERIOD).await;
            if let Err(error) = renew(&leases, &name).await {
                warn!(%error, "the Lease is not renewed");
            }
        }
    });
    Ok(())
}

async fn renew(leases: &Api<Lease>, name: &str) -> kube::Result<Lease> {
    let lease = json!({
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": {
            "holderIdentity": format!("kube-rs-peer-{}", std::process::id()),
            "leaseDurationSeconds": 15,
            "renewTime": format!("{:.6}", Timestamp::now()),
        },
    });
    let manager = PatchParams::apply("kube-rs-peer").force();
    leases.patch(name, &manager, &Patch::Apply(&lease)).await
}
