//! Rollouts as transcripts: each file in `transcripts/` is a story of commands, and what came of each.
//! `UPDATE_EXPECT=1 cargo test -p everynode-core --test transcripts` writes what came.

mod support;
mod transcript;

#[test]
fn every_story_goes_as_it_is_told() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/transcripts");
    let mut stories: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of stories")
        .map(|entry| entry.expect("a readable folder").path())
        .collect();
    stories.sort();
    assert!(!stories.is_empty());
    for story in stories {
        let told = std::fs::read_to_string(&story).expect("a readable story");
        expect_test::expect_file![&story].assert_eq(&transcript::run(&told));
    }
}
