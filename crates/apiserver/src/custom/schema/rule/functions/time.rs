//! Durations and times (cel-go's `Duration` and `Timestamp`).

use std::cmp::Ordering;

use cel::common::traits::{Adder, Comparer, Subtractor};
use cel::common::types::{CelInt, CelString};
use cel::common::value::{CowVal, Val};
use cel::{DeclarationError, Env, ExecutionError, add_overload};
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

use super::{failed, getters, opaque};

/// A duration in nanoseconds.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Span(pub i64);

/// A point in time.
#[derive(Clone, Debug, PartialEq)]
pub(in super::super) struct Moment(pub Timestamp);

opaque!(Span, "google.protobuf.Duration", as_comparer: Comparer, as_adder: Adder,
    as_subtractor: Subtractor);
opaque!(Moment, "google.protobuf.Timestamp", as_comparer: Comparer, as_adder: Adder,
    as_subtractor: Subtractor);

pub(super) fn extension(env: &mut Env) -> Result<(), DeclarationError> {
    add_overload!(env, fn duration: (CelString) -> Result<Span>, name = "duration")?;
    add_overload!(env, fn same_duration: (Span) -> Span, name = "duration")?;
    add_overload!(env, fn duration_text: (Span) -> CelString, name = "string")?;
    add_overload!(env, fn timestamp: (CelString) -> Result<Moment>, name = "timestamp")?;
    add_overload!(env, fn of_seconds: (CelInt) -> Result<Moment>, name = "timestamp")?;
    add_overload!(env, fn same_timestamp: (Moment) -> Moment, name = "timestamp")?;
    add_overload!(env, fn timestamp_text: (Moment) -> CelString, name = "string")?;
    add_overload!(env, fn unix_seconds: (Moment) -> CelInt, name = "int")?;
    getters!(env, Span => CelInt:
        "getHours" = |span| CelInt::from(span.0 / 3_600_000_000_000);
        "getMinutes" = |span| CelInt::from(span.0 / 60_000_000_000);
        "getSeconds" = |span| CelInt::from(span.0 / 1_000_000_000);
        "getMilliseconds" = |span| CelInt::from(span.0 / 1_000_000);
    );
    // Months, and days but for `getDate`, count from zero.
    getters!(env, Moment => CelInt:
        "getFullYear" = |moment| integer(moment.zoned().year());
        "getMonth" = |moment| integer(moment.zoned().month() - 1);
        "getDate" = |moment| integer(moment.zoned().day());
        "getDayOfMonth" = |moment| integer(moment.zoned().day() - 1);
        "getDayOfWeek" = |moment| integer(moment.zoned().weekday().to_sunday_zero_offset());
        "getDayOfYear" = |moment| integer(moment.zoned().day_of_year() - 1);
        "getHours" = |moment| integer(moment.zoned().hour());
        "getMinutes" = |moment| integer(moment.zoned().minute());
        "getSeconds" = |moment| integer(moment.zoned().second());
        "getMilliseconds" = |moment| integer(moment.zoned().millisecond());
    );
    Ok(())
}

impl Span {
    /// Parses a duration as Go's `time.ParseDuration` does: `1h30m`, `-1.5s`, `0`.
    pub(in super::super) fn parse(text: &str) -> Option<Self> {
        const UNITS: &[(&str, i128)] = &[
            ("ns", 1),
            ("us", 1_000),
            ("\u{b5}s", 1_000),
            ("\u{3bc}s", 1_000),
            ("ms", 1_000_000),
            ("s", 1_000_000_000),
            ("m", 60_000_000_000),
            ("h", 3_600_000_000_000),
        ];
        let (is_negative, mut rest) = match text.as_bytes().first()? {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        if rest == "0" {
            return Some(Self(0));
        }
        let mut total = 0_i128;
        while !rest.is_empty() || total == 0 {
            let digits = |text: &str| text.bytes().take_while(u8::is_ascii_digit).count();
            let whole = digits(rest);
            let (number, after) = rest.split_at(whole);
            let (fraction, after) = match after.strip_prefix('.') {
                Some(after) => after.split_at(digits(after)),
                None => ("", after),
            };
            if number.is_empty() && fraction.is_empty() || whole > 18 {
                return None;
            }
            let end = after.find(|it: char| it == '.' || it.is_ascii_digit());
            let (unit, next) = after.split_at(end.unwrap_or(after.len()));
            let nanoseconds = UNITS.iter().find(|(name, _)| *name == unit)?.1;
            let whole: i128 = if number.is_empty() { 0 } else { number.parse().ok()? };
            total += whole * nanoseconds;
            let mut scale = nanoseconds;
            for digit in fraction.bytes().take(18) {
                scale /= 10;
                total += i128::from(digit - b'0') * scale;
            }
            if next.is_empty() {
                break;
            }
            rest = next;
        }
        let total = if is_negative { -total } else { total };
        i64::try_from(total).ok().map(Self)
    }
}

impl Moment {
    /// Parses a time in RFC 3339, or a date.
    pub(in super::super) fn parse(text: &str) -> Option<Self> {
        if let Ok(time) = text.parse() {
            return Some(Self(time));
        }
        let date: jiff::civil::Date = text.parse().ok()?;
        Some(Self(date.to_zoned(TimeZone::UTC).ok()?.timestamp()))
    }

