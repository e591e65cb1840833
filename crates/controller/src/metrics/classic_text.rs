//! The text format of Prometheus, version 0.0.4, for clients that do not ask for OpenMetrics.
//! Samples are the same in both formats, the lines about them are not.

/// Converts metrics from OpenMetrics, as the metrics' library writes them: counters are declared
/// with the suffix `_total` of their samples, units are left out, and no line ends the text.
pub(super) fn from_open_metrics(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut classic = String::with_capacity(text.len());
    for (index, line) in lines.iter().enumerate() {
        let mut words = line.splitn(4, ' ');
        let declaration = (words.next(), words.next(), words.next(), words.next());
        match declaration {
            (Some("#"), Some("UNIT" | "EOF"), ..) => {}
            (Some("#"), Some(keyword @ ("HELP" | "TYPE")), Some(name), Some(rest)) => {
                // The type follows the description.
                let is_counter = [index, index + 1]
                    .iter()
                    .any(|at| lines.get(*at).is_some_and(|line| is_type_of(line, name, "counter")));
                let suffix = if is_counter { "_total" } else { "" };
                classic.push_str(&format!("# {keyword} {name}{suffix} {rest}\n"));
            }
            _ => {
                classic.push_str(line);
                classic.push('\n');
            }
        }
    }
    classic
}

fn is_type_of(line: &str, name: &str, kind: &str) -> bool {
    let rest = line.strip_prefix("# TYPE ").and_then(|rest| rest.strip_prefix(name));
    rest.and_then(|rest| rest.strip_prefix(' ')) == Some(kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_change_and_samples_do_not() {
        let open_metrics = "\
# HELP syncs Syncs.
# TYPE syncs counter
syncs_total{result=\"a # TYPE b\"} 1
# HELP depth Depth.
# TYPE depth gauge
# UNIT depth nodes
depth 2
# EOF
";
        let classic = "\
# HELP syncs_total Syncs.
# TYPE syncs_total counter
syncs_total{result=\"a # TYPE b\"} 1
# HELP depth Depth.
# TYPE depth gauge
depth 2
";
        assert_eq!(from_open_metrics(open_metrics), classic);
    }
}
