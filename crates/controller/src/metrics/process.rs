//! The metrics of the process, with the names of Prometheus' client libraries. They are read from
//! `/proc` at each scrape; those that cannot be read are left out.

use std::fmt;

use procfs::WithCurrentSystemInfo;
use procfs::process::{LimitValue, Process};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

/// Reads `/proc/self`.
#[derive(Debug)]
pub(super) struct ProcessCollector;

impl Collector for ProcessCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        let ticks = procfs::ticks_per_second() as f64;
        if let Ok(stat) = process.stat() {
            let cpu_seconds = (stat.utime + stat.stime) as f64 / ticks;
            counter(&mut encoder, "process_cpu_seconds", "User and system CPU time", cpu_seconds)?;
            let resident = stat.rss_bytes().get() as f64;
            gauge(&mut encoder, "process_resident_memory_bytes", "Resident memory", resident)?;
            let virtual_bytes = stat.vsize as f64;
            gauge(&mut encoder, "process_virtual_memory_bytes", "Virtual memory", virtual_bytes)?;
            gauge(&mut encoder, "process_threads", "Threads", stat.num_threads as f64)?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let start = boot as f64 + stat.starttime as f64 / ticks;
                let help = "Start, since the Unix epoch";
                gauge(&mut encoder, "process_start_time_seconds", help, start)?;
            }
        }
        if let Ok(files) = process.fd_count() {
            gauge(&mut encoder, "process_open_fds", "Open file descriptors", files as f64)?;
        }
        if let Ok(limits) = process.limits()
            && let LimitValue::Value(files) = limits.max_open_files.soft_limit
        {
            let help = "Maximum number of open file descriptors; absent if there is none";
            gauge(&mut encoder, "process_max_fds", help, files as f64)?;
        }
        Ok(())
    }
}

fn counter(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> fmt::Result {
    let counter = ConstCounter::new(value);
    counter.encode(encoder.encode_descriptor(name, help, None, counter.metric_type())?)
}

fn gauge(encoder: &mut DescriptorEncoder, name: &str, help: &str, value: f64) -> fmt::Result {
    let gauge = ConstGauge::new(value);
    gauge.encode(encoder.encode_descriptor(name, help, None, gauge.metric_type())?)
}
