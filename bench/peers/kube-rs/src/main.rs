//! The kube-rs peer of the benchmark: per Echo one Job, one status write, one Event.
//!
//! Environment: NUM_WORKERS (concurrent reconciles, default 4), ECHO_IMAGE, KUBECONFIG. With LEADER_ELECTION_ID it takes
//! and renews the Lease of that name in LEADER_ELECTION_NAMESPACE, as the others do; it never stands by.

mod echo;
mod lease;

use std::{future::ready, sync::Arc, time::Duration};

use echo::{Echo, EchoStatus, job_for};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::{
    api::batch::v1::Job,
    apimachinery::pkg::apis::meta::v1::{Condition, Time},
    jiff::Timestamp,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{Patch, PatchParams, PostParams},
    runtime::{
        Controller, WatchStreamExt,
        controller::{Action, Config},
        events::{Event, EventType, Recorder, Reporter},
        predicates,
        reflector::{self, ObjectRef, Store},
        watcher,
    },
};
use serde_json::json;
use tokio::sync::watch::{self, Receiver, Sender, error::RecvError};
use tracing::{info, warn};

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("Kubernetes: {0}")]
    Kube(#[from] kube::Error),
    #[error("Job: {0}")]
    Job(#[from] serde_json::Error),
    #[error("the Jobs' store: {0}")]
    Store(#[from] RecvError),
    #[error("{0} is not from the API server: it has no {1}")]
    Incomplete(String, &'static str),
}

struct Context {
    client: Client,
    jobs: Store<Job>,
    jobs_listed: Receiver<bool>,
    recorder: Recorder,
    image: String,
}

async fn reconcile(echo: Arc<Echo>, context: Arc<Context>) -> Result<Action, Error> {
    if echo.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    // A Job that the store has not listed yet is not a Job that is missing.
    context.jobs_listed.clone().wait_for(|listed| *listed).await?;
    let name = echo.name_any();
    let namespace = echo.namespace().ok_or_else(|| Error::Incomplete(name.clone(), "namespace"))?;
    let job = match context.jobs.get(&ObjectRef::new(&name).within(&namespace)) {
        Some(job) => job,
        None => match create_job(&echo, &namespace, &context).await? {
            Some(job) => Arc::new(job),
            None => return Ok(Action::await_change()),
        },
    };
    report(&echo, &namespace, &job, &context).await?;
    Ok(Action::await_change())
}

/// None where the Job exists and the store has not seen it yet.
async fn create_job(echo: &Echo, namespace: &str, context: &Context) -> Result<Option<Job>, Error> {
    let owner = echo
        .controller_owner_ref(&())
        .ok_or_else(|| Error::Incomplete(echo.name_any(), "uid"))?;
    let job = job_for(echo, owner, &context.image)?;
    let jobs: Api<Job> = Api::namespaced(context.client.clone(), namespace);
    match jobs.create(&PostParams::default(), &job).await {
        Ok(created) => Ok(Some(created)),
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Writes the status and an Event where the status says something else.
async fn report(echo: &Echo, namespace: &str, job: &Job, context: &Context) -> Result<(), Error> {
    let current = echo.status.clone().unwrap_or_default();
    let job_name = job.name_any();
    let (phase, status, reason, message) = state_of(job, &job_name);
    let transition = current
        .conditions
        .iter()
        .find(|condition| condition.type_ == "Ready" && condition.status == status)
        .map_or_else(|| Time(Timestamp::now()), |condition| condition.last_transition_time.clone());
    let desired = EchoStatus {
        phase: Some(phase.into()),
        job_name: Some(job_name),
        observed_generation: echo.metadata.generation,
        conditions: vec![Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            message: message.clone(),
            observed_generation: echo.metadata.generation,
            last_transition_time: transition,
        }],
    };
    if desired == current {
        return Ok(());
    }
    let echos: Api<Echo> = Api::namespaced(context.client.clone(), namespace);
    let patch = json!({"metadata": {"resourceVersion": echo.resource_version()}, "status": desired});
    echos
        .patch_status(&echo.name_any(), &PatchParams::default(), &Patch::Merge(&patch))
        .await?;
    info!(echo = %echo.name_any(), namespace, reason, "{message}");
    let event = Event {
        type_: EventType::Normal,
        reason: reason.into(),
        note: Some(message),
        action: "Reconcile".into(),
        secondary: None,
    };
    context.recorder.publish(&event, &echo.object_ref(&())).await?;
    Ok(())
}

/// Phase, status of Ready, its reason and message.
fn state_of(job: &Job, name: &str) -> (&'static str, &'static str, &'static str, String) {
    let status = job.status.as_ref();
    let has = |type_: &str| {
        status
            .and_then(|status| status.conditions.as_ref())
            .is_some_and(|all| all.iter().any(|condition| condition.type_ == type_ && condition.status == "True"))
    };
    if has("Complete") {
        ("Succeeded", "True", "Printed", format!("Job {name} has printed the message"))
    } else if has("Failed") {
        ("Failed", "False", "JobFailed", format!("Job {name} has failed"))
    } else if status.and_then(|status| status.active).unwrap_or_default() > 0 {
        ("Running", "False", "Printing", format!("Job {name} prints the message"))
    } else {
        ("Pending", "False", "Printing", format!("Job {name} prints the message"))
    }
}

fn error_policy(echo: Arc<Echo>, error: &Error, _: Arc<Context>) -> Action {
    warn!(echo = %echo.name_any(), %error, "reconcile failed");
    Action::requeue(Duration::from_secs(1))
}

/// A Job that nobody has begun to run: our own creation, which needs no second look.
fn is_untouched(event: &watcher::Event<Job>) -> bool {
    match event {
        watcher::Event::Apply(job) => {
            job.metadata.deletion_timestamp.is_none()
                && job.status.as_ref().is_none_or(|status| status == &Default::default())
        }
        _ => false,
    }
}

// The C library's, which the default allocator of Rust uses.
#[cfg(target_env = "gnu")]
unsafe extern "C" {
    fn malloc_trim(pad: usize) -> i32;
}

/// Returns memory that is free to the system, as the others do: what the initial lists have left behind.
fn free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: malloc_trim may be called at any time by any thread: malloc_trim(3).
    unsafe {
        malloc_trim(0);
    }
}

/// A store's own `wait_until_ready` wakes the last of those who wait, and here many do.
fn tell_listed<K>(sender: Sender<bool>) -> impl FnMut(&watcher::Event<K>) {
    move |event| {
        if matches!(event, watcher::Event::InitDone) {
            sender.send_replace(true);
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    tracing_subscriber::fmt().json().init();
    let client = Client::try_default().await?;
    let workers = std::env::var("NUM_WORKERS").map_or(Ok(4), |text| text.parse())?;
    lease::take(&client).await?;

    let (echos_listed_sender, mut echos_listed) = watch::channel(false);
    let (jobs_listed_sender, jobs_listed) = watch::channel(false);
    let (echos, echo_writer) = reflector::store::<Echo>();
    let echo_stream = watcher(Api::<Echo>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|echo| echo.managed_fields_mut().clear())
        .reflect(echo_writer)
        .inspect_ok(tell_listed(echos_listed_sender))
        .applied_objects()
        .predicate_filter(predicates::generation, Default::default());

    let (jobs, job_writer) = reflector::store::<Job>();
    let job_stream = watcher(Api::<Job>::all(client.clone()), watcher::Config::default())
        .default_backoff()
        .modify(|job| job.managed_fields_mut().clear())
        .reflect(job_writer)
        .inspect_ok(tell_listed(jobs_listed_sender))
        .try_filter(|event| ready(!is_untouched(event)))
        .touched_objects();

    let mut synced = jobs_listed.clone();
    tokio::spawn(async move {
        if echos_listed.wait_for(|listed| *listed).await.is_ok() && synced.wait_for(|listed| *listed).await.is_ok() {
            info!("caches have synced");
            tokio::time::sleep(Duration::from_secs(1)).await;
            free_memory();
        }
    });

    let reporter = Reporter {
        controller: "mmontes.io/kube-rs-peer".into(),
        instance: std::env::var("HOSTNAME").ok(),
    };
    let context = Arc::new(Context {
        recorder: Recorder::new(client.clone(), reporter),
        client,
        jobs,
        jobs_listed,
        image: std::env::var("ECHO_IMAGE").unwrap_or_else(|_| "busybox:1.36".into()),
    });
    Controller::for_stream(echo_stream, echos)
        .owns_stream(job_stream)
        .with_config(Config::default().concurrency(workers))
        .shutdown_on_signal()
        .run(reconcile, error_policy, context)
        .for_each(|result| {
            if let Err(error) = result {
                warn!(%error, "controller");
            }
            ready(())
        })
        .await;
    Ok(())
}
