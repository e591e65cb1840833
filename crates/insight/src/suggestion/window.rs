//! A window of a policy as people write it on a command line.

use std::str::FromStr;

use everynode_core::api::Days;

use super::yaml::quoted;

/// One of the `windows` of a policy, as in `Mon-Fri 09:00-16:00 Europe/Berlin`. The days and the
/// time zone may be left out. The policy's parser checks its times and its zone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    days: Vec<&'static str>,
    from: String,
    to: String,
    zone: Option<String>,
}

impl Window {
    /// The window as an item of `windows`, in YAML.
    pub(super) fn yaml(&self) -> String {
        let mut fields = Vec::new();
        if !self.days.is_empty() {
            fields.push(format!("days: [{}]", self.days.join(", ")));
        }
        fields.push(format!("from: {}", quoted(&self.from)));
        fields.push(format!("to: {}", quoted(&self.to)));
        fields.extend(self.zone.as_ref().map(|zone| format!("timeZone: {}", quoted(zone))));
        format!("{{{}}}", fields.join(", "))
    }
}

impl FromStr for Window {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const FORM: &str = "not a window such as \"Mon-Fri 09:00-16:00 Europe/Berlin\"";
        let mut words = text.split_whitespace().peekable();
        let names_days = words.peek().is_some_and(|word| word.starts_with(char::is_alphabetic));
        let days = match words.next_if(|_| names_days) {
            Some(word) => days(word).ok_or(FORM)?,
            None => Vec::new(),
        };
        let (from, to) = words.next().and_then(|word| word.split_once('-')).ok_or(FORM)?;
        let zone = words.next().map(str::to_owned);
        match words.next() {
            Some(_) => Err(FORM),
            None => Ok(Self { days, from: from.to_owned(), to: to.to_owned(), zone }),
        }
    }
}

/// The days of `Mon-Wed,Sat`, Monday first.
fn days(text: &str) -> Option<Vec<&'static str>> {
    let number = |name: &str| Days::NAMES.iter().position(|known| known.eq_ignore_ascii_case(name));
    let mut has = [false; Days::NAMES.len()];
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (mut day, last) = (number(first)?, number(last)?);
        has[day] = true;
        while day != last {
            day = (day + 1) % has.len();
            has[day] = true;
        }
    }
    Some(Days::NAMES.into_iter().zip(has).filter_map(|(name, has)| has.then_some(name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_days_times_and_a_zone() {
        for (text, expected) in [
            (
                "Mon-Wed 09:00-16:00 Europe/Berlin",
                r#"{days: [Mon, Tue, Wed], from: "09:00", to: "16:00", timeZone: "Europe/Berlin"}"#,
            ),
            ("22:00-04:00", r#"{from: "22:00", to: "04:00"}"#),
            (
                "sat-Mon,Wed 00:00-24:00",
                r#"{days: [Mon, Wed, Sat, Sun], from: "00:00", to: "24:00"}"#,
            ),
        ] {
            let window: Window = text.parse().expect(text);
            assert_eq!(window.yaml(), expected, "{text}");
        }
        for text in ["", "Mon", "Monday 1-2", "Mon 09:00", "09:00-10:00 UTC now"] {
            assert!(text.parse::<Window>().is_err(), "{text}");
        }
    }
}
