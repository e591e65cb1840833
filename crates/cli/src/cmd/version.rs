//! `everynode version`.

pub fn execute() -> anyhow::Result<()> {
    println!("everynode {} (follows Kubernetes 1.36)", env!("CARGO_PKG_VERSION"));
    Ok(())
}
