//! A pseudoterminal with a program: its screen, its keys, its size.

use std::fs::File;
use std::io::{Read, Write};
use std::num::NonZeroU16;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result, bail, ensure};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};

use super::process::everynode_program;
use super::{World, eventually};

pub(crate) struct Terminal {
    child: Child,
    ours: File,
    screen: Arc<Mutex<vt100::Parser>>,
    /// Ends when the program's output ends.
    reader: Option<JoinHandle<()>>,
}

impl Terminal {
    /// Starts `everynode` with these arguments in the test's namespace, in a terminal of this size
    /// (columns, rows).
    pub(crate) fn start(world: &World, arguments: &[&str], size: (u16, u16)) -> Result<Terminal> {
        let arguments = [arguments, &["--namespace", &world.namespace]].concat();
        Self::with(world, everynode_program(), &arguments, size)
    }

    /// Starts any program with the test's kubeconfig and a separate home directory.
    pub(crate) fn with(
        world: &World,
        program: &str,
        arguments: &[&str],
        size: (u16, u16),
    ) -> Result<Terminal> {
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY)?;
        grantpt(&ours)?;
        unlockpt(&ours)?;
        let path = ptsname(&ours, Vec::new())?;
        let ours = File::from(ours);
        tcsetwinsize(&ours, winsize(size))?;
        let theirs = Path::new(std::ffi::OsStr::from_bytes(path.to_bytes()));
        let theirs = File::options().read(true).write(true).open(theirs)?;
        // As a shell's foreground job: the program has a controlling terminal, and receives
        // SIGWINCH and SIGINT.
        let child = Command::new("setsid")
            .args(["--ctty", program])
            .args(arguments)
            .env("KUBECONFIG", &world.kubeconfig)
            .env("HOME", world.directory.path())
            .env("TERM", "xterm-256color")
            .env_remove("NO_COLOR")
            .stdin(theirs.try_clone()?)
            .stdout(theirs.try_clone()?)
            .stderr(theirs)
            .spawn()
            .context("start setsid")?;
        let (rows, columns) = rows_and_columns(size)?;
        let screen = Arc::new(Mutex::new(vt100::Parser::new(rows, columns, 0)));
        let mut reads = ours.try_clone()?;
        let shown = screen.clone();
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // Reading fails when the program has ended.
            while let Ok(count @ 1..) = reads.read(&mut bytes) {
                shown.lock().unwrap_or_else(PoisonError::into_inner).process(&bytes[..count]);
            }
        });
        Ok(Terminal { child, ours, screen, reader: Some(reader) })
    }

    pub(crate) fn resize(&self, size: (u16, u16)) -> Result<()> {
        let (rows, columns) = rows_and_columns(size)?;
        self.parser(|parser| parser.set_size(rows, columns));
        Ok(tcsetwinsize(&self.ours, winsize(size))?)
    }

    pub(crate) fn press(&mut self, keys: &str) -> Result<()> {
        Ok(self.ours.write_all(keys.as_bytes())?)
    }

    pub(crate) fn text(&self) -> String {
        self.parser(|parser| parser.screen().contents())
    }

    /// True if a cell has a colour.
    pub(crate) fn has_colours(&self) -> bool {
        self.parser(|parser| {
            let (rows, columns) = parser.screen().size();
            let cells = (0..rows.get()).flat_map(|row| (0..columns.get()).map(move |at| (row, at)));
            let mut colours = cells.filter_map(|(row, column)| {
                parser.screen().cell(row, column).map(vt100::Cell::fgcolor)
            });
            colours.any(|colour| colour != vt100::Color::Default)
        })
    }

    pub(crate) async fn shows(&self, expected: &str) -> Result<()> {
        self.comes_to_show(&format!("{expected:?}"), |text| text.contains(expected)).await
    }

    /// Waits until the screen is as expected: a text read at once may be half of a frame.
    pub(crate) async fn comes_to_show(
        &self,
        expected: &str,
        is_shown: impl Fn(&str) -> bool,
    ) -> Result<()> {
        eventually(&format!("the terminal shows {expected}"), async || {
            let text = self.text();
            ensure!(is_shown(&text), "it shows\n{text}");
            Ok(())
        })
        .await
    }

    pub(crate) fn signal(&self, name: &str) -> Result<()> {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args(["-s", name, &id]).status()?;
        if status.success() { Ok(()) } else { bail!("kill -s {name} failed") }
    }

    /// The exit status, after the complete output is on the screen.
    pub(crate) fn finished(&mut self) -> Result<ExitStatus> {
        if let Some(reader) = self.reader.take() {
            reader.join().map_err(|_| anyhow::anyhow!("the terminal's reader panicked"))?;
        }
        Ok(self.child.wait()?)
    }

    /// The exit status; fails if the program has left the terminal in another mode.
    pub(crate) async fn ended(&mut self) -> Result<ExitStatus> {
        let status = eventually("the program ends", async || {
            self.child.try_wait()?.with_context(|| format!("it shows\n{}", self.text()))
        })
        .await?;
        eventually("the terminal is as it was", async || {
            let (alternate, hidden) = self.parser(|parser| {
                (parser.screen().alternate_screen(), parser.screen().hide_cursor())
            });
            ensure!(!alternate && !hidden, "alternate screen: {alternate}, no cursor: {hidden}");
            Ok(())
        })
        .await?;
        let modes = tcgetattr(&self.ours)?.local_modes;
        let cooked = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        ensure!(modes.contains(cooked), "the terminal is left raw: {modes:?}");
        Ok(status)
    }

    fn parser<T>(&self, use_it: impl FnOnce(&mut vt100::Parser) -> T) -> T {
        use_it(&mut self.screen.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the terminal shows:\n{}", self.text());
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn winsize((columns, rows): (u16, u16)) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

fn rows_and_columns((columns, rows): (u16, u16)) -> Result<(NonZeroU16, NonZeroU16)> {
    let (rows, columns) = (NonZeroU16::new(rows), NonZeroU16::new(columns));
    rows.zip(columns).context("a terminal has rows and columns")
}
