//! The bill of materials of the shipped program, as CycloneDX 1.5 JSON: every crate that is linked into it or runs to
//! build it, from `cargo metadata` and the lock file. The same tree gives the same bytes.

use anyhow::Context;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

/// The program that is shipped.
const PROGRAM: &str = "node-goblin";

/// The document for one target; `built_at` is its time (ISO 8601), when it is to have one.
pub fn make(root: &Path, target: &str, built_at: Option<&str>) -> anyhow::Result<Value> {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--locked",
            "--filter-platform",
            target,
        ])
        .current_dir(root)
        .output()
        .context("cargo metadata")?;
    anyhow::ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata")?;
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("Cargo.lock")?;
    document(&metadata, &checksums(&lock), built_at)
}

fn document(metadata: &Value, checksums: &BTreeMap<String, String>, built_at: Option<&str>) -> anyhow::Result<Value> {
    let list = |value: &Value, name: &str| value[name].as_array().cloned().unwrap_or_default();
    let packages: BTreeMap<String, Value> = list(metadata, "packages")
        .into_iter()
        .map(|package| (text(&package, "id"), package))
        .collect();
    let nodes: BTreeMap<String, Value> = list(&metadata["resolve"], "nodes")
        .into_iter()
        .map(|node| (text(&node, "id"), node))
        .collect();
    let (program, _) = packages
        .iter()
        .find(|(_, package)| package["name"] == PROGRAM)
        .with_context(|| format!("no crate {PROGRAM}"))?;

    let mut used = BTreeMap::new();
    let mut open = vec![program.clone()];
    while let Some(id) = open.pop() {
        let node = nodes.get(&id).with_context(|| format!("{id} is not resolved"))?;
        let below: BTreeSet<String> = list(node, "deps")
            .iter()
            .filter(|dep| is_shipped(dep))
            .map(|dep| text(dep, "pkg"))
            .collect();
        open.extend(below.iter().filter(|id| !used.contains_key(*id)).cloned());
        used.insert(id, below);
    }

    let reference = |id: &String| packages.get(id).map(purl).unwrap_or_default();
    let mut components = Vec::new();
    let mut dependencies = BTreeMap::new();
    for (id, below) in &used {
        let package = packages.get(id).with_context(|| format!("{id} is unknown"))?;
        if id != program {
            components.push(component(package, "library", checksums));
        }
        let below: BTreeSet<String> = below.iter().map(reference).collect();
        dependencies.insert(purl(package), json!({"ref": purl(package), "dependsOn": below}));
    }
    components.sort_by_key(|component| text(component, "purl"));
    let mut about = Map::new();
    if let Some(time) = built_at {
        about.insert("timestamp".into(), time.into());
    }
    let program = packages.get(program).with_context(|| format!("no crate {PROGRAM}"))?;
    about.insert("component".into(), component(program, "application", checksums));
    Ok(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": about,
        "components": components,
        "dependencies": dependencies.into_values().collect::<Vec<_>>(),
    }))
}

/// True unless only tests use it.
fn is_shipped(dependency: &Value) -> bool {
    dependency["dep_kinds"]
        .as_array()
        .is_none_or(|kinds| kinds.iter().any(|kind| kind["kind"] != "dev"))
}

fn component(package: &Value, kind: &str, checksums: &BTreeMap<String, String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut component = json!({
        "type": kind,
        "bom-ref": purl(package),
        "name": name,
        "version": version,
        "purl": purl(package),
    });
    if let Some(license) = package["license"].as_str() {
        // An older way to write OR.
        component["licenses"] = json!([{"expression": license.replace('/', " OR ")}]);
    }
    if let Some(description) = package["description"].as_str() {
        component["description"] = description.trim().into();
    }
    if let Some(sum) = checksums.get(&format!("{name} {version}")) {
        component["hashes"] = json!([{"alg": "SHA-256", "content": sum}]);
    }
    if let Some(repository) = package["repository"].as_str() {
        component["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
    }
    component
}

fn purl(package: &Value) -> String {
    let version = text(package, "version").replace('+', "%2B");
    format!("pkg:cargo/{}@{version}", text(package, "name"))
}

/// `name version` → SHA-256 of the crate's archive.
fn checksums(lock: &str) -> BTreeMap<String, String> {
    let quoted = |block: &str, name: &str| {
        block
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(" = \""))
            .and_then(|rest| rest.strip_suffix('"'))
            .map(str::to_owned)
    };
    lock.split("[[package]]")
        .filter_map(|block| {
            let key = format!("{} {}", quoted(block, "name")?, quoted(block, "version")?);
            Some((key, quoted(block, "checksum")?))
        })
        .collect()
}

fn text(value: &Value, name: &str) -> String {
    value[name].as_str().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_only_tests_use_is_left_out_and_the_rest_is_sorted() {
        let package =
            |name: &str, license: &str| json!({"id": name, "name": name, "version": "1.0.0+x", "license": license});
        let dep = |name: &str, kind: Value| json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("node-goblin", "MIT"), package("z", "MIT/Apache-2.0"), package("a", "ISC"), package("t", "MIT")],
            "resolve": {"nodes": [
                {"id": "node-goblin", "deps": [dep("z", Value::Null), dep("t", "dev".into())]},
                {"id": "z", "deps": [dep("a", "build".into())]},
                {"id": "a", "deps": []},
                {"id": "t", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"beef\"\n";
        let bom = document(&metadata, &checksums(lock), Some("2026-12-01T00:00:00Z")).unwrap();
        let names: Vec<_> = bom["components"]
            .as_array()
            .unwrap()
            .iter()
            .map(|c| c["name"].clone())
            .collect();
        assert_eq!(names, ["a", "z"]);
        assert_eq!(bom["components"][0]["hashes"][0]["content"], "beef");
        assert_eq!(bom["components"][1]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(bom["metadata"]["component"]["purl"], "pkg:cargo/node-goblin@1.0.0%2Bx");
        assert_eq!(
            bom["dependencies"][1],
            json!({"ref": "pkg:cargo/node-goblin@1.0.0%2Bx", "dependsOn": ["pkg:cargo/z@1.0.0%2Bx"]})
        );
    }
}
