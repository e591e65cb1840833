//! `everynode watch`: a live view of one DaemonSet on a terminal, else lines of text at each
//! change.

#[cfg(test)]
mod example;
pub(crate) mod keys;
pub(crate) mod screen;
pub(crate) mod session;
pub(crate) mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::EventStream;
use everynode_insight::rollout::Awaited;
use futures::StreamExt;
use ratatui::DefaultTerminal;
use ratatui::text::Text;
use rustix::process::{Signal, getpid, kill_process};
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::status;
use crate::args::WatchArguments;
use crate::clock;
use crate::cluster::Cluster;
use crate::output::{self, TextLayout};
use crate::signal;
use keys::Key;
use screen::Palette;
use session::Session;

/// The minimum time between two redraws.
pub(crate) const FRAME_INTERVAL: Duration = Duration::from_millis(250);

/// Executes the command.
pub(crate) async fn execute(arguments: WatchArguments) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    if arguments.no_tty || !can_draw() {
        let (name, until_done) = (&arguments.daemon_set, arguments.until_done);
        let awaited = status::awaited(arguments.all_nodes);
        return status::print_changes(&cluster, name, until_done, awaited).await;
    }
    let layout = TextLayout::stdout(arguments.color.color);
    let start = Session::start(cluster, arguments.daemon_set);
    let mut session = output::while_reading(start).await?;
    let shutdown = signal::shutdown()?;
    let palette = Palette { color: layout.color };
    let until_done = arguments.until_done.then_some(status::awaited(arguments.all_nodes));
    with_terminal(async |mut terminal| {
        let mut keys = EventStream::new();
        show(&mut session, &mut terminal, &mut keys, palette, until_done, &shutdown).await
    })
    .await?;
    let Some(awaited) = until_done else { return Ok(ExitCode::SUCCESS) };
    let rollout = session.rollout(clock::now(), awaited)?;
    output::print(&status::display::text(&rollout, layout))?;
    Ok(status::current_result(&rollout).into())
}

/// Switches the terminal to full-screen mode while `show` runs, and restores it afterwards. A panic
/// hook of ratatui restores it, too.
pub(crate) async fn with_terminal<T>(
    show: impl AsyncFnOnce(DefaultTerminal) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let terminal = ratatui::try_init()?;
    let result = show(terminal).await;
    ratatui::restore();
    result
}

/// Stops the process until the shell continues it, as Ctrl-Z does with other programs.
pub(crate) fn suspend(terminal: &mut DefaultTerminal) -> anyhow::Result<()> {
    ratatui::restore();
    kill_process(getpid(), Signal::TSTP)?;
    // An empty screen, without asking the terminal for its cursor: the keys are read meanwhile.
    *terminal = ratatui::try_init()?;
    Ok(())
}

/// How a live view ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// The user wants to go back.
    Back,
    /// The user quits, a signal arrived, or the rollout is over.
    Quit,
}

/// Handles events and redraws until the user quits, or the rollout is done on the nodes that
/// `until_done` names.
pub(crate) async fn show(
    session: &mut Session,
    terminal: &mut DefaultTerminal,
    keys: &mut EventStream,
    palette: Palette,
    until_done: Option<Awaited>,
    shutdown: &CancellationToken,
) -> anyhow::Result<End> {
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            update = session.next_update() => {
                session.handle_update(update)?;
                false
            }
            event = keys.next() => match event.transpose()? {
                None => return Ok(End::Quit),
                Some(event) if keys::is_suspend(&event) => {
                    suspend(terminal)?;
                    true
                }
                Some(event) => match keys::key(&event) {
                    Some(Key::Quit) => return Ok(End::Quit),
                    Some(Key::Back) => return Ok(End::Back),
                    Some(key) => session.handle_key(key),
                    None => keys::is_resize(&event),
                },
            },
            _ = frames.tick() => session.refresh(clock::now()).await,
            () = shutdown.cancelled() => return Ok(End::Quit),
        };
        if is_due {
            let view = session.view(clock::now());
            terminal.draw(|frame| {
                let size = (frame.area().width, frame.area().height);
                let lines = screen::lines(&view, session.position(), size, palette);
                frame.render_widget(Text::from(lines), frame.area());
            })?;
        }
        if until_done.is_some_and(|awaited| session.is_over(clock::now(), awaited)) {
            return Ok(End::Quit);
        }
    }
}

/// True if standard output is a terminal that can position its cursor.
pub(crate) fn can_draw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set in the process that the test starts in a terminal, to panic there.
    const IN_A_TERMINAL: &str = "EVERYNODE_TEST_PANICS";

    #[tokio::test]
    async fn a_panic_restores_the_terminal() {
        if std::env::var_os(IN_A_TERMINAL).is_some() {
            let _: anyhow::Result<()> = with_terminal(async |_| panic!("on purpose")).await;
        }
        let program = std::env::current_exe().expect("a test is a program");
        let line = format!(
            "stty cols 80 rows 24; {} --exact cmd::watch::tests::a_panic_restores_the_terminal \
             --nocapture; stty -a",
            program.display()
        );
        let output = Command::new("script")
            .args(["--quiet", "--command", &line, "/dev/null"])
            .env(IN_A_TERMINAL, "1")
            .env("TERM", "xterm-256color")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("script of util-linux is installed");
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, after) = text.split_once("\u{1b}[?1049h").expect("it enters the alternate screen");
        let (_, after) = after.split_once("\u{1b}[?1049l").expect("it leaves the alternate screen");
        assert!(after.contains("on purpose"), "{text}");
        let (_, modes) = after.split_once("rows 24").expect("stty prints the terminal's modes");
        assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    }
}
