//! Tasks that a replica can't do without. One that ends before its time, be it by a panic, ends the replica: what is left of it
//! would look alive, and keep others from taking over.

use std::borrow::Cow;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A task ended that must not.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} ended unexpectedly: a bug in everynode")]
pub struct Ended {
    task: Cow<'static, str>,
}

/// Learns of the end of tasks. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(watch::Sender<Option<Ended>>);

impl Supervisor {
    /// A task that must run until `stop` is cancelled.
    pub fn until<N: Into<Cow<'static, str>>, F: Future<Output = ()>>(
        &self,
        stop: CancellationToken,
        task: N,
        work: F,
    ) -> impl Future<Output = ()> + use<N, F> {
        let guard = self.guard(task);
        async move {
            work.await;
            guard.ended(stop.is_cancelled());
        }
    }

    /// A task that may end at any time, but not in the middle.
    pub fn to_its_end<F: Future>(
        &self,
        task: &'static str,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let guard = self.guard(task);
        async move {
            let result = work.await;
            guard.ended(true);
            result
        }
    }

    /// Returns when a task has ended that must not.
    pub async fn failed(&self) -> Ended {
        let mut ended = self.0.subscribe();
        let first = ended.wait_for(Option::is_some).await.ok().and_then(|first| first.clone());
        match first {
            Some(first) => first,
            // Its sender lives as long as `self` does.
            None => std::future::pending().await,
        }
    }

    /// What has ended that must not have.
    pub fn failure(&self) -> Option<Ended> {
        self.0.borrow().clone()
    }

    fn guard(&self, task: impl Into<Cow<'static, str>>) -> Guard {
        Guard { supervisor: self.clone(), task: task.into(), has_ended_well: false }
    }
}

/// Lives as long as its task, however that ends.
struct Guard {
    supervisor: Supervisor,
    task: Cow<'static, str>,
    has_ended_well: bool,
}

impl Guard {
    /// Takes all of it, so that it is part of the task: of a field alone the task would hold a copy.
    fn ended(mut self, well: bool) {
        self.has_ended_well = well;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.has_ended_well {
            // The first one is the cause of the others.
            let ended = Ended { task: std::mem::take(&mut self.task) };
            self.supervisor.0.send_if_modified(|first| {
                let is_first = first.is_none();
                first.get_or_insert(ended);
                is_first
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C65: a panic, and the end of a task that is to run on, are noticed, and the first of them is told; a task that ends when
    /// it is to is none of them.
    #[tokio::test]
    async fn the_unexpected_end_of_a_task_is_noticed() {
        let supervisor = Supervisor::default();
        let (stop, running) = (CancellationToken::new(), CancellationToken::new());
        stop.cancel();
        tokio::spawn(supervisor.until(stop, "a stopped task", async {})).await.unwrap();
        tokio::spawn(supervisor.to_its_end("a short task", async {})).await.unwrap();
        assert_eq!(supervisor.failure(), None);

        let ended = supervisor.until(running.clone(), "a watch", async {});
        tokio::spawn(ended).await.unwrap();
        assert_eq!(supervisor.failed().await, Ended { task: "a watch".into() });

        let broken = supervisor.to_its_end("a write", async { panic!("of the test") });
        assert!(tokio::spawn(broken).await.unwrap_err().is_panic());
        assert_eq!(supervisor.failed().await, Ended { task: "a watch".into() });

        let supervisor = Supervisor::default();
        let broken = supervisor.until(running, "a watch", async { panic!("of the test") });
        assert!(tokio::spawn(broken).await.unwrap_err().is_panic());
        assert_eq!(supervisor.failure(), Some(Ended { task: "a watch".into() }));
    }
}
