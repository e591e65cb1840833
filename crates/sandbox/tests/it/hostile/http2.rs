//! Hostile clients that speak HTTP/2, in frames that no library would send.

use std::time::Duration;

use rand::{Rng, RngExt};
use rand_pcg::Pcg64;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::body::{self, Request};
use super::client::{PATIENCE, Stream, Target};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PRIORITY: u8 = 2;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GOAWAY: u8 = 7;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;
const WINDOW_MAX: u32 = (1 << 31) - 1;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a short payload").to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// The start of a connection whose streams have a window of this size.
fn start(window: u32) -> Vec<u8> {
    let setting = [&INITIAL_WINDOW_SIZE.to_be_bytes()[..], &window.to_be_bytes()].concat();
    let more = (WINDOW_MAX - 65_535).to_be_bytes();
    [PREFACE, &frame(SETTINGS, 0, 0, &setting), &frame(WINDOW_UPDATE, 0, 0, &more)].concat()
}

/// A header block of literals without compression.
fn block(request: &Request) -> Vec<u8> {
    let pseudo: [(&str, &[u8]); 4] = [
        (":method", request.method.as_bytes()),
        (":scheme", b"https"),
        (":authority", b"x"),
        (":path", request.path.as_bytes()),
    ];
    let own = request.headers.iter().map(|(name, value)| (name.as_str(), value.as_slice()));
    let mut block = Vec::new();
    for (name, value) in pseudo.into_iter().chain(own) {
        block.push(0);
        literal(&mut block, name.to_ascii_lowercase().as_bytes());
        literal(&mut block, value);
    }
    block
}

fn literal(block: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text.len();
    if rest < 127 {
        block.push(u8::try_from(rest).expect("less than 127"));
    } else {
        block.push(127);
        rest -= 127;
        while rest >= 128 {
            block.push(u8::try_from(rest % 128).expect("seven bits") | 128);
            rest /= 128;
        }
        block.push(u8::try_from(rest).expect("seven bits"));
    }
    block.extend_from_slice(text);
}

/// The frames of a request; without its end if `ends` is false.
fn frames(request: &Request, stream: u32, ends: bool) -> Vec<u8> {
    let block = block(request);
    let mut chunks = block.chunks(16_000);
    let end = |last: bool| if ends && last { END_STREAM } else { 0 };
    let first = chunks.next().unwrap_or_default();
    let whole = if block.len() <= 16_000 { END_HEADERS } else { 0 };
    let mut bytes = frame(HEADERS, whole | end(request.body.is_empty()), stream, first);
    let rest: Vec<&[u8]> = chunks.collect();
    for (index, chunk) in rest.iter().enumerate() {
        let last = if index + 1 == rest.len() { END_HEADERS } else { 0 };
        bytes.extend(frame(CONTINUATION, last, stream, chunk));
    }
    let chunks: Vec<&[u8]> = request.body.chunks(16_000).collect();
    for (index, chunk) in chunks.iter().enumerate() {
        bytes.extend(frame(DATA, end(index + 1 == chunks.len()), stream, chunk));
    }
    bytes
}

/// Sends while it reads, because neither side may wait for the other. Ends when `streams` responses
/// have ended, the connection has, or after some time; returns the number of responses.
async fn exchange(stream: Stream, bytes: &[u8], streams: u64, patience: Duration) -> u64 {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let write = async {
        let _ = writer.write_all(bytes).await;
        let _ = writer.flush().await;
        std::future::pending::<()>().await;
    };
    let mut answers = Answers::default();
    let read = async {
        let mut buffer = vec![0; 64 * 1024];
        while answers.ended < streams {
            match reader.read(&mut buffer).await {
                Ok(read @ 1..) => answers.receive(&buffer[..read]),
                Ok(0) | Err(_) => return,
            }
        }
    };
    let both = async {
        tokio::select! {
            () = write => {}
            () = read => {}
        }
    };
    // Whatever has come by then is enough.
    let _ = tokio::time::timeout(patience, both).await;
    answers.begun
}

/// The answers on a connection.
#[derive(Default)]
struct Answers {
    received: Vec<u8>,
    begun: u64,
    ended: u64,
}

impl Answers {
    fn receive(&mut self, bytes: &[u8]) {
        self.received.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(head) = self.received.get(at..at + 9) {
            let [kind, flags] = [head[3], head[4]];
            let length = head[..3].iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
            if self.received.len() < at + 9 + length {
                break;
            }
            at += 9 + length;
            self.begun += u64::from(kind == HEADERS);
            let is_last = matches!(kind, HEADERS | DATA) && flags & END_STREAM != 0;
            self.ended += u64::from(is_last || kind == RST_STREAM);
            if kind == GOAWAY {
                self.ended = u64::MAX;
                return;
            }
        }
        self.received.drain(..at);
    }
}

