//! A real browser without a window: Chromium, driven over the pipe of its DevTools protocol.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use base64::Engine as _;
use rustix::process::{Pid, Signal, kill_process_group, test_kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::{POLL_INTERVAL, deadline};

/// The browser to use, or `none` to leave the tests out that need one.
const VARIABLE: &str = "EVERYNODE_BROWSER";
const NAMES: [&str; 5] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// Maximum time for an answer of the browser.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum time in which killed processes end.
const END_TIMEOUT: Duration = Duration::from_secs(5);

pub(crate) struct Browser {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    last_id: u64,
    session: String,
    /// The requests of pages, except those for data.
    pub requests: Vec<String>,
    /// Errors of scripts, and what a policy has blocked.
    pub errors: Vec<String>,
    _profile: tempfile::TempDir,
}

/// The program of the browser; `None` if the tests are to be left out.
///
/// # Errors
/// If there is none.
pub(crate) fn program() -> Result<Option<PathBuf>> {
    match std::env::var_os(VARIABLE) {
        Some(name) if name == "none" => {
            eprintln!("LEFT OUT, because {VARIABLE}=none: this test needs a browser");
            return Ok(None);
        }
        Some(path) if !path.is_empty() => return Ok(Some(path.into())),
        Some(_) | None => {}
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let files = NAMES.iter().flat_map(|name| {
        std::env::split_paths(&path).map(move |folder| folder.join(name)).collect::<Vec<_>>()
    });
    let found = files.into_iter().find(|file| file.is_file());
    Ok(Some(found.with_context(|| {
        format!(
            "the dashboard is tested in a browser: apt-get install chromium-headless-shell, or set \
             {VARIABLE} to a Chromium; {VARIABLE}=none leaves these tests out"
        )
    })?))
}

impl Browser {
    /// Starts the browser with an empty profile and an empty page.
    pub(crate) async fn start(program: &Path) -> Result<Self> {
        let profile = tempfile::Builder::new().prefix("everynode-browser-").tempdir()?;
        let mut command = Command::new("sh");
        // Chromium reads from descriptor 3 and writes to 4.
        command.args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1"]);
        command.arg(program).args([
            "--headless",
            "--remote-debugging-pipe",
            "--no-first-run",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--disable-background-networking",
            "--hide-scrollbars",
            "--force-color-profile=srgb",
        ]);
        if rustix::process::geteuid().is_root() {
            // Chromium refuses to build its own sandbox as root.
            command.arg("--no-sandbox");
        }
        command.arg(format!("--user-data-dir={}", profile.path().display()));
        let mut child = command
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .with_context(|| format!("start {}", program.display()))?;
        let input = child.stdin.take().context("it is piped")?;
        let output = BufReader::new(child.stdout.take().context("it is piped")?);
        let mut browser = Self {
            child,
            input,
            output,
            last_id: 0,
            session: String::new(),
            requests: Vec::new(),
            errors: Vec::new(),
            _profile: profile,
        };
        let opened = browser.open_page().await;
        opened.with_context(|| format!("{} is no browser that works", program.display()))?;
        Ok(browser)
    }

    async fn open_page(&mut self) -> Result<()> {
        let target = self.call("Target.createTarget", json!({"url": "about:blank"})).await?;
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = self.call("Target.attachToTarget", attach).await?;
        self.session = attached["sessionId"].as_str().context("it has a session")?.to_owned();
        for domain in ["Page", "Runtime", "Network", "Log"] {
            self.call(&format!("{domain}.enable"), json!({})).await?;
        }
        self.resize(1200, 900).await
    }

    /// Calls a method of the protocol.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Value> {
        self.last_id += 1;
        let mut message = json!({"id": self.last_id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.input.write_all(message.to_string().as_bytes()).await?;
        self.input.write_all(b"\0").await?;
        let answer = tokio::time::timeout(ANSWER_TIMEOUT, self.answer()).await;
        answer.with_context(|| format!("{method}: no answer"))?.with_context(|| method.to_owned())
    }

    async fn answer(&mut self) -> Result<Value> {
        loop {
            let mut bytes = Vec::new();
            let count = self.output.read_until(0, &mut bytes).await?;
            ensure!(count > 0, "the browser has ended");
            bytes.pop();
            let mut message: Value = serde_json::from_slice(&bytes)?;
            if message["id"] == self.last_id {
                ensure!(message["error"].is_null(), "{}", message["error"]);
                return Ok(message["result"].take());
            }
            self.record(&message);
        }
    }

    fn record(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Network.requestWillBeSent" => {
                let url = params["request"]["url"].as_str().unwrap_or_default();
                self.requests.push(url.to_owned());
            }
            "Runtime.exceptionThrown" => self.errors.push(params["exceptionDetails"].to_string()),
            "Log.entryAdded" if params["entry"]["level"] == "error" => {
                self.errors.push(params["entry"].to_string());
            }
            _ => {}
        }
    }

    /// Opens a URL, and waits until its document is complete.
    pub(crate) async fn open(&mut self, url: &str) -> Result<()> {
        let opened = self.call("Page.navigate", json!({"url": url})).await?;
        ensure!(opened["errorText"].is_null(), "{url}: {}", opened["errorText"]);
        self.holds("document.readyState == 'complete'").await
    }

    /// The value of an expression of JavaScript; a promise is waited for.
    pub(crate) async fn value(&mut self, expression: &str) -> Result<Value> {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let mut result = self.call("Runtime.evaluate", params).await?;
        ensure!(
            result["exceptionDetails"].is_null(),
            "{expression}: {}",
            result["exceptionDetails"]
        );
        Ok(result["result"]["value"].take())
    }

    /// The text that a person sees.
    pub(crate) async fn text(&mut self) -> Result<String> {
        let text = self.value("document.body?.innerText ?? ''").await?;
        Ok(text.as_str().unwrap_or_default().to_owned())
    }

    /// Waits until an expression is true. A page that is being replaced has no answer.
    pub(crate) async fn holds(&mut self, expression: &str) -> Result<()> {
        let started = Instant::now();
        let mut ticks = tokio::time::interval(POLL_INTERVAL);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let found = self.value(expression).await;
            if matches!(found, Ok(Value::Bool(true))) {
                return Ok(());
            }
            if started.elapsed() > deadline() {
                let text = self.text().await.unwrap_or_default();
                bail!(
                    "not true: {expression} ({found:?}); errors {:?}; the page is\n{text}",
                    self.errors
                );
            }
        }
    }

    /// Waits until the page shows a text; returns how long that took.
    pub(crate) async fn shows(&mut self, text: &str) -> Result<Duration> {
        let started = Instant::now();
        let quoted = Value::from(text);
        self.holds(&format!("document.body.innerText.includes({quoted})")).await?;
        Ok(started.elapsed())
    }

    /// Starts to watch the first state that the page shows.
    pub(crate) async fn watch_state(&mut self) -> Result<()> {
        self.value(
            "(() => { const text = () => document.querySelector('[data-state]').innerText; \
             const before = text(); window.changed = new Promise((done) => { \
             const look = () => text() == before ? setTimeout(look, 5) : done(); \
             look(); }); })()",
        )
        .await?;
        Ok(())
    }

    /// Waits until that state has changed.
    pub(crate) async fn state_changed(&mut self) -> Result<()> {
        self.value("window.changed.then(() => true)").await?;
        Ok(())
    }

    /// Clicks on an element with the mouse.
    pub(crate) async fn click(&mut self, selector: &str) -> Result<()> {
        let quoted = Value::from(selector);
        let there = format!("!!document.querySelector({quoted})");
        self.holds(&format!("document.readyState == 'complete' && {there}")).await?;
        ensure!(self.click_if_there(selector).await?, "{selector} is gone");
        Ok(())
    }

    /// Clicks on an element if the page has it; returns whether it has. Before its style sheet is
    /// there, a page moves, and counts as without the element.
    ///
    /// A live page may also move after it was asked where the element is. It does not while the
    /// button is pressed, so the button is released there only if the element is still there.
    async fn click_if_there(&mut self, selector: &str) -> Result<bool> {
        let quoted = Value::from(selector);
        let started = Instant::now();
        while started.elapsed() < deadline() {
            let place = self
                .value(&format!(
                    "(() => {{ const element = document.querySelector({quoted}); \
                     if (!element || document.readyState != 'complete') return null; \
                     element.scrollIntoView({{block: 'center'}}); \
                     const box = element.getClientRects()[0]; \
                     return [box.x + box.width / 2, box.y + box.height / 2]; }})()"
                ))
                .await?;
            if place.is_null() {
                return Ok(false);
            }
            let (x, y) = (&place[0], &place[1]);
            self.mouse("mousePressed", x, y).await?;
            let is_there = format!(
                "!!document.querySelector({quoted})?.contains(document.elementFromPoint({x}, {y}))"
            );
            if self.value(&is_there).await? == true {
                self.mouse("mouseReleased", x, y).await?;
                return Ok(true);
            }
            let outside = Value::from(-1);
            self.mouse("mouseReleased", &outside, &outside).await?;
            self.value("getSelection().removeAllRanges()").await?;
        }
        bail!("{selector} moves, or is covered by something else")
    }

    /// Clicks at a place of the window, in pixels.
    pub(crate) async fn click_at(&mut self, x: &Value, y: &Value) -> Result<()> {
        self.mouse("mousePressed", x, y).await?;
        self.mouse("mouseReleased", x, y).await
    }

    async fn mouse(&mut self, kind: &str, x: &Value, y: &Value) -> Result<()> {
        let params = json!({"type": kind, "x": x, "y": y, "button": "left", "clickCount": 1});
        self.call("Input.dispatchMouseEvent", params).await.map(drop)
    }

    /// Presses a key, such as `Tab` or `Enter`.
    pub(crate) async fn press(&mut self, key: &str) -> Result<()> {
        let (code, text) = match key {
            "Tab" => (9, None),
            "Enter" => (13, Some("\r")),
            "/" => (191, Some("/")),
            letter if letter.len() == 1 => (0, Some(letter)),
            other => bail!("no key {other}"),
        };
        let mut params =
            json!({"type": "keyDown", "key": key, "code": key, "windowsVirtualKeyCode": code});
        if let Some(text) = text {
            params["text"] = text.into();
        }
        self.call("Input.dispatchKeyEvent", params.clone()).await?;
        params["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", params).await.map(drop)
    }

    /// Sets the size of the window in pixels.
    pub(crate) async fn resize(&mut self, width: u32, height: u32) -> Result<()> {
        let size = json!({"width": width, "height": height, "deviceScaleFactor": 1,
            "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size).await.map(drop)
    }

    /// Shows pages dark, or light.
    pub(crate) async fn set_dark(&mut self, dark: bool) -> Result<()> {
        let value = if dark { "dark" } else { "light" };
        let features = json!([{"name": "prefers-color-scheme", "value": value}]);
        self.call("Emulation.setEmulatedMedia", json!({"features": features})).await.map(drop)
    }

    /// Lets pages run scripts, or not.
    pub(crate) async fn set_scripts(&mut self, run: bool) -> Result<()> {
        self.call("Emulation.setScriptExecutionDisabled", json!({"value": !run})).await.map(drop)
    }

    /// A picture of the window as PNG, without the empty space below the page.
    pub(crate) async fn picture(&mut self) -> Result<Vec<u8>> {
        let size =
            self.value("[innerWidth, Math.min(innerHeight, document.body.scrollHeight)]").await?;
        let clip = json!({"x": 0, "y": 0, "width": size[0], "height": size[1], "scale": 1});
        let params = json!({"format": "png", "clip": clip});
        let picture = self.call("Page.captureScreenshot", params).await?;
        let data = picture["data"].as_str().context("it has data")?;
        Ok(base64::engine::general_purpose::STANDARD.decode(data)?)
    }
}

impl Drop for Browser {
    /// Kills the browser with its helpers: one that still runs writes into the profile while it is
    /// removed, and some of it stays.
    fn drop(&mut self) {
        let group = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed()));
        let Some(group) = group else { return };
        if let Err(error) = kill_process_group(group, Signal::KILL) {
            eprintln!("end the browser: {error}");
        }
        let started = Instant::now();
        while test_kill_process_group(group).is_ok() && started.elapsed() < END_TIMEOUT {
            // The main process is a zombie of its group until it is waited for.
            let _ = self.child.try_wait();
            std::thread::park_timeout(Duration::from_millis(1));
        }
    }
}
