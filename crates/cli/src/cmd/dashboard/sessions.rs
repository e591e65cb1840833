//! The objects that are read now: each DaemonSet and node once, however many pages show it, as long
//! as somebody looks at one.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use everynode_dashboard::source::{Content, Reading};
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// How long something is read after nobody has looked at it, so that a person who comes back finds
/// it at once.
const LINGER: Duration = Duration::from_secs(60);

/// The sessions of one kind, by what they read.
pub(super) struct Sessions<K, T>(Mutex<BTreeMap<K, Session<T>>>);

struct Session<T> {
    sender: watch::Sender<Reading<T>>,
    task: AbortHandle,
}

impl<K, T> Default for Sessions<K, T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Ord, T: Send + Sync + 'static> Sessions<K, T> {
    /// The session that reads `key`, which `follow` starts if there is none. It ends a while after
    /// its last receiver is gone.
    pub(super) fn open<F>(
        &self,
        key: K,
        follow: impl FnOnce(watch::Sender<Reading<T>>) -> F,
    ) -> watch::Receiver<Reading<T>>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let mut sessions = self.lock();
        sessions.retain(|_, session| !session.task.is_finished());
        let session = sessions.entry(key).or_insert_with(|| {
            let (sender, _) = watch::channel(Reading { content: Content::Loading, lost: None });
            let reading = follow(sender.clone());
            let watched = sender.clone();
            let task = tokio::spawn(async move {
                tokio::select! {
                    () = reading => {}
                    () = unused(&watched) => {}
                }
            });
            Session { sender, task: task.abort_handle() }
        });
        session.sender.subscribe()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Session<T>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits until there has been no receiver for a while.
async fn unused<T>(sender: &watch::Sender<T>) {
    loop {
        sender.closed().await;
        tokio::time::sleep(LINGER).await;
        if sender.receiver_count() == 0 {
            return;
        }
    }
}

/// Publishes new content, read over a working connection.
pub(super) fn publish<T>(sender: &watch::Sender<Reading<T>>, content: Content<T>) {
    sender.send_replace(Reading { content, lost: None });
}
