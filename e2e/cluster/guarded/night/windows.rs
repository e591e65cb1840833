//! A rollout goes on when a window opens, within two minutes.

use std::time::Duration;

use anyhow::{Result, ensure};

use super::super::windows::policy;
use crate::world::guard::guarded;
use crate::world::manifest::{NEXT_IMAGE, image_patch};
use crate::world::{World, within};

/// Longer than a minute, after which the next window of a minute opens.
const OPENS_WITHIN: Duration = Duration::from_secs(150);

/// G5, G11: a rollout begins when a window opens, although nothing else happens then
#[tokio::test(flavor = "multi_thread")]
async fn a_rollout_begins_when_its_window_opens() -> Result<()> {
    let world = World::cluster(2).await?;
    // In the next minute but one, so that there is time to see that nothing happens before.
    world.roll_out(&guarded("agent", &policy(2..60))).await?;
    world.reaches("agent", "Complete").await?;
    world.patch_daemon_set("agent", image_patch(NEXT_IMAGE)).await?;
    world.reaches("agent", "OutsideWindow").await?;
    let all = world.pods_of("agent").await?.len();
    within(OPENS_WITHIN, "the window opens", async || {
        let images = world.images("agent").await?;
        ensure!(images == [(NEXT_IMAGE.to_owned(), all)].into(), "{images:?}");
        world.stated("agent", "Complete").await
    })
    .await
}
