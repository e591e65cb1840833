//! Supervises the tasks that a replica needs. A task that ends unexpectedly, for example by a
//! panic, ends the replica: otherwise the rest would look alive and keep other replicas from
//! leading.

use std::borrow::Cow;

use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A task that ended unexpectedly.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{task} ended unexpectedly: a bug in everynode")]
pub struct TaskEnded {
    task: Cow<'static, str>,
}

/// Records the first task that ends unexpectedly. Clones share the record.
#[derive(Clone, Debug, Default)]
pub struct Supervisor(watch::Sender<Option<TaskEnded>>);

impl Supervisor {
    /// Wraps a task that must run until `stop` is cancelled.
    pub fn supervise_until<N: Into<Cow<'static, str>>, F: Future<Output = ()>>(
        &self,
        stop: CancellationToken,
        task: N,
        work: F,
    ) -> impl Future<Output = ()> + use<N, F> {
        let guard = self.guard(task);
        async move {
            work.await;
            guard.end(stop.is_cancelled());
        }
    }

    /// Wraps a task that may finish at any time, but must not panic or be dropped before.
    pub fn supervise<F: Future>(
        &self,
        task: &'static str,
        work: F,
    ) -> impl Future<Output = F::Output> + use<F> {
        let guard = self.guard(task);
        async move {
            let result = work.await;
            guard.end(true);
            result
        }
    }

    /// Waits until a task has ended unexpectedly.
    pub async fn wait_for_failure(&self) -> TaskEnded {
        let mut ended = self.0.subscribe();
        let first = ended.wait_for(Option::is_some).await.ok().and_then(|first| first.clone());
        match first {
            Some(first) => first,
            // The sender lives as long as `self`.
            None => std::future::pending().await,
        }
    }

    /// The first task that ended unexpectedly, if any.
    pub fn failure(&self) -> Option<TaskEnded> {
        self.0.borrow().clone()
    }

    fn guard(&self, task: impl Into<Cow<'static, str>>) -> Guard {
        Guard { supervisor: self.clone(), task: task.into(), ended_as_expected: false }
    }
}

/// Lives as long as its task, and reports it when dropped.
struct Guard {
    supervisor: Supervisor,
    task: Cow<'static, str>,
    ended_as_expected: bool,
}

impl Guard {
    /// Takes `self` by value so that the task's future captures the whole guard, not one field.
    fn end(mut self, as_expected: bool) {
        self.ended_as_expected = as_expected;
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if !self.ended_as_expected {
            // The first failure is the cause of the others.
            let ended = TaskEnded { task: std::mem::take(&mut self.task) };
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

    /// C65: a panic and an early end are recorded, the first of them only; a task that ends when it
    /// may is not recorded.
    #[tokio::test]
    async fn an_unexpected_end_of_a_task_is_recorded() {
        let supervisor = Supervisor::default();
        let (stop, running) = (CancellationToken::new(), CancellationToken::new());
        stop.cancel();
        tokio::spawn(supervisor.supervise_until(stop, "a stopped task", async {})).await.unwrap();
        tokio::spawn(supervisor.supervise("a short task", async {})).await.unwrap();
        assert_eq!(supervisor.failure(), None);

        let ended = supervisor.supervise_until(running.clone(), "a watch", async {});
        tokio::spawn(ended).await.unwrap();
        assert_eq!(supervisor.wait_for_failure().await, TaskEnded { task: "a watch".into() });

        let broken = supervisor.supervise("a write", async { panic!("in a test") });
        assert!(tokio::spawn(broken).await.unwrap_err().is_panic());
        assert_eq!(supervisor.wait_for_failure().await, TaskEnded { task: "a watch".into() });

        let supervisor = Supervisor::default();
        let broken = supervisor.supervise_until(running, "a watch", async { panic!("in a test") });
        assert!(tokio::spawn(broken).await.unwrap_err().is_panic());
        assert_eq!(supervisor.failure(), Some(TaskEnded { task: "a watch".into() }));
    }
}
