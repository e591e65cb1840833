//! The pods of the API server that pull images (G55).

use super::*;

/// The pullers, and what decides how they end.
#[derive(Default)]
pub(crate) struct Pullers {
    pub pods: BTreeMap<NodeName, ImagePuller>,
    /// The nodes whose status lists the images.
    pub listed: BTreeSet<NodeName>,
    created: u64,
}

impl World {
    /// Creates a puller, unless the node lists the images.
    pub(super) fn pull_images(&mut self, new: &NewPuller) -> Outcome {
        let pullers = &mut self.server.pullers;
        if pullers.listed.contains(&new.node) {
            return Outcome::ImagesPresent;
        }
        if pullers.pods.contains_key(&new.node) {
            return Outcome::Unknown { message: "it already exists".to_owned() };
        }
        pullers.created += 1;
        let uid = Uid::new(&format!("pull-{}", pullers.created));
        self.put_puller(ImagePuller {
            namespace: "ns".into(),
            name: format!("pull-{}", new.node).into(),
            uid: uid.clone(),
            daemon_set: DS_UID.into(),
            revision: new.hash.clone(),
            node: new.node.clone(),
            creation_timestamp: self.now,
            terminating: false,
            state: PullState::Pulling,
        });
        self.written(&uid)
    }

    pub(crate) fn put_puller(&mut self, puller: ImagePuller) {
        self.server.next_version();
        self.server.pullers.pods.insert(puller.node.clone(), puller.clone());
        self.events.push_back(Event::Puller(puller));
        self.deliver();
    }

    pub(super) fn delete_puller(&mut self, uid: &Uid) -> Outcome {
        let mut pods = self.server.pullers.pods.values();
        let Some(node) = pods.find(|it| it.uid == *uid).map(|it| it.node.clone()) else {
            return Outcome::Gone;
        };
        self.remove_puller(&node);
        self.written(uid)
    }

    pub(crate) fn remove_puller(&mut self, node: &NodeName) {
        self.server.next_version();
        if let Some(puller) = self.server.pullers.pods.remove(node) {
            self.events.push_back(Event::PullerGone(puller));
            self.deliver();
        }
    }
}