    fn zoned(&self) -> Zoned {
        self.0.to_zoned(TimeZone::UTC)
    }
}

fn no_overload<T>() -> Result<T, ExecutionError> {
    Err(failed("time", "no such overload"))
}

fn overflow(function: &str) -> ExecutionError {
    failed(function, "integer overflow")
}

impl Comparer for Span {
    fn compare(&self, other: &dyn Val) -> Result<Ordering, ExecutionError> {
        match other.downcast_ref::<Self>() {
            Some(other) => Ok(self.0.cmp(&other.0)),
            None => no_overload(),
        }
    }
}

impl Comparer for Moment {
    fn compare(&self, other: &dyn Val) -> Result<Ordering, ExecutionError> {
        match other.downcast_ref::<Self>() {
            Some(other) => Ok(self.0.cmp(&other.0)),
            None => no_overload(),
        }
    }
}

impl Adder for Span {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(other) = other.downcast_ref::<Self>() {
            let sum = self.0.checked_add(other.0).ok_or_else(|| overflow("add"))?;
            return Ok(CowVal::owned(Self(sum)));
        }
        match other.downcast_ref::<Moment>() {
            Some(other) => moved(other, self.0).map(CowVal::owned),
            None => no_overload(),
        }
    }
}

impl Subtractor for Span {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        let Some(other) = other.downcast_ref::<Self>() else { return no_overload() };
        let difference = self.0.checked_sub(other.0).ok_or_else(|| overflow("subtract"))?;
        Ok(CowVal::owned(Self(difference)))
    }
}

impl Adder for Moment {
    fn add<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        match other.downcast_ref::<Span>() {
            Some(span) => moved(self, span.0).map(CowVal::owned),
            None => no_overload(),
        }
    }
}

impl Subtractor for Moment {
    fn sub<'b, 'v>(&'b self, other: &(dyn Val + 'v)) -> Result<CowVal<'b, 'v>, ExecutionError>
    where
        Self: 'v,
    {
        if let Some(span) = other.downcast_ref::<Span>() {
            let back = span.0.checked_neg().ok_or_else(|| overflow("subtract"))?;
            return moved(self, back).map(CowVal::owned);
        }
        let Some(other) = other.downcast_ref::<Self>() else { return no_overload() };
        let difference = self.0.duration_since(other.0).as_nanos();
        let difference = i64::try_from(difference).map_err(|_| overflow("subtract"))?;
        Ok(CowVal::owned(Span(difference)))
    }
}

fn moved(moment: &Moment, nanoseconds: i64) -> Result<Moment, ExecutionError> {
    let span = SignedDuration::from_nanos(nanoseconds);
    moment.0.checked_add(span).map(Moment).map_err(|_| overflow("add"))
}

fn not_converted(function: &str, name: &str) -> ExecutionError {
    let message = format!("type conversion error from 'string' to 'google.protobuf.{name}'");
    failed(function, message)
}

fn duration(text: &CelString<'_>) -> Result<Span, ExecutionError> {
    Span::parse(text.inner()).ok_or_else(|| not_converted("duration", "Duration"))
}

fn same_duration(span: &Span) -> Span {
    span.clone()
}

/// As cel-go: seconds with an `s`.
fn duration_text(span: &Span) -> CelString<'static> {
    let seconds = SignedDuration::from_nanos(span.0).as_secs_f64();
    format!("{seconds}s").into()
}

fn timestamp(text: &CelString<'_>) -> Result<Moment, ExecutionError> {
    text.inner().parse().map(Moment).map_err(|_| not_converted("timestamp", "Timestamp"))
}

fn of_seconds(seconds: &CelInt) -> Result<Moment, ExecutionError> {
    let out_of_range = |_| failed("timestamp", "timestamp overflow");
    Timestamp::from_second(*seconds.inner()).map(Moment).map_err(out_of_range)
}

fn same_timestamp(moment: &Moment) -> Moment {
    moment.clone()
}

fn timestamp_text(moment: &Moment) -> CelString<'static> {
    moment.0.to_string().into()
}

fn unix_seconds(moment: &Moment) -> CelInt {
    CelInt::from(moment.0.as_second())
}

fn integer(number: impl Into<i64>) -> CelInt {
    CelInt::from(number.into())
}