/// Requests that are complete, many at a time.
pub(crate) async fn requests(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    let Some(stream) = target.connect().await else { return (0, 0) };
    let count = rng.random_range(1..60);
    let mut bytes = start(WINDOW_MAX);
    for number in 0..count {
        bytes.extend(frames(&body::request(target, rng), 2 * number + 1, true));
    }
    let answered = exchange(stream, &bytes, u64::from(count), PATIENCE).await;
    (u64::from(count), answered)
}

/// Sends something that the protocol allows or forbids, and no good client sends. Returns the
/// numbers of requests and of answers.
pub(crate) async fn abuse(target: &Target, rng: &mut Pcg64) -> (u64, u64) {
    let Some(stream) = target.connect().await else { return (0, 0) };
    let patience = Duration::from_millis(rng.random_range(50..1_000));
    let (count, bytes, patience) = match rng.random_range(0..13) {
        kind @ 0..5 => {
            let (count, bytes) = many_streams(kind, target, rng);
            (count, bytes, patience)
        }
        5 | 6 => {
            let (count, bytes) = expensive_requests(target, rng);
            (count, bytes, PATIENCE)
        }
        kind => (1, odd_frames(kind, target, rng), patience),
    };
    let answered = exchange(stream, &bytes, u64::from(count), patience).await;
    (u64::from(count), answered)
}

/// Many streams that are reset, have shut windows, or never end.
fn many_streams(kind: u32, target: &Target, rng: &mut Pcg64) -> (u32, Vec<u8>) {
    let count = rng.random_range(50..400);
    let has_shut_windows = kind == 2;
    let mut bytes = start(if has_shut_windows { 0 } else { WINDOW_MAX });
    let list = body::get(target, "/api/v1/pods");
    for number in 0..count {
        let stream = 2 * number + 1;
        if kind > 2 {
            let mut request = body::write(target, rng);
            request.body.truncate(1_000);
            bytes.extend(frames(&request, stream, false));
        } else {
            bytes.extend(frames(&list, stream, true));
        }
        if kind < 2 {
            bytes.extend(frame(RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        }
    }
    (count, bytes)
}

/// A flood of lists and of pods with many errors.
fn expensive_requests(target: &Target, rng: &mut Pcg64) -> (u32, Vec<u8>) {
    let count = rng.random_range(100..600);
    let mut bytes = start(WINDOW_MAX);
    let list = body::get(target, "/api/v1/pods");
    for number in 0..count {
        let errors = (number % 50 == 0).then(|| body::many_errors(target, rng));
        bytes.extend(frames(errors.as_ref().unwrap_or(&list), 2 * number + 1, true));
    }
    (count, bytes)
}

/// Floods of frames that are not requests, and frames of any kind.
fn odd_frames(kind: u32, target: &Target, rng: &mut Pcg64) -> Vec<u8> {
    let mut bytes = start(WINDOW_MAX);
    let list = body::get(target, "/api/v1/pods");
    let mut noise = vec![0; rng.random_range(1..4_000)];
    rng.fill_bytes(&mut noise);
    match kind {
        7 => {
            bytes.extend(frame(HEADERS, END_STREAM, 1, &block(&list)));
            let more = frame(CONTINUATION, 0, 1, &[0, 1, b'a', 1, b'b'].repeat(200));
            bytes.extend(more.repeat(rng.random_range(100..2_000)));
        }
        8 => {
            bytes.extend(frame(PING, 0, 0, &[7; 8]).repeat(5_000));
            bytes.extend(frame(SETTINGS, 0, 0, &[]).repeat(3_000));
        }
        9 => {
            bytes.extend(frames(&list, 1, false));
            bytes.extend(frame(DATA, 0, 1, &[]).repeat(20_000));
        }
        10 => bytes.extend(frame(WINDOW_UPDATE, 0, 0, &WINDOW_MAX.to_be_bytes()).repeat(3)),
        11 => {
            for chunk in noise.chunks(40) {
                let kind = rng.random_range(0..12);
                bytes.extend(frame(kind, rng.random(), rng.random_range(0..5), chunk));
            }
        }
        _ => {
            for (number, chunk) in (0_u32..).zip(noise.chunks(100)) {
                let (headers, priority) = (2 * number + 1, 2 * number + 10_001);
                bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, headers, chunk));
                bytes.extend(frame(PRIORITY, 0, priority, &[0, 0, 0, 1, 9]).repeat(100));
            }
        }
    }
    bytes.extend(frame(SETTINGS, ACK, 0, &[]));
    bytes
}
