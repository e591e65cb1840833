//! `everynode watch`: a live view of one DaemonSet, or a few lines at each change where nobody looks.

#[cfg(test)]
mod example;
mod keys;
mod screen;
mod session;
mod view;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::Duration;

use crossterm::event::EventStream;
use everynode_core::api::Timestamp;
use futures::StreamExt;
use ratatui::DefaultTerminal;
use ratatui::text::Text;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;

use super::status;
use crate::args::WatchArguments;
use crate::cluster::Cluster;
use crate::output::{self, Screen};
use crate::signal;
use keys::Key;
use screen::Palette;
use session::Session;

/// Between two looks at whether there is anything new to show.
const FRAME_INTERVAL: Duration = Duration::from_millis(250);

pub async fn execute(arguments: WatchArguments) -> anyhow::Result<ExitCode> {
    let cluster = Cluster::connect(&arguments.connection).await?;
    if arguments.no_tty || !can_draw() {
        return status::tell(&cluster, &arguments.daemon_set, arguments.until_done).await;
    }
    let color = Screen::stdout(arguments.color.color);
    let mut session = Session::start(cluster, arguments.daemon_set).await?;
    let shutdown = signal::shutdown()?;
    let palette = Palette { color: color.color };
    let until_done = arguments.until_done;
    on_screen(async |terminal| {
        follow(&mut session, terminal, palette, until_done, &shutdown).await
    })
    .await?;
    if !arguments.until_done {
        return Ok(ExitCode::SUCCESS);
    }
    let rollout = session.rollout(now())?;
    output::print(&status::display::text(&rollout, color))?;
    Ok(status::outcome(&rollout).into())
}

/// Has the terminal to itself meanwhile, and gives it back whatever happens: a panic hook does it, too.
async fn on_screen(
    show: impl AsyncFnOnce(DefaultTerminal) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let terminal = ratatui::try_init()?;
    let result = show(terminal).await;
    ratatui::restore();
    result
}

/// Redraws until it is left, or done if that is what is waited for.
async fn follow(
    session: &mut Session,
    mut terminal: DefaultTerminal,
    palette: Palette,
    until_done: bool,
    shutdown: &CancellationToken,
) -> anyhow::Result<()> {
    let mut keys = EventStream::new();
    let mut frames = tokio::time::interval(FRAME_INTERVAL);
    frames.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            news = session.news() => {
                session.hear(news)?;
                false
            }
            event = keys.next() => match event.transpose()? {
                None => return Ok(()),
                Some(event) => match keys::key(&event) {
                    Some(Key::Quit) => return Ok(()),
                    Some(key) => session.press(key),
                    None => keys::is_resize(&event),
                },
            },
            _ = frames.tick() => session.look(now()).await,
            () = shutdown.cancelled() => return Ok(()),
        };
        if is_due {
            let view = session.view(now());
            terminal.draw(|frame| {
                let size = (frame.area().width, frame.area().height);
                let lines = screen::lines(&view, session.position(), size, palette);
                frame.render_widget(Text::from(lines), frame.area());
            })?;
        }
        if until_done && session.is_over() {
            return Ok(());
        }
    }
}

/// A terminal that can move its cursor.
fn can_draw() -> bool {
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    std::io::stdout().is_terminal() && !is_dumb
}

fn now() -> Timestamp {
    Timestamp(jiff::Timestamp::now().as_millisecond())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// Set where this very test runs in a terminal, to panic there.
    const IN_A_TERMINAL: &str = "EVERYNODE_TEST_PANICS";

    #[tokio::test]
    async fn a_panic_gives_the_terminal_back() {
        if std::env::var_os(IN_A_TERMINAL).is_some() {
            let _: anyhow::Result<()> = on_screen(async |_| panic!("on purpose")).await;
        }
        let program = std::env::current_exe().expect("a test is a program");
        let line = format!(
            "stty cols 80 rows 24; {} --exact cmd::watch::tests::a_panic_gives_the_terminal_back --nocapture; stty -a",
            program.display()
        );
        let output = Command::new("script")
            .args(["--quiet", "--command", &line, "/dev/null"])
            .env(IN_A_TERMINAL, "1")
            .env("TERM", "xterm-256color")
            .stdin(std::process::Stdio::null())
            .output()
            .expect("script of util-linux is there");
        let text = String::from_utf8_lossy(&output.stdout);
        let (_, after) = text.split_once("\u{1b}[?1049h").expect("it takes the screen");
        let (_, after) = after.split_once("\u{1b}[?1049l").expect("it gives the screen back");
        assert!(after.contains("on purpose"), "{text}");
        let (_, modes) = after.split_once("rows 24").expect("stty says how the terminal is left");
        assert!(modes.contains(" icanon") && modes.contains(" echo "), "{modes}");
    }
}
